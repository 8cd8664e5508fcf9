/** Opening files: conversations and requests, test vectors, and completions to read. */

import { readJson } from "./json.js";
import { isObject } from "./state.js";
import { phrase } from "./words.js";

/** @import { Document } from "./state.js" */
/** @import { Json, JsonObject, Options } from "./wire.js" */

/** @typedef {{ tab: "conversation" | "tokens", document: Partial<Document> }} Opened */

const LARGEST = 16 * 1024 * 1024; // bytes, as much as the server takes

/**
 * Read a file. Throws an `Error` that says why it cannot be read.
 *
 * @param {File} file
 * @returns {Promise<Opened>}
 */
export async function openFile(file) {
  if (file.size > LARGEST) throw new Error(phrase("{name} has more than 16 MiB", { name: file.name }));
  return readText(await file.text());
}

/**
 * Find out what a text is: JSON of a conversation, a request or a vector; token ids; or, as
 * anything else may be, marked-up text.
 *
 * @param {string} text
 * @returns {Opened}
 */
export function readText(text) {
  const json = jsonIn(text);
  if (Array.isArray(json) && json.some(isObject)) return conversation({ messages: json });
  if (isObject(json)) return fromObject(json);
  return { tab: "tokens", document: { input: text.replace(/\r?\n$/, "") } };
}

/** @param {string} text */
function jsonIn(text) {
  try {
    return readJson(text);
  } catch (error) {
    // What begins as an object and is none would be a strange completion.
    if (/^\s*\{\s*"/.test(text)) {
      throw new Error(phrase("Not valid JSON: {problem}", { problem: /** @type {Error} */ (error).message }));
    }
    return undefined;
  }
}

/** @param {JsonObject} json */
function fromObject(json) {
  const { conversation: inner, options } = json;
  if (!isObject(inner)) return fromRequest(json);
  const opened = conversation(inner);
  opened.document.form = "harmony";
  if (isObject(options)) opened.document.options = /** @type {Options} */ (options);
  return opened;
}

/**
 * Open a conversation, a request, or the text of a response of the Completions API.
 *
 * @param {JsonObject} json
 * @returns {Opened}
 */
function fromRequest(json) {
  const { messages, input, choices, output } = json;
  if (messages !== undefined || input !== undefined) return conversation(json);
  const first = Array.isArray(choices) ? choices[0] : undefined;
  if (isObject(first) && typeof first.text === "string") {
    return { tab: "tokens", document: { input: first.text } };
  }
  if (choices !== undefined || output !== undefined) {
    throw new Error(phrase("This is a response, not a request. Paste its raw text in Tokens."));
  }
  throw new Error(phrase("This is neither a conversation (messages) nor a request (messages or input)."));
}

/**
 * @param {{ [name: string]: Json }} source
 * @returns {Opened}
 */
function conversation(source) {
  return { tab: "conversation", document: { source, form: "auto", options: {} } };
}
