/** Reads what a tab shows from the server, while the tab is in view, and again after changes. */

import { element } from "./element.js";
import { LatestCall } from "./latest-call.js";

export class TabReader {
  #host;
  #read;
  #calls = new LatestCall(250);
  #isStale = true;

  /** The error of the last reading, hidden while there is none. */
  problem = element("p", { class: "problem", role: "alert", hidden: true });

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

  /** @param {unknown} problem an error, or words; "" for none */
  tell(problem) {
    this.problem.hidden = problem === "";
    this.problem.textContent = problem instanceof Error ? problem.message : String(problem);
  }

  /** @param {AbortSignal} signal */
  async #update(signal) {
    this.tell("");
    this.#host.setAttribute("aria-busy", "true");
    try {
      await this.#read(signal);
    } catch (error) {
      if (!signal.aborted) this.tell(error);
    }
    if (!signal.aborted) this.#host.removeAttribute("aria-busy");
  }
}
