/** A token view with a cursor in it, and the controls that move this. */

import { element } from "./element.js";
import { StepControls } from "./step-controls.js";
import { tokenLooks } from "./token-looks.js";
import { TokenView } from "./token-view.js";

/** @import { Row, Span } from "./token-view.js" */
/** @import { Tokens } from "./wire.js" */

/**
 * @typedef {object} SteppedOptions
 * @property {string} label what the tokens are
 * @property {string} keys a sentence on the keys
 * @property {(place: number) => void} onPlace the cursor has moved: so many tokens are behind it
 * @property {(place: number, forward: boolean) => number} [mark] where Page Down and Page Up go
 */

export class SteppedView {
  #onPlace;
  #viewHost;
  #controls;

  /**
   * @param {HTMLElement} host
   * @param {HTMLElement} region keys that are pressed anywhere in it move the cursor
   * @param {SteppedOptions} options
   */
  constructor(host, region, { label, keys, onPlace, mark }) {
    this.#onPlace = onPlace;
    const bar = element("div", { class: "pane-head step-bar" });
    this.#controls = new StepControls(bar, { onMove: (place) => this.#moved(place), mark });
    this.#controls.listen(region);
    this.#viewHost = element("div", { class: "tokens" });
    /** To decorate and shade; what it shows is shown with `show` here. */
    this.view = new TokenView(this.#viewHost, {
      label,
      onChoose: (index) => this.move(index + 1),
    });
    this.#viewHost.addEventListener("focusin", (event) => this.#follow(event.target));
    const looks = element("div", { class: "switches" }, ...tokenLooks());
    bar.append(element("p", { class: "hint" }, keys), looks);
    host.append(bar, element("div", { class: "token-box" }, this.#viewHost));
  }

  /** How many tokens are behind the cursor. */
  get place() {
    return this.#controls.place;
  }

  /**
   * Show other tokens. The cursor is put to `place`, but nothing is marked, as that would scroll
   * away from where somebody writes; and nobody is told.
   *
   * @param {Tokens} tokens
   * @param {Span[]} spans
   * @param {Row[]} rows
   * @param {number} place
   */
  show(tokens, spans, rows, place) {
    this.view.show(tokens, spans, rows);
    this.#controls.show(tokens.ids.length, place);
  }

  /**
   * Put the cursor somewhere else, as somebody wants it there: what plays stops.
   *
   * @param {number} place
   */
  move(place) {
    this.#controls.pause();
    this.#controls.move(place);
  }

  /**
   * Say in words what stands at the cursor.
   *
   * @param {string} words
   */
  describe(words) {
    this.#controls.describe(words);
  }

  /** @param {number} place */
  #moved(place) {
    this.view.mark(place === 0 ? null : place - 1);
    if (place > 0 && this.#viewHost.contains(document.activeElement)) this.view.focus(place - 1);
    this.#onPlace(place);
  }

  /**
   * The focus goes to another token, as by the keys for lines: the cursor goes along.
   *
   * @param {EventTarget | null} target
   */
  #follow(target) {
    const token = target instanceof Element ? target.closest("[data-index]") : null;
    if (token === null) return;
    const place = Number(token.getAttribute("data-index")) + 1;
    if (place !== this.place) this.move(place);
  }
}
