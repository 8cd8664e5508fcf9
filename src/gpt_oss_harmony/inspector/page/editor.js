/** The editor: a form and JSON for the same source. */

import { EditorForm } from "./editor-form.js";
import { EditorJson } from "./editor-json.js";
import { button, element, fill } from "./element.js";
import { guessForm } from "./form-guess.js";
import { fieldsLeftOut } from "./request-fields.js";
import { phrase, sentence } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { Form, HarmonyConversation, JsonObject, Rendering } from "./wire.js" */

const FORM_NAMES = { chat: "Chat Completions", responses: "Responses", harmony: "harmony" };

export class Editor {
  #state;
  #host = element("div", { class: "editor-body" });
  /** What the conversation says in vain. */
  #notices = element("p", { class: "notices", role: "status", hidden: true });
  #formHost = element("div", { class: "editor-form" });
  #json;
  #form;
  /** @type {"form" | "json"} */
  #mode = "form";
  /** @type {Rendering | null} the last that succeeded */
  #rendering = null;
  /** @type {unknown} the source that the form has, as it wrote it itself */
  #own = null;
  #buttons;

  /**
   * @param {HTMLElement} host
   * @param {State} state
   */
  constructor(host, state) {
    this.#state = state;
    this.#form = new EditorForm(this.#formHost, (conversation) => this.#edited(conversation));
    this.#json = new EditorJson(state);
    this.#buttons = {
      form: button(phrase("Form"), () => this.#switch("form"), { "aria-pressed": "true" }),
      json: button("JSON", () => this.#switch("json"), { "aria-pressed": "false" }),
    };
    const modes = { class: "segmented", role: "group", "aria-label": phrase("View of the conversation") };
    const choose = element("div", modes, this.#buttons.form, this.#buttons.json);
    fill(host, element("div", { class: "pane-head" }, choose), this.#notices, this.#host);
    this.#draw();
    state.subscribe((document, changed) => {
      const isReplaced = document.source !== this.#own && (changed.has("source") || changed.has("form"));
      if (!isReplaced && !changed.has("draft")) return;
      this.#notices.hidden = true;
      this.#rendering = null;
      this.#draw();
    });
  }

  /**
   * Follow a rendering, which knows the form of the source and the conversation in it.
   *
   * @param {Rendering} rendering
   */
  follow(rendering) {
    const before = this.#formNow();
    const first = this.#rendering === null;
    this.#rendering = rendering;
    const isJson = this.#mode === "json";
    const notices = [...(isJson ? this.#json.notices() : []), ...rendering.notices];
    const shown = notices.flatMap(({ text, param }) => [
      `${sentence(text)} `,
      isJson && param !== null && this.#json.placeButton(param),
      " ",
    ]);
    fill(this.#notices, ...shown);
    this.#notices.hidden = notices.length === 0;
    this.#form.showProblem(null, "");
    this.#json.showProblem(null, "");
    const redraw = first && (before !== this.#formNow() || this.#formNow() !== "harmony");
    if (redraw && this.#mode === "form") this.#draw();
  }

  /**
   * Show an error beside its field; false where the editor has no place for it.
   *
   * @param {string | null} param
   * @param {string} message
   */
  showProblem(param, message) {
    this.#notices.hidden = true;
    if (this.#mode === "form") this.#form.showProblem(param, message);
    else this.#json.showProblem(param, message);
    return this.#mode === "json" || this.#formHost.isConnected;
  }

  /**
   * Bring a message of the conversation into view.
   *
   * @param {number} index
   */
  reveal(index) {
    if (this.#mode === "form") this.#form.reveal(index);
  }

  /** @returns {Exclude<Form, "auto">} */
  #formNow() {
    const { form, source } = this.#state.get();
    if (form !== "auto") return form;
    // A conversation yet to be written is written in harmony, whatever else it could become.
    if (isBlank(source)) return "harmony";
    return this.#rendering?.form ?? guessForm(source);
  }

  /** @param {"form" | "json"} mode */
  #switch(mode) {
    this.#mode = mode;
    this.#buttons.form.setAttribute("aria-pressed", String(mode === "form"));
    this.#buttons.json.setAttribute("aria-pressed", String(mode === "json"));
    this.#draw();
  }

  #draw() {
    if (this.#mode === "json") {
      this.#json.show();
      // Its field keeps the focus while somebody writes.
      if (this.#json.node.parentElement !== this.#host) fill(this.#host, this.#json.node);
      return;
    }
    const form = this.#formNow();
    if (this.#state.get().draft !== "") {
      fill(this.#host, this.#draftNotice());
    } else if (form === "harmony") {
      this.#own = this.#state.get().source;
      this.#form.show(/** @type {any} */ (this.#own));
      fill(this.#host, this.#formHost);
    } else {
      fill(this.#host, this.#requestNotice(form));
    }
  }

  /** What stands in the place of the form while the JSON cannot be read. */
  #draftNotice() {
    return element(
      "div",
      { class: "notice-card" },
      element("h2", {}, phrase("The JSON cannot be read yet")),
      element("p", {}, phrase("What you have written is kept. The form shows it once it is JSON.")),
      button(phrase("Edit as JSON"), () => this.#switch("json"), { class: "primary" }),
    );
  }

  /**
   * What stands in the place of the form for a request of another form.
   *
   * @param {"chat" | "responses"} form
   */
  #requestNotice(form) {
    const lost = fieldsLeftOut(this.#state.get().source, form);
    const words = lost.length === 0 ? null : element("p", {}, phrase("These fields do not reach the prompt, and are lost: "), ...codes(lost), ".");
    const conversation = this.#rendering?.conversation;
    const edit = button(phrase("Edit as harmony"), () => this.#toHarmony(), {
      class: "primary",
      disabled: conversation === undefined,
    });
    return element(
      "div",
      { class: "notice-card" },
      element("h2", {}, phrase("A {form} request", { form: FORM_NAMES[form] })),
      element("p", {}, phrase("The form edits harmony conversations only. Edit this request as JSON, or turn it into harmony.")),
      button(phrase("Edit as JSON"), () => this.#switch("json")),
      words,
      edit,
    );
  }

  #toHarmony() {
    const conversation = this.#rendering?.conversation;
    if (conversation === undefined) return;
    // The browser's Back leads to the request again.
    history.pushState(null, "");
    // The conversation has the date, and the server refuses one beside it.
    const { date: _, ...options } = this.#state.get().options;
    this.#state.set({ source: /** @type {any} */ (conversation), form: "harmony", options });
  }

  /** @param {HarmonyConversation} conversation */
  #edited(conversation) {
    const source = /** @type {JsonObject} */ (/** @type {unknown} */ (conversation));
    this.#own = source;
    this.#state.set({ source, form: "harmony" });
  }
}

/**
 * Whether a source is a conversation that nobody has written anything into.
 *
 * @param {JsonObject} source
 */
export function isBlank({ messages, ...others }) {
  return Array.isArray(messages) && messages.length === 0 && Object.keys(others).length === 0;
}

/** @param {string[]} names */
function codes(names) {
  return names.flatMap((name, position) => [position === 0 ? "" : ", ", element("code", {}, name)]);
}
