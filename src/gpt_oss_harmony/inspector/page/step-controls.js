/**
 * Controls to move through tokens: buttons, a slider, a number, and keys.
 *
 * A place is a number of tokens behind: 0 is before the first one. What a place shows is up to
 * the tab; here is only which place it is.
 */

import { button, element, labelled, select } from "./element.js";
import { phrase } from "./words.js";

/** Tokens per second while playing. */
const SPEEDS = /** @type {const} */ ([
  4, 15, 60, 250,
]);

/**
 * @typedef {object} StepOptions
 * @property {(place: number) => void} onMove the place has changed
 * @property {(place: number, forward: boolean) => number} [mark] where Page Down and Page Up go
 */

export class StepControls {
  #onMove;
  #mark;
  #count = 0;
  #place = 0;
  #playing = 0;
  #perSecond = 15;

  /**
   * @param {HTMLElement} host
   * @param {StepOptions} options
   */
  constructor(host, { onMove, mark }) {
    this.#onMove = onMove;
    this.#mark = mark;
    this.#first = button(phrase("First"), () => this.#stopAt(0), { title: phrase("Key: Home") });
    this.#previous = button(phrase("Back"), () => this.#stopAt(this.#place - 1), { title: phrase("Key: ←") });
    this.#play = button(phrase("Play"), () => this.#toggle(), { title: phrase("Key: Space"), class: "play" });
    this.#next = button(phrase("Next"), () => this.#stopAt(this.#place + 1), { title: phrase("Key: →") });
    this.#last = button(phrase("Last"), () => this.#stopAt(this.#count), { title: phrase("Key: End") });
    this.#slider = element("input", {
      type: "range",
      min: 0,
      "aria-label": phrase("Tokens read"),
      oninput: () => this.#stopAt(this.#slider.valueAsNumber),
    });
    this.#number = element("input", {
      type: "number",
      min: 0,
      inputmode: "numeric",
      "aria-label": phrase("Number of tokens read"),
      onchange: () => this.#stopAt(this.#number.valueAsNumber || 0),
    });
    this.#total = element("span", { class: "total" });
    const speeds = SPEEDS.map((count) => /** @type {const} */ ([String(count), phrase("{count} per second", { count })]));
    host.append(
      element(
        "div",
        { class: "steps", role: "group", "aria-label": phrase("Steps") },
        element(
          "div",
          { class: "step-buttons" },
          this.#first,
          this.#previous,
          this.#play,
          this.#next,
          this.#last,
        ),
        this.#slider,
        element("span", { class: "step-place" }, this.#number, this.#total),
        labelled(
          phrase("Speed"),
          select(speeds, String(this.#perSecond), (value) => {
            this.#perSecond = Number(value);
          }),
        ),
      ),
    );
    this.show(0, 0);
  }

  #first;
  #previous;
  #play;
  #next;
  #last;
  #slider;
  #number;
  #total;

  /** How many tokens are behind. */
  get place() {
    return this.#place;
  }

  /**
   * Begin anew with `count` tokens; tells nobody.
   *
   * @param {number} count
   * @param {number} place
   */
  show(count, place) {
    this.pause();
    this.#count = count;
    this.#place = Math.min(place, count);
    this.#slider.max = this.#number.max = String(count);
    this.#total.textContent = phrase("of {count} tokens", { count });
    this.#draw();
  }

  /**
   * Go to a place, or to the nearest that there is, and tell of it.
   *
   * @param {number} place
   */
  move(place) {
    this.#place = Math.max(0, Math.min(place, this.#count));
    this.#draw();
    this.#onMove(this.#place);
  }

  /**
   * Say in words what stands at the place, for those who hear the slider.
   *
   * @param {string} words
   */
  describe(words) {
    const where = phrase("{place} of {count} tokens", { place: this.#place, count: this.#count });
    this.#slider.setAttribute("aria-valuetext", words === "" ? where : `${where}, ${words}`);
  }

  /**
   * Let keys that are pressed in `region` move, too: before anything in it gets them, as a token
   * view would go its own way.
   *
   * @param {HTMLElement} region
   */
  listen(region) {
    region.addEventListener("keydown", (event) => this.#onKey(event), { capture: true });
  }

  /** Stop where it is. */
  pause() {
    cancelAnimationFrame(this.#playing);
    this.#playing = 0;
    this.#play.textContent = phrase("Play");
  }

  /** @param {number} place */
  #stopAt(place) {
    this.pause();
    this.move(place);
  }

  #toggle() {
    if (this.#playing !== 0) {
      this.pause();
      return;
    }
    if (this.#place === this.#count) this.move(0);
    this.#play.textContent = phrase("Pause");
    let last = performance.now();
    // A frame is shorter or longer than a token's time, so parts of tokens are carried over.
    let owed = 0;
    /** @param {number} now */
    const frame = (now) => {
      this.#playing = requestAnimationFrame(frame);
      owed += (Math.max(now - last, 0) * this.#perSecond) / 1000;
      last = now;
      if (owed < 1) return;
      this.move(this.#place + Math.floor(owed));
      owed %= 1;
      if (this.#place === this.#count || !this.#play.checkVisibility()) this.pause();
    };
    this.#playing = requestAnimationFrame(frame);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { target } = event;
    if (isWrittenIn(target)) return;
    if (event.key === " ") {
      if (target instanceof Element && target.closest("button, summary, a, label")) return;
      this.#toggle();
    } else {
      const place = this.#placeOf(event.key);
      if (place === null) return;
      this.#stopAt(place);
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * @param {string} key
   * @returns {number | null} null for a key that does not move
   */
  #placeOf(key) {
    const place = this.#place;
    switch (key) {
      case "ArrowLeft":
        return place - 1;
      case "ArrowRight":
        return place + 1;
      case "Home":
        return 0;
      case "End":
        return this.#count;
      case "PageUp":
      case "PageDown":
        return this.#mark?.(place, key === "PageDown") ?? null;
      default:
        return null;
    }
  }

  #draw() {
    const atStart = this.#place === 0;
    const atEnd = this.#place === this.#count;
    setDisabled(this.#first, atStart);
    setDisabled(this.#previous, atStart);
    setDisabled(this.#next, atEnd);
    setDisabled(this.#last, atEnd);
    setDisabled(this.#play, this.#count === 0);
    this.#slider.value = this.#number.value = String(this.#place);
    this.describe("");
  }
}

/**
 * Disable a button without taking the focus from it, which would end the use of keys.
 *
 * @param {HTMLButtonElement} made
 * @param {boolean} disabled
 */
function setDisabled(made, disabled) {
  made.setAttribute("aria-disabled", String(disabled));
}

/**
 * Whether keys pressed here write something, or choose.
 *
 * @param {EventTarget | null} target
 */
function isWrittenIn(target) {
  if (target instanceof HTMLInputElement) return !["range", "checkbox"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}
