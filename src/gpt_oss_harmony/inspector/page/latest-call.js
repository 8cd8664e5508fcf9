/** Work that is requested again and again while people type: only the last request counts. */

/** One kind of work. It waits for a pause, and aborts what a newer request replaces. */
export class LatestCall {
  /** @type {AbortController | null} */
  #running = null;
  #timer = 0;
  #delay;

  /** @param {number} [delay] milliseconds without another wish before the work begins */
  constructor(delay = 150) {
    this.#delay = delay;
  }

  /**
   * Do this work after the pause, instead of the work that waits or runs.
   *
   * @param {(signal: AbortSignal) => Promise<void>} work throws an `AbortError` when overtaken
   */
  wish(work) {
    this.cancel();
    this.#timer = window.setTimeout(() => this.now(work), this.#delay);
  }

  /**
   * Do this work at once.
   *
   * @param {(signal: AbortSignal) => Promise<void>} work
   */
  async now(work) {
    this.cancel();
    const running = new AbortController();
    this.#running = running;
    try {
      await work(running.signal);
    } catch (error) {
      if (!running.signal.aborted) throw error;
    } finally {
      if (this.#running === running) this.#running = null;
    }
  }

  /** Give up whatever waits or runs. */
  cancel() {
    clearTimeout(this.#timer);
    this.#running?.abort();
  }
}
