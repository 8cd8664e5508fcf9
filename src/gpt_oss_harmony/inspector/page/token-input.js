/** A place to write token ids or marked-up text, or to drop a file with them. */

import { button, element, labelled } from "./element.js";
import { phrase } from "./words.js";

/** What the server reads at most, less than what stands around it. */
const MAX_BYTES = 15 * 1024 * 1024;

/**
 * @typedef {object} TokenInputOptions
 * @property {string} label
 * @property {string} placeholder
 * @property {(text: string) => void} onInput
 * @property {(message: string) => void} onError what is wrong with a file
 */

export class TokenInput {
  #area;
  #options;

  /**
   * @param {HTMLElement} host
   * @param {TokenInputOptions} options
   * @param {...HTMLElement} buttons that stand beside the one for a file
   */
  constructor(host, options, ...buttons) {
    this.#options = options;
    this.#area = element("textarea", {
      rows: 6,
      dir: "auto",
      lang: "",
      spellcheck: "false",
      autocapitalize: "off",
      placeholder: options.placeholder,
      oninput: () => options.onInput(this.#area.value),
    });
    const file = element("input", {
      type: "file",
      class: "offscreen",
      tabindex: -1,
      onchange: () => {
        if (file.files?.[0]) this.#take(file.files[0]);
        file.value = "";
      },
      "aria-label": phrase("File"),
    });
    const field = element(
      "div",
      { class: "token-input" },
      labelled(options.label, this.#area),
      element("div", { class: "row-of-buttons" }, button(phrase("Open a file"), () => file.click()), ...buttons),
      file,
    );
    field.addEventListener("dragover", (event) => this.#dragged(event, field));
    field.addEventListener("dragleave", () => field.classList.remove("dropping"));
    field.addEventListener("drop", (event) => this.#dropped(event, field));
    host.append(field);
  }

  get text() {
    return this.#area.value;
  }

  set text(text) {
    if (this.#area.value !== text) this.#area.value = text;
  }

  /**
   * @param {DragEvent} event
   * @param {HTMLElement} field
   */
  #dragged(event, field) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.stopPropagation(); // or the page would say that it takes the file
    document.body.classList.remove("dropping");
    field.classList.add("dropping");
  }

  /**
   * @param {DragEvent} event
   * @param {HTMLElement} field
   */
  #dropped(event, field) {
    field.classList.remove("dropping");
    const file = event.dataTransfer?.files[0];
    if (file === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.#take(file);
  }

  /** @param {File} file */
  async #take(file) {
    if (file.size > MAX_BYTES) {
      this.#options.onError(phrase("{name} is too large: the server reads 16 MiB at most", { name: file.name }));
      return;
    }
    this.text = (await file.text()).replace(/\r?\n$/, "");
    this.#options.onInput(this.text);
  }
}
