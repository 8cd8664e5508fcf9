/**
 * The server's API: JSON requests and responses, and errors that name the field at fault.
 *
 * If the server needs an API key, every request has it. The browser keeps it for this tab only.
 */

/** @import { Calls, Settings } from "./wire.js" */

import { readJson } from "./json.js";

const HERE = new URL("api/", import.meta.url);
const KEY = "harmony-inspector-key";

/** The server refused, or could not be reached. */
export class ApiError extends Error {
  /**
   * @param {string} message for people
   * @param {number} status that of HTTP; 0 where there was no answer
   * @param {string | null} param the field at fault
   */
  constructor(message, status, param) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.param = param;
  }
}

/** The API key, and who wants to know when it changes or is refused. */
class ApiKey extends EventTarget {
  /** @returns {string} the key, or "" */
  get() {
    return sessionStorage.getItem(KEY) ?? "";
  }

  /**
   * Keep a key, and dispatch `change`.
   *
   * @param {string} key
   */
  set(key) {
    if (key === "") sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
    this.dispatchEvent(new Event("change"));
  }
}

/** The one key of the page: dispatches `change`, and `refused` where the server answers 401. */
export const apiKey = new ApiKey();

/**
 * The headers of a request with JSON, with the key if there is one.
 *
 * @returns {Record<string, string>}
 */
export function requestHeaders() {
  const key = apiKey.get();
  const json = { "Content-Type": "application/json" };
  return key === "" ? json : { ...json, Authorization: `Bearer ${key}` };
}

/**
 * Call the API of the page. Throws an `ApiError`, or an `AbortError` where `signal` aborted.
 *
 * @template {keyof Calls} Name
 * @param {Name} name
 * @param {Calls[Name]["takes"]} body
 * @param {AbortSignal} [signal]
 * @returns {Promise<Calls[Name]["answers"]>}
 */
export async function call(name, body, signal) {
  const response = await request(new URL(name, HERE), {
    method: "POST",
    headers: requestHeaders(),
    body: JSON.stringify(body),
    signal,
  });
  return /** @type {any} */ (readJson(await response.text()));
}

/**
 * What the server is and has.
 *
 * @returns {Promise<Settings>}
 */
export async function settings() {
  return (await request(new URL("settings", HERE), { headers: requestHeaders() })).json();
}

/**
 * Fetch; throw an `ApiError` where the answer is an error. For streams, too.
 *
 * @param {URL | string} url
 * @param {RequestInit} init
 */
export async function request(url, init) {
  let response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (wasAborted(error)) throw error;
    throw new ApiError("The server cannot be reached; is it still running?", 0, null);
  }
  if (response.ok) return response;
  if (response.status === 401) apiKey.dispatchEvent(new Event("refused"));
  throw await errorIn(response);
}

/**
 * Whether an error only says that the page itself gave a request up.
 *
 * @param {unknown} error
 */
export function wasAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/** @param {Response} response */
async function errorIn(response) {
  /** @type {{ message?: unknown, param?: unknown }} */
  let problem = {};
  try {
    problem = (await response.json()).error ?? {};
  } catch {
    // Not from this server, or cut short: the status says what there is to say.
  }
  const message = typeof problem.message === "string" ? problem.message : response.statusText;
  const param = typeof problem.param === "string" ? problem.param : null;
  return new ApiError(message || `The server answered ${response.status}`, response.status, param);
}
