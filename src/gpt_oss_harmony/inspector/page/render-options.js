/** The options of a rendering, as a row of selects. */

import { element, fill, labelled, select } from "./element.js";
import { phrase } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { Form, Options } from "./wire.js" */

/** What each choice decides, for those who point at it. */
const HINTS = /** @type {const} */ ({
  ending: phrase("What stands at the end: the header of the model's next turn (completion), or nothing (training)"),
  header_style: phrase("Where the headers of function calls have the recipient"),
  schema_dialect: phrase("How the parameters of functions become TypeScript"),
  reasoning: phrase("Which reasoning of earlier turns stays in the prompt"),
});

const ENDINGS = /** @type {const} */ ([
  ["completion", "completion"],
  ["training", "training"],
]);
const HEADER_STYLES = /** @type {const} */ ([
  ["guide", "guide"],
  ["reference", "reference"],
  ["oss-harmony", "oss-harmony"],
]);
const DIALECTS = /** @type {const} */ ([
  ["typescript", "typescript"],
  ["reference", "reference"],
]);
const REASONING = /** @type {const} */ ([
  ["by-turn", phrase("by turn")],
  ["reference", "reference"],
  ["keep", phrase("kept")],
]);

export class RenderOptions {
  #host;
  #state;
  #examples = 0;
  /** @type {Form} */
  #form = "harmony";

  /**
   * @param {HTMLElement} host
   * @param {State} state
   */
  constructor(host, state) {
    this.#host = host;
    this.#state = state;
    host.classList.add("options");
    this.#draw();
    state.subscribe((_document, changed) => {
      if (changed.has("options")) this.#draw();
    });
  }

  /**
   * Follow a rendering: how many examples there are, and whether its form takes a date.
   *
   * @param {number} examples
   * @param {Form} form
   */
  follow(examples, form) {
    if (examples === this.#examples && form === this.#form) return;
    this.#examples = examples;
    this.#form = form;
    this.#draw();
  }

  #draw() {
    const focused = this.#host.querySelector(":focus")?.getAttribute("name");
    fill(
      this.#host,
      this.#list("ending", phrase("Ending"), ENDINGS),
      this.#options.ending === "training" ? this.#exampleField() : null,
      this.#list("header_style", phrase("Header style"), HEADER_STYLES),
      this.#list("schema_dialect", phrase("Schema dialect"), DIALECTS),
      // Examples for training are cut by turn, whatever the option says.
      this.#options.ending === "training" ? null : this.#list("reasoning", phrase("Reasoning"), REASONING),
      this.#form === "harmony" ? null : this.#dateField(),
    );
    const again = focused && this.#host.querySelector(`[name="${focused}"]`);
    if (again instanceof HTMLElement) again.focus();
  }

  get #options() {
    return this.#state.get().options;
  }

  /** @param {Partial<Options>} changed */
  #set(changed) {
    this.#state.set({ options: { ...this.#options, ...changed } });
  }

  /**
   * @param {"ending" | "header_style" | "schema_dialect" | "reasoning"} name
   * @param {string} title
   * @param {readonly (readonly [string, string])[]} choices the first is the default
   */
  #list(name, title, choices) {
    const value = this.#options[name] ?? choices[0]?.[0] ?? "";
    const choose = (/** @type {string} */ chosen) => {
      this.#set({ [name]: chosen, ...(name === "ending" ? { example: 0 } : {}) });
    };
    return labelled(title, select(choices, value, choose, { name, title: HINTS[name], "data-param": name }));
  }

  #exampleField() {
    const last = Math.max(this.#examples, 1);
    /** @type {[string, string][]} */
    const choices = Array.from({ length: last }, (_, position) => [String(position), phrase("{place} of {count}", { place: position + 1, count: last })]);
    const value = String(Math.min(this.#options.example ?? 0, last - 1));
    const choose = (/** @type {string} */ chosen) => this.#set({ example: Number(chosen) });
    return labelled(phrase("Example"), select(choices, value, choose, { name: "example", "data-param": "example" }));
  }

  #dateField() {
    const onchange = (/** @type {Event} */ event) => {
      const { value } = /** @type {HTMLInputElement} */ (event.target);
      this.#set({ date: value === "" ? null : value });
    };
    const value = this.#options.date ?? "";
    const attributes = { type: "date", name: "date", "data-param": "date", value, onchange };
    return labelled(phrase("Date"), element("input", attributes));
  }
}
