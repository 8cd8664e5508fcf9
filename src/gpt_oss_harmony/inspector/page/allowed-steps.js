/**
 * What the grammar allows at each place of a completion, fetched in pages as one goes along.
 *
 * The first page says how the completion fares as a whole, too.
 */

import { call } from "./api.js";

/** @import { Allowed, AllowedRequest, AllowedStep, Options } from "./wire.js" */

/** Places in an answer, at most. */
export const PAGE = 200;

export class AllowedSteps {
  #request;
  #signal;
  /** @type {Map<number, Promise<Allowed>>} */
  #pages = new Map();
  /** @type {Map<number, AllowedStep>} by the place */
  #known = new Map();

  /**
   * @param {Omit<AllowedRequest, "from"> & Pick<Options, "date">} request
   * @param {AbortSignal} signal
   */
  constructor(request, signal) {
    this.#request = request;
    this.#signal = signal;
  }

  /**
   * What is known of a place already.
   *
   * @param {number} place
   */
  known(place) {
    return this.#known.get(place);
  }

  /**
   * Fetch the page with a place, once. Throws as `call` does.
   *
   * @param {number} place
   * @returns {Promise<Allowed>}
   */
  fetch(place) {
    const from = place - (place % PAGE);
    const page = this.#pages.get(from) ?? this.#fetch(from);
    this.#pages.set(from, page);
    return page;
  }

  /** @param {number} from */
  async #fetch(from) {
    try {
      const answer = await call("allowed", { ...this.#request, from }, this.#signal);
      for (const step of answer.steps) this.#known.set(step.index, step);
      return answer;
    } catch (error) {
      this.#pages.delete(from); // to be asked for again
      throw error;
    }
  }
}
