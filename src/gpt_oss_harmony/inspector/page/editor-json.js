/** The JSON view: any of the three forms, as it was written. */

import { button, element, labelled, select } from "./element.js";
import { readJson, writeJson } from "./json.js";
import { isObject } from "./state.js";
import { phrase } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { Form, JsonObject } from "./wire.js" */

const FORMS = /** @type {const} */ ([
  ["auto", phrase("detected")],
  ["harmony", phrase("harmony conversation")],
  ["chat", phrase("Chat Completions request")],
  ["responses", phrase("Responses request")],
]);

/** Characters; folding the lines of a longer text takes seconds. */
const LONG = 200_000;

export class EditorJson {
  #state;
  #text;
  #problem = element("p", { class: "problem", id: "json-problem", role: "alert", hidden: true });
  #form;
  /** @type {unknown} the source that the text stands for */
  #shown = null;
  /** What to put into the page. */
  node;

  /** @param {State} state */
  constructor(state) {
    this.#state = state;
    this.#text = element("textarea", {
      class: "code",
      dir: "auto",
      lang: "",
      spellcheck: "false",
      autocapitalize: "off",
      "aria-describedby": "json-problem",
      oninput: () => this.#read(),
      onpaste: () => this.#detect(),
    });
    this.#form = select(FORMS, "auto", (form) => state.set({ form: /** @type {Form} */ (form) }), {
      "data-param": "form",
    });
    const tidy = button(phrase("Tidy"), () => this.#tidy(), { title: phrase("Indent the JSON") });
    const head = element("div", { class: "json-head" }, labelled(phrase("Format"), this.#form), tidy);
    const field = labelled(phrase("Conversation as JSON"), this.#text);
    this.node = element("div", { class: "editor-json" }, head, this.#problem, field);
    state.subscribe(() => {
      if (this.node.isConnected) this.show();
    });
  }

  /** Show the document, unless the text stands for it already. */
  show() {
    const { source, form } = this.#state.get();
    this.#form.value = form;
    if (source === this.#shown) return;
    this.#shown = source;
    const text = writeJson(source);
    this.#text.classList.toggle("long", text.length > LONG);
    this.#text.value = text;
    this.#say("");
  }

  /**
   * @param {string | null} param
   * @param {string} message "" where all is well
   */
  showProblem(param, message) {
    this.#say(param === null || message === "" ? message : `${param}: ${message}`);
  }

  /** Another conversation, pasted over all of this one, may have another form. */
  #detect() {
    const { selectionStart: start, selectionEnd: end, value } = this.#text;
    if (end - start === value.length) this.#state.set({ form: "auto" });
  }

  #read() {
    try {
      const read = readJson(this.#text.value);
      // A list alone is the messages of a conversation.
      const source = Array.isArray(read) ? { messages: read } : read;
      if (!isObject(source)) throw new SyntaxError(phrase("expected an object, or a list of messages"));
      this.#say("");
      this.#shown = source;
      this.#state.set({ source: /** @type {JsonObject} */ (source) });
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#say(phrase("Not valid JSON: {problem}", { problem: error.message }));
      this.node.dispatchEvent(new Event("unreadable", { bubbles: true }));
    }
  }

  #tidy() {
    try {
      this.#text.value = writeJson(readJson(this.#text.value));
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#say(phrase("Not valid JSON: {problem}", { problem: error.message }));
    }
  }

  /** @param {string} problem */
  #say(problem) {
    this.#problem.textContent = problem;
    this.#problem.hidden = problem === "";
    this.#text.setAttribute("aria-invalid", String(problem !== ""));
  }
}
