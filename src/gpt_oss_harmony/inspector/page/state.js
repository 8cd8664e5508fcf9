/**
 * The document that the tabs share: a conversation, how it is rendered, and what the other tabs
 * read. It survives JSON unchanged, so it can stand in the fragment of a URL.
 */

import { readJson } from "./json.js";
import { phrase } from "./words.js";

/** @import { Form, JsonObject, Options } from "./wire.js" */

/**
 * @typedef {object} Document
 * @property {JsonObject} source the conversation, or a request
 * @property {string} draft what somebody has written in the place of `source`, while it is not JSON
 * @property {Form} form which of the forms it has
 * @property {Options} options
 * @property {string} input the token ids or marked-up text that "Tokens" reads
 * @property {string} completion the completion that "Grammar" follows
 */

/** @typedef {(document: Document, changed: ReadonlySet<keyof Document>) => void} Subscriber */

/** @type {Readonly<Document>} */
const EMPTY = Object.freeze({
  source: { messages: [] },
  draft: "",
  form: "auto",
  options: {},
  input: "",
  completion: "",
});

/** What a tab reads that shows the conversation. */
const OF_CONVERSATION = /** @type {const} */ (["source", "draft", "form", "options"]);

/** @param {ReadonlySet<keyof Document>} changed */
export function concernsConversation(changed) {
  return OF_CONVERSATION.some((name) => changed.has(name));
}

/** What is written in the place of the conversation cannot be read. */
export class UnreadableError extends Error {}

export class State {
  /** @type {Document} */
  #document = { ...EMPTY };
  /** @type {Set<Subscriber>} */
  #subscribers = new Set();

  /** @returns {Readonly<Document>} replaced, never changed, by `set` */
  get() {
    return this.#document;
  }

  /**
   * The conversation as it is written now. Throws an `UnreadableError` where that is not JSON: no tab
   * shows an older one in its place.
   */
  conversation() {
    const { source, draft, form, options } = this.#document;
    if (draft !== "") readSource(draft);
    return { source, form, options };
  }

  /**
   * Replace some fields, and call the subscribers with their names. Values are replaced, not
   * merged: to add an option, give `{ options: { ...state.get().options, date } }`. Another `source`
   * takes the place of a draft.
   *
   * @param {Partial<Document>} partial
   */
  set(partial) {
    if (partial.source !== undefined) partial = { draft: "", ...partial };
    /** @type {Set<keyof Document>} */
    const changed = new Set();
    for (const name of /** @type {(keyof Document)[]} */ (Object.keys(partial))) {
      if (partial[name] !== this.#document[name]) changed.add(name);
    }
    if (changed.size === 0) return;
    this.#document = { ...this.#document, ...partial };
    for (const subscriber of [...this.#subscribers]) subscriber(this.#document, changed);
  }

  /**
   * Begin with another document; the browser's Back leads to the one before.
   *
   * @param {Partial<Document>} document
   */
  begin(document) {
    history.pushState(null, "");
    this.set(document);
  }

  /**
   * Call a function after each change.
   *
   * @param {Subscriber} subscriber
   * @returns {() => void} ends it
   */
  subscribe(subscriber) {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  /** @returns {Partial<Document>} what differs from an empty document */
  toJSON() {
    const filled = Object.entries(this.#document).filter(
      ([name, value]) =>
        JSON.stringify(value) !== JSON.stringify(EMPTY[/** @type {keyof Document} */ (name)]),
    );
    return Object.fromEntries(filled);
  }

  /**
   * Restore what `toJSON` returned. Throws an `Error` for anything else.
   *
   * @param {unknown} json
   */
  restore(json) {
    if (!isObject(json)) throw new Error("expected an object");
    const { source = EMPTY.source, form = EMPTY.form, options = EMPTY.options } = json;
    const { draft = "", input = "", completion = "" } = json;
    if (!isObject(source) || !isObject(options)) throw new Error("expected objects in it");
    if (typeof draft !== "string" || typeof input !== "string" || typeof completion !== "string") {
      throw new Error("expected texts in it");
    }
    if (!isForm(form)) throw new Error(`unknown form: ${JSON.stringify(form)}`);
    this.set({ source, draft, form, options, input, completion });
  }
}

/**
 * Read a conversation or a request; a list alone is the messages of a conversation, and nothing is
 * one without any. Throws an `UnreadableError`.
 *
 * @param {string} text
 * @returns {JsonObject}
 */
export function readSource(text) {
  if (text.trim() === "") return EMPTY.source;
  try {
    const read = readJson(text);
    const source = Array.isArray(read) ? { messages: read } : read;
    if (isObject(source)) return source;
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new UnreadableError(phrase("Not valid JSON: {problem}", { problem: cause.message }), { cause });
  }
  throw new UnreadableError(phrase("This is no conversation: write an object, or a list of messages."));
}

/**
 * Whether JSON is an object (neither a list nor null).
 *
 * @param {unknown} json
 * @returns {json is JsonObject}
 */
export function isObject(json) {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

/**
 * @param {unknown} value
 * @returns {value is Form}
 */
function isForm(value) {
  return ["auto", "harmony", "chat", "responses"].includes(/** @type {string} */ (value));
}
