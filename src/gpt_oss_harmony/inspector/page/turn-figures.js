/** The figures of a turn: its tokens, the time to the first token, and tokens per second. */

import { counted } from "./counted.js";
import { element, fill } from "./element.js";

export class TurnFigures {
  #host;
  #promptTokens;
  #sent = performance.now();
  #first = 0;
  #last = 0;
  #count = 0;

  /**
   * The clock starts now.
   *
   * @param {HTMLElement} host
   * @param {number} promptTokens
   */
  constructor(host, promptTokens) {
    this.#host = host;
    this.#promptTokens = promptTokens;
    this.#draw("waiting");
  }

  /** @param {number} tokens that have just arrived */
  add(tokens) {
    this.#last = performance.now();
    if (this.#count === 0) this.#first = this.#last;
    this.#count += tokens;
    this.#draw("sampling");
  }

  /** @param {string} how the turn has ended */
  end(how) {
    this.#draw(how);
  }

  /** @param {string} state */
  #draw(state) {
    const seconds = (this.#last - this.#first) / 1000;
    // The first token shows how long the prompt takes, and not how fast the model is.
    const rate = this.#count > 1 && seconds > 0 ? (this.#count - 1) / seconds : null;
    const wait = this.#count === 0 ? null : this.#first - this.#sent;
    const figures = /** @type {const} */ ([
      ["Prompt", counted(this.#promptTokens, "token")],
      ["Sampled", counted(this.#count, "token")],
      ["Time to first token", wait === null ? "–" : `${Math.round(wait).toLocaleString("en")} ms`],
      ["Tokens per second", rate === null ? "–" : rate.toFixed(rate < 10 ? 1 : 0)],
      ["State", state],
    ]);
    fill(
      this.#host,
      ...figures.map(([name, value]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, value)),
      ),
    );
  }
}
