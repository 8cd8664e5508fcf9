/**
 * The calls of the page: JSON requests and responses, and errors that name the field at fault.
 *
 * A server answers them; in the playground, Python in the page does. If the server needs an API key,
 * every request has it. The browser keeps it for this tab only.
 */

/** @import { Python } from "./python.js" */
/** @import { Calls, Settings } from "./wire.js" */

import { readJson } from "./json.js";
import { phrase } from "./words.js";

const HERE = new URL("api/", import.meta.url);
const KEY = "harmony-inspector-key";

/** @type {Python | null} what answers in the place of a server */
let python = null;

/**
 * Let Python in the page answer all calls from now on.
 *
 * @param {Python} answering
 */
export function answerWith(answering) {
  python = answering;
}

/** Python in the page, which then has a model, too; null where there is a server. */
export function pythonInPage() {
  return python;
}

/** The server refused, or could not be reached. */
export class ApiError extends Error {
  /**
   * @param {string} message for people
   * @param {number} status that of HTTP; 0 where there was no answer
   * @param {string | null} param the field at fault
   * @param {boolean} [isOfSource] whether that is a field of the conversation
   */
  constructor(message, status, param, isOfSource = false) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.param = param;
    this.isOfSource = isOfSource;
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
  const text = JSON.stringify(body);
  try {
    if (python !== null) return await pythonAnswer(python, name, text, signal);
    const init = { method: "POST", headers: requestHeaders(), body: text, signal };
    const response = await request(new URL(name, HERE), init);
    return /** @type {any} */ (readJson(await response.text()));
  } catch (error) {
    if (!(error instanceof ApiError) || error.param === null || !("source" in body)) throw error;
    const [field = ""] = error.param.split(/[.[]/);
    // An appended message is the page's own, so that no error is about it.
    const isOfSource = field === "messages" || !(field in body);
    throw new ApiError(error.message, error.status, error.param, isOfSource);
  }
}

/**
 * @param {Python} answering
 * @param {string} name
 * @param {string} body
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function pythonAnswer(answering, name, body, signal) {
  const { status, text } = await answering.call(name, body, signal);
  const json = readJson(text);
  if (status === 200) return json;
  throw errorIn(status, "", json);
}

/**
 * What the server, or Python in the page, is and has.
 *
 * @returns {Promise<Settings>}
 */
export async function settings() {
  if (python !== null) return pythonAnswer(python, "settings", "");
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
    throw new ApiError(phrase("The server cannot be reached; is it still running?"), 0, null);
  }
  if (response.ok) return response;
  if (response.status === 401) apiKey.dispatchEvent(new Event("refused"));
  throw await errorOf(response);
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
async function errorOf(response) {
  let json = null;
  try {
    json = await response.json();
  } catch {
    // Not from this server, or cut short: the status says what there is to say.
  }
  return errorIn(response.status, response.statusText, json);
}

/**
 * @param {number} status
 * @param {string} statusText
 * @param {any} json the body of the answer
 */
function errorIn(status, statusText, json) {
  const { message, param } = json?.error ?? {};
  const words = typeof message === "string" ? message : statusText;
  return new ApiError(words || phrase("The server answered {status}", { status: String(status) }), status, typeof param === "string" ? param : null);
}
