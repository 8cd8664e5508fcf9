/**
 * Python in the page: a worker that answers the calls, for a page without a server. It also runs the
 * demo model.
 *
 * The document names the folder of Python in `data-python`; see scripts/playground. A page of a server
 * has no such name, and does not load this file.
 */

import { language, phrase } from "./words.js";

/** @import { Answer, CompletionPiece, ModelSettings, PythonFiles, FromWorker, ToWorker } from "./wire.js" */

/**
 * @typedef {object} Waiting
 * @property {string} name
 * @property {string} body
 * @property {AbortSignal | undefined} signal
 * @property {(answer: Answer) => void} resolve
 * @property {(reason: unknown) => void} reject
 */

/** @typedef {(done: number, total: number) => void} OnProgress */

/** The answer of a Python that cannot be loaded. */
export class PythonError extends Error {}

export class Python {
  #folder;
  /** @type {Worker | null} */
  #worker = null;
  /** @type {Waiting[]} calls that are not sent yet: Python answers one after the other */
  #queue = [];
  /** @type {Waiting | null} the call that the worker answers now */
  #sent = null;
  #isReady = false;
  #completion = 0;
  /** What the worker says about the completion that is sampled. */
  #completed = new EventTarget();

  /** @param {string} folder the folder with the files of Python, relative to the page */
  constructor(folder) {
    this.#folder = new URL(`${folder}/`, document.baseURI);
  }

  /**
   * The number of bytes to load; 0 if the browser has all of them.
   *
   * @returns {Promise<number>}
   */
  async missing() {
    const { files } = await this.#list();
    const cache = await caches.open(this.#folder.pathname);
    const kept = new Set((await cache.keys()).map(({ url }) => url));
    const missing = files.filter(({ name }) => !kept.has(new URL(name, this.#folder).href));
    return missing.reduce((sum, { size }) => sum + size, 0);
  }

  /**
   * Load and start Python. Throws a `PythonError` with words for people.
   *
   * @param {OnProgress} onProgress told in bytes
   */
  async start(onProgress) {
    await serviceWorker();
    // A worker from a blob has the policy of this page, even where a server sends none with its files.
    const script = `import ${JSON.stringify(new URL("worker.js", import.meta.url).href)};`;
    const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    this.#worker = new Worker(url, { type: "module", name: language });
    /** @type {Promise<void>} */
    const ready = new Promise((resolve, reject) => {
      const worker = /** @type {Worker} */ (this.#worker);
      worker.onmessage = ({ data }) => {
        const message = /** @type {FromWorker} */ (data);
        if (message.kind === "progress") onProgress(message.done, message.total);
        else if (message.kind === "failed") reject(new PythonError(message.problem));
        else if (message.kind === "ready") resolve();
        else if (message.kind === "answer") this.#answered(message.answer);
        else this.#completed.dispatchEvent(new CustomEvent("message", { detail: message }));
      };
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new PythonError(event.message || phrase("The worker that runs Python does not start.")));
      };
    });
    const isControlled = Boolean(navigator.serviceWorker?.controller);
    this.#post({ kind: "start", folder: this.#folder.href, isControlled });
    try {
      await ready;
    } catch (error) {
      this.#worker.terminate();
      this.#worker = null;
      throw error;
    } finally {
      URL.revokeObjectURL(url);
    }
    this.#isReady = true;
    this.#sendNext();
  }

  /**
   * Call Python once it runs. A call that is aborted while it waits is never made.
   *
   * @param {string} name
   * @param {string} body JSON
   * @param {AbortSignal} [signal]
   * @returns {Promise<Answer>}
   */
  call(name, body, signal) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const waiting = { name, body, signal, resolve, reject };
      signal?.addEventListener("abort", () => {
        this.#queue = this.#queue.filter((one) => one !== waiting);
        reject(signal.reason);
      });
      this.#queue.push(waiting);
      this.#sendNext();
    });
  }

  /**
   * Sample a completion from the demo model. Throws an `AbortError` where `signal` aborted.
   *
   * @param {number[]} prompt
   * @param {ModelSettings} settings
   * @param {AbortSignal} signal
   * @returns {AsyncGenerator<CompletionPiece, void, undefined>}
   */
  async *complete(prompt, settings, signal) {
    const completion = (this.#completion += 1);
    /** @type {FromWorker[]} */
    const arrived = [];
    let wake = () => {};
    const listen = (/** @type {Event} */ event) => {
      arrived.push(/** @type {CustomEvent<FromWorker>} */ (event).detail);
      wake();
    };
    this.#completed.addEventListener("message", listen);
    signal.addEventListener("abort", () => wake());
    this.#post({ kind: "complete", completion, prompt, settings });
    try {
      for (;;) {
        signal.throwIfAborted();
        const message = arrived.shift();
        if (message === undefined) {
          await new Promise((resolve) => {
            wake = () => resolve(undefined);
          });
        } else if (message.kind === "piece" && message.completion === completion) {
          yield message.piece;
        } else if (message.kind === "end" && message.completion === completion) {
          if (message.problem !== null) throw new PythonError(message.problem);
          return;
        }
      }
    } finally {
      this.#completed.removeEventListener("message", listen);
      this.#post({ kind: "stop" });
    }
  }

  #sendNext() {
    if (!this.#isReady || this.#sent !== null) return;
    this.#sent = this.#queue.shift() ?? null;
    if (this.#sent !== null) this.#post({ kind: "call", name: this.#sent.name, body: this.#sent.body });
  }

  /** @param {Answer} answer */
  #answered(answer) {
    this.#sent?.resolve(answer);
    this.#sent = null;
    this.#sendNext();
  }

  /** @param {ToWorker} message */
  #post(message) {
    this.#worker?.postMessage(message);
  }

  /** @returns {Promise<PythonFiles>} */
  async #list() {
    const response = await fetch(new URL("files.json", this.#folder));
    if (!response.ok) throw new PythonError(phrase("{name} cannot be loaded: {status}", { name: "files.json", status: String(response.status) }));
    return response.json();
  }
}

/** Keep the page for the next visit, even without a network; where the browser lets it. */
async function serviceWorker() {
  if (!("serviceWorker" in navigator)) return;
  const container = navigator.serviceWorker;
  const controlled = new Promise((resolve) => {
    container.addEventListener("controllerchange", resolve, { once: true });
  });
  try {
    await container.register(new URL("service-worker.js", document.baseURI));
  } catch (error) {
    console.info("The page is not kept for use without a network:", error);
    return;
  }
  // It keeps the list of Python's files, which the page loads next, only once it has control.
  if (container.controller === null) await controlled;
}
