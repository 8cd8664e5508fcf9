/** The figures of a turn: its tokens, the time to the first token, and tokens per second. */

import { element, fill } from "./element.js";
import { digits, phrase, tokenCount } from "./words.js";

/** @typedef {keyof typeof STATES} TurnState */

const STATES = {
  waiting: phrase("waiting"),
  sampling: phrase("sampling"),
  stop: phrase("stop"),
  length: phrase("length"),
  stopped: phrase("stopped"),
  "broken off": phrase("broken off"),
};

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

  /** @param {TurnState} how the turn has ended */
  end(how) {
    this.#draw(how);
  }

  /** @param {TurnState} state */
  #draw(state) {
    const seconds = (this.#last - this.#first) / 1000;
    // The first token shows how long the prompt takes, and not how fast the model is.
    const rate = this.#count > 1 && seconds > 0 ? (this.#count - 1) / seconds : null;
    const wait = this.#count === 0 ? null : this.#first - this.#sent;
    const figures = /** @type {const} */ ([
      [phrase("Prompt"), tokenCount(this.#promptTokens)],
      [phrase("Sampled"), tokenCount(this.#count)],
      [phrase("Time to first token"), wait === null ? "–" : phrase("{time} ms", { time: Math.round(wait) })],
      [phrase("Tokens per second"), rate === null ? "–" : rateOf(rate)],
      [phrase("State"), STATES[state]],
    ]);
    fill(
      this.#host,
      ...figures.map(([name, value]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, value)),
      ),
    );
  }
}

/** @param {number} rate */
function rateOf(rate) {
  const places = rate < 10 ? 1 : 0;
  return digits(rate, { minimumFractionDigits: places, maximumFractionDigits: places, useGrouping: false });
}
