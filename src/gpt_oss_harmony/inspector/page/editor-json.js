/** The JSON view: any of the three forms, as it was written. */

import { button, element, fill, labelled, select } from "./element.js";
import { JsonError, readJson, writeJson } from "./json.js";
import { endOfValue, lineAndColumn, placeOf, repeatedField, withPlace } from "./json-places.js";
import { readSource, UnreadableError } from "./state.js";
import { phrase } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { Form, Notice } from "./wire.js" */

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
  /** The line and the column of the cursor. */
  #cursor = element("span", { class: "hint" });
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
      onkeyup: () => this.#tellPlace(),
      onclick: () => this.#tellPlace(),
    });
    this.#form = select(FORMS, "auto", (form) => state.set({ form: /** @type {Form} */ (form) }), {
      "data-param": "form",
    });
    const tidy = button(phrase("Tidy"), () => this.#tidy(), { title: phrase("Indent the JSON") });
    const head = element("div", { class: "json-head" }, labelled(phrase("Format"), this.#form), tidy, this.#cursor);
    const field = labelled(phrase("Conversation as JSON"), this.#text);
    this.node = element("div", { class: "editor-json" }, head, this.#problem, field);
    state.subscribe(() => {
      if (this.node.isConnected) this.show();
    });
  }

  /** Show the document, unless the text stands for it already. */
  show() {
    const { source, draft, form } = this.#state.get();
    this.#form.value = form;
    if (source === this.#shown && (draft === "" || draft === this.#text.value)) return;
    this.#shown = source;
    const text = draft || writeJson(source);
    this.#text.classList.toggle("long", text.length > LONG);
    this.#text.value = text;
    this.#say("");
    if (draft !== "") this.#read();
  }

  /**
   * @param {string | null} param
   * @param {string} message "" where all is well
   */
  showProblem(param, message) {
    if (param === null || message === "") {
      this.#say(message);
      return;
    }
    const place = this.#placeOf(param);
    this.#say(withPlace(this.#text.value, place, `${param}: ${message}`), place);
  }

  /**
   * Make the button that shows a field.
   *
   * @param {string} param
   */
  placeButton(param) {
    return button(phrase("Show the place"), () => this.#showPlace(this.#placeOf(param)));
  }

  /** @param {string} param */
  #placeOf(param) {
    const text = this.#text.value;
    // A list alone is the messages of a conversation.
    const path = text.trimStart().startsWith("[") ? param.replace(/^messages(?=\[)/, "") : param;
    return placeOf(text, path);
  }

  /** @returns {Notice[]} what the text says in vain, though it is JSON */
  notices() {
    const text = this.#text.value;
    const field = text.length > LONG ? null : repeatedField(text);
    if (field === null) return [];
    return [{ text: phrase("{field} stands twice; the last one counts", { field }), param: field }];
  }

  #tellPlace() {
    const { value, selectionStart: place } = this.#text;
    const { line, column } = lineAndColumn(value, place);
    this.#cursor.textContent = phrase("Line {line}, column {column}", { line, column });
  }

  /** Another conversation, pasted over all of this one, may have another form. */
  #detect() {
    const { selectionStart: start, selectionEnd: end, value } = this.#text;
    if (end - start === value.length) this.#state.set({ form: "auto" });
  }

  #read() {
    try {
      const source = readSource(this.#text.value);
      this.#say("");
      this.#shown = source;
      this.#state.set({ source });
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      this.#say(error.message, error.cause instanceof JsonError ? error.cause.place : 0);
      this.#state.set({ draft: this.#text.value });
    }
  }

  #tidy() {
    this.#read();
    const isWritten = this.#text.value.trim() !== "";
    if (isWritten && this.#problem.hidden) this.#text.value = writeJson(readJson(this.#text.value));
  }

  /**
   * @param {string} problem "" where all is well
   * @param {number} [place] in the text
   */
  #say(problem, place = 0) {
    const show = button(phrase("Show the place"), () => this.#showPlace(place));
    fill(this.#problem, problem, " ", problem !== "" && show);
    this.#problem.hidden = problem === "";
    this.#text.setAttribute("aria-invalid", String(problem !== ""));
  }

  /**
   * Bring the line of a place into view, and select the value at the place.
   *
   * @param {number} place
   */
  #showPlace(place) {
    const text = this.#text.value;
    const lines = text.slice(0, place).split("\n").length - 1;
    this.#text.focus();
    this.#text.setSelectionRange(place, endOfValue(text, place));
    this.#tellPlace();
    this.#text.scrollTop = Math.max(0, lines - 2) * Number.parseFloat(getComputedStyle(this.#text).lineHeight);
  }
}
