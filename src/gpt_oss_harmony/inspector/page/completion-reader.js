/**
 * Parses a completion while it grows. There is one request at a time, at most every 200
 * milliseconds, with all tokens so far.
 */

import { call } from "./api.js";

/** @import { Parsing } from "./wire.js" */

const PAUSE = 200;

export class CompletionReader {
  #tools;
  #onRead;
  #signal;
  /** @type {readonly number[]} */
  #ids = [];
  #parsed = 0;
  /** @type {Promise<void> | null} */
  #running = null;
  #isOver = false;

  /**
   * @param {string[]} tools the recipients that the conversation declares
   * @param {(parsing: Parsing) => void} onRead is given each parsing, in their order
   * @param {AbortSignal} signal ends what is asked for while the completion grows
   */
  constructor(tools, onRead, signal) {
    this.#tools = tools;
    this.#onRead = onRead;
    this.#signal = signal;
  }

  /**
   * There are more tokens; they are parsed when it is time.
   *
   * @param {readonly number[]} ids all of them
   */
  grow(ids) {
    this.#ids = ids;
    this.#running ??= this.#follow().catch(() => undefined); // `finish` asks again, and tells
  }

  /**
   * These are all tokens: parse them. Throws as `call` does.
   *
   * @param {readonly number[]} ids
   * @returns {Promise<Parsing>}
   */
  async finish(ids) {
    this.#isOver = true;
    await this.#running;
    return this.#parse(ids);
  }

  async #follow() {
    while (!this.#isOver && this.#parsed < this.#ids.length) {
      this.#parsed = this.#ids.length;
      const pause = new Promise((resolve) => setTimeout(resolve, PAUSE));
      this.#onRead(await this.#parse(this.#ids, this.#signal));
      await pause;
    }
    this.#running = null;
  }

  /**
   * @param {readonly number[]} ids
   * @param {AbortSignal} [signal]
   */
  #parse(ids, signal) {
    const request = { input: ids.join(" "), role: ASSISTANT, tools: this.#tools };
    return call("parse", request, signal);
  }
}

const ASSISTANT = /** @type {const} */ ("assistant");
