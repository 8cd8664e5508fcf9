/**
 * What one parser, strict or lenient, knows at a place: its state, and the messages up to there.
 */

import { element, fill } from "./element.js";
import { messageCard, openCard } from "./message-card.js";
import { strictWords } from "./problems.js";
import { ReadingIndex } from "./reading.js";
import { phrase } from "./words.js";

/** @import { HarmonyMessage, Reading, StateChange } from "./wire.js" */

/** Complete messages that are shown at once, the last ones. */
const SHOWN = 12;

const FIELDS = /** @type {const} */ ([
  ["state", phrase("State")],
  ["role", phrase("Role")],
  ["channel", phrase("Channel")],
  ["recipient", phrase("Recipient")],
  ["content_type", phrase("Content type")],
  ["delta", phrase("Last delta")],
]);

/** @typedef {Record<typeof FIELDS[number][0], string | null>} Knowledge */

/** What each state is called in words. */
const STATES = /** @type {Record<string, string>} */ ({
  ExpectStart: phrase("Between messages"),
  Header: phrase("In a header"),
  Content: phrase("In a message"),
});

export class ReadingPanel {
  /** @type {Reading | null} */
  #reading = null;
  #index = new ReadingIndex(NOTHING, 0);
  #count = 0;
  /** @type {ReadonlySet<number>} */
  #differing = new Set();
  #shown = { complete: -1, total: -1 };
  #values;
  #end;
  #heading;
  #messages;
  #open;
  #scroll;

  /**
   * @param {HTMLElement} host
   * @param {string} title
   * @param {string} label what its messages are, for those who do not see where they stand
   */
  constructor(host, title, label) {
    this.#values = new Map(FIELDS.map(([name]) => [name, element("dd")]));
    this.#end = element("p", { class: "reading-end", hidden: true });
    this.#heading = element("h3");
    this.#messages = element("div", { class: "cards" });
    this.#open = element("div", { class: "cards" });
    this.#scroll = element(
      "div",
      { class: "reading-messages", role: "group", "aria-label": label, tabindex: "0" },
      this.#messages,
      this.#open,
    );
    host.append(
      element(
        "section",
        { class: "reading", "aria-label": title },
        element("h2", {}, title),
        element(
          "dl",
          { class: "knowledge" },
          ...FIELDS.map(([name, words]) =>
            element("div", {}, element("dt", {}, words), this.#values.get(name)),
          ),
        ),
        this.#end,
        this.#heading,
        this.#scroll,
      ),
    );
  }

  get index() {
    return this.#index;
  }

  /**
   * Take another reading of `count` tokens; `move` shows it.
   *
   * @param {Reading} reading
   * @param {number} count
   * @param {ReadonlySet<number>} differing the messages that the other parser reads in another way
   */
  take(reading, count, differing) {
    this.#differing = differing;
    this.#reading = reading;
    this.#index = new ReadingIndex(reading, count);
    this.#count = count;
    this.#shown = { complete: -1, total: -1 };
  }

  /**
   * What is known at a place.
   *
   * @param {number} place
   * @returns {Knowledge}
   */
  knowledgeAt(place) {
    const { state, ...known } = this.#index.stateAt(place);
    const delta = this.#index.deltaAt(place);
    return {
      ...known,
      state: STATES[state] ?? state,
      delta: delta === null ? null : JSON.stringify(delta),
    };
  }

  /**
   * Show a place.
   *
   * @param {number} place
   * @param {Knowledge} [other] what the other parser knows, to mark what differs
   */
  move(place, other) {
    if (this.#reading === null) return;
    const known = this.knowledgeAt(place);
    for (const [name] of FIELDS) {
      const value = /** @type {HTMLElement} */ (this.#values.get(name));
      value.textContent = known[name] ?? phrase("none");
      value.classList.toggle("none", known[name] === null);
      const differs = other !== undefined && other[name] !== known[name];
      value.classList.toggle("differs", differs);
      value.title = differs ? phrase("The other parser: {value}", { value: other[name] ?? phrase("none") }) : "";
    }
    this.#showEnd(this.#reading, place);
    this.#showMessages(this.#reading, place);
  }

  /**
   * @param {Reading} reading
   * @param {number} place
   */
  #showEnd(reading, place) {
    const { error, incomplete } = reading;
    const failed = error !== null && (place > error.position || place === this.#count);
    const broken = incomplete && place === this.#count;
    this.#end.hidden = !failed && !broken;
    this.#end.classList.toggle("problem", failed);
    if (failed) {
      const position = String(error.position);
      const where =
        error.position < this.#count
          ? phrase("Token {position} does not fit: ", { position })
          : phrase("The end does not fit: ");
      fill(this.#end, element("strong", {}, where), strictWords(error));
    } else if (broken) {
      fill(this.#end, endOf(reading));
    }
  }

  /**
   * @param {Reading} reading
   * @param {number} place
   */
  #showMessages({ messages, message_ends: ends }, place) {
    const complete = this.#index.completeAt(place);
    const isCut = place === this.#count && this.#index.whole < ends.length;
    const first = Math.max(complete - SHOWN, 0);
    const count = phrase("Messages complete: {complete} of {all}", { complete, all: ends.length });
    const left = first === 0 ? "" : phrase(", of which the last {shown}", { shown: SHOWN });
    const cut = isCut ? phrase("; the last one is cut off") : "";
    this.#heading.textContent = count + left + cut;
    if (complete !== this.#shown.complete) {
      this.#shown.complete = complete;
      const cards = messages
        .slice(first, complete)
        .map((message, position) => this.#card(message, first + position));
      fill(this.#messages, ...cards);
    }
    const state = this.#index.stateAt(place);
    const text = this.#index.openTextAt(place);
    const isOpen = state.state === "Content" || text !== "";
    fill(this.#open, isOpen && openCard(state, text));
    this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }

  /**
   * @param {HarmonyMessage} message
   * @param {number} index
   */
  #card(message, index) {
    const differs = this.#differing.has(index);
    const card = messageCard(message, differs ? phrase("differs") : undefined);
    card.classList.toggle("differs", differs);
    return card;
  }
}

/**
 * Where the tokens of an incomplete reading end, as a sentence.
 *
 * @param {Reading} reading
 */
function endOf({ changes, recoveries }) {
  if (changes[changes.length - 1].state === "Content") return phrase("The tokens end inside a message.");
  const isPlain = recoveries.some(({ kind }) => kind === "no-markup");
  return isPlain ? phrase("The tokens end without a stop token.") : phrase("The tokens end inside a header.");
}

/** @type {StateChange} */
const START = {
  index: -1,
  state: "Header",
  role: null,
  channel: null,
  recipient: null,
  content_type: null,
};

/** @type {Reading} */
const NOTHING = {
  changes: [START],
  deltas: [],
  message_ends: [],
  messages: [],
  recoveries: [],
  error: null,
  incomplete: false,
};
