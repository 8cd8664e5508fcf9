/** Two panes side by side; a narrow window shows one of them, and a switch to the other. */

import { button, element } from "./element.js";
import { phrase } from "./words.js";

/** @typedef {{ title: string, pane: HTMLElement }} Pane */

export class Panes {
  #buttons;
  node;

  /**
   * @param {Pane} first where people write
   * @param {Pane} second what comes of it
   * @param {0 | 1} shown the one that a narrow window shows at first
   */
  constructor(first, second, shown) {
    this.#buttons = [first, second].map(({ title }, position) =>
      button(title, () => this.show(/** @type {0 | 1} */ (position))),
    );
    const group = { class: "segmented pane-switch", role: "group", "aria-label": phrase("Pane") };
    const choose = element("div", group, ...this.#buttons);
    this.node = element("div", { class: "panes" }, choose, first.pane, second.pane);
    this.show(shown);
  }

  /** @param {0 | 1} shown */
  show(shown) {
    this.node.dataset.shown = String(shown);
    for (const [position, made] of this.#buttons.entries()) {
      made.setAttribute("aria-pressed", String(position === shown));
    }
  }

  /**
   * Give the second pane a title, such as with a count.
   *
   * @param {string} title
   */
  set result(title) {
    const [, second] = this.#buttons;
    if (second !== undefined) second.textContent = title;
  }

  /** @param {boolean} isEmpty whether there is no result yet: both panes fit, one below the other */
  set empty(isEmpty) {
    this.node.classList.toggle("empty", isEmpty);
  }
}
