/** Reads what a tab shows from the server, while the tab is in view, and again after changes. */

import { LatestCall } from "./latest-call.js";
import { ProblemLine } from "./problem-line.js";

export class TabReader {
  #host;
  #read;
  #calls = new LatestCall(250);
  #isStale = true;

  /** The error of the last reading. */
  problem = new ProblemLine();

  /**
   * @param {HTMLElement} host the tab, busy while it reads
   * @param {(signal: AbortSignal) => Promise<void>} read calls `finish` once the tab shows everything
   */
  constructor(host, read) {
    this.#host = host;
    this.#read = read;
  }

  /** The tab has come into view: read again if something has changed. */
  show() {
    if (this.#isStale) this.#calls.now((signal) => this.#update(signal));
  }

  /** Something has changed: read again, now or when the tab comes into view. */
  change() {
    this.#isStale = true;
    if (this.#host.checkVisibility()) this.#calls.wish((signal) => this.#update(signal));
  }

  /** The tab shows everything as it is now. */
  finish() {
    this.#isStale = false;
  }

  /** @param {AbortSignal} signal */
  async #update(signal) {
    this.problem.say("");
    this.#host.classList.remove("stale");
    this.#host.setAttribute("aria-busy", "true");
    try {
      await this.#read(signal);
    } catch (error) {
      if (!signal.aborted) {
        this.problem.say(error);
        this.#host.classList.add("stale");
      }
    }
    if (!signal.aborted) this.#host.removeAttribute("aria-busy");
  }
}
