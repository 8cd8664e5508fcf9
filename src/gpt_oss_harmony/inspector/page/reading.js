/**
 * An index of the parser's states, one for each place in the tokens.
 *
 * A place is the number of tokens read: 0 is before the first token, n after the last. A binary
 * search in the changes finds the state at a place. Per token, only the end of its text is stored.
 */

/** @import { Reading, StateChange } from "./wire.js" */

export class ReadingIndex {
  /** @type {Reading} */
  #reading;
  /** The places at which the state changed, in order. */
  #changes;
  /** All text that the tokens have completed. */
  #text;
  /** Of that, what the first n tokens have completed. */
  #textEnds;

  /**
   * @param {Reading} reading
   * @param {number} count of all tokens
   */
  constructor(reading, count) {
    this.#reading = reading;
    this.#changes = reading.changes.map((change) => change.index + 1);
    this.#text = reading.deltas.join("");
    this.#textEnds = new Uint32Array(reading.deltas.length + 1);
    for (const [position, delta] of reading.deltas.entries()) {
      this.#textEnds[position + 1] = this.#textEnds[position] + (delta?.length ?? 0);
    }
    /** How many messages are whole: the end of the tokens may have cut the last one off. */
    this.whole = cutMessage(reading) ?? reading.message_ends.length;
    /** The last place: after all tokens, or before the one that the strict parser refused. */
    this.end = Math.min(reading.error?.position ?? count, count);
  }

  /**
   * The state at a place.
   *
   * @param {number} place
   * @returns {StateChange}
   */
  stateAt(place) {
    return this.#reading.changes[Math.max(countUpTo(this.#changes, place) - 1, 0)];
  }

  /**
   * What the token before a place has added to the text; null where it was nothing.
   *
   * @param {number} place
   */
  deltaAt(place) {
    return this.#reading.deltas[place - 1] ?? null;
  }

  /**
   * How many messages are complete at a place.
   *
   * @param {number} place
   */
  completeAt(place) {
    return Math.min(countUpTo(this.#reading.message_ends, place - 1), this.whole);
  }

  /**
   * The text so far of the message that is not complete at a place.
   *
   * @param {number} place
   */
  openTextAt(place) {
    const complete = this.completeAt(place);
    const start = complete === 0 ? 0 : this.#reading.message_ends[complete - 1] + 1;
    return this.#text.slice(this.#textEndAt(start), this.#textEndAt(place));
  }

  /** @param {number} place */
  #textEndAt(place) {
    return this.#textEnds[Math.min(place, this.#textEnds.length - 1)];
  }

  /**
   * The next place with another state; the end where there is none.
   *
   * @param {number} place
   */
  changeAfter(place) {
    return this.#changes[countUpTo(this.#changes, place)] ?? this.end;
  }

  /**
   * The last place before this one at which the state changed.
   *
   * @param {number} place
   */
  changeBefore(place) {
    return this.#changes[countUpTo(this.#changes, place - 1) - 1] ?? 0;
  }
}

/**
 * The index of the message that the end of the tokens has cut off; null where there is none.
 *
 * @param {Reading} reading
 * @returns {number | null}
 */
export function cutMessage({ changes, messages, incomplete }) {
  // The tokens may end within a header as well, which makes no message.
  const isOpen = incomplete && changes[changes.length - 1].state === "Content";
  return isOpen ? messages.length - 1 : null;
}

/**
 * Count the numbers of an ascending list that are at most `limit`.
 *
 * @param {number[]} ascending
 * @param {number} limit
 */
function countUpTo(ascending, limit) {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ascending[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
