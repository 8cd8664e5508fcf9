/** The settings of sampling; an empty field shows what counts then, here as on our servers. */

import { element, labelled, select } from "./element.js";
import { phrase } from "./words.js";

/** @import { Effort } from "./live-conversation.js" */

const EFFORTS = /** @type {const} */ ([
  ["", phrase("unchanged")],
  ["Low", "low"],
  ["Medium", "medium"],
  ["High", "high"],
]);

const MAX_TOKENS = 1024;

export class SamplingForm {
  /** @type {Effort} */
  effort = "";
  #maxTokens = numberField({ min: 1, step: 1, value: MAX_TOKENS, required: true });
  #temperature = numberField({ min: 0, max: 2, step: "any", placeholder: "1" });
  #seed = numberField({ step: 1, placeholder: phrase("random") });
  #grammar = element("input", { type: "checkbox" });
  #noGrammar = element("p", { class: "summary", hidden: true });

  /** @param {HTMLElement} host */
  constructor(host) {
    const efforts = select(EFFORTS, this.effort, (value) => {
      this.effort = /** @type {Effort} */ (value);
    });
    host.append(
      element(
        "div",
        { class: "fields" },
        labelled(phrase("Reasoning effort"), efforts),
        labelled(phrase("Token limit"), this.#maxTokens),
        labelled(phrase("Temperature"), this.#temperature),
        labelled(phrase("Seed"), this.#seed),
        labelled(phrase("Sample under the grammar"), this.#grammar),
      ),
      this.#noGrammar,
    );
  }

  /**
   * There are no grammars here.
   *
   * @param {string} reason a sentence for people
   */
  refuseGrammar(reason) {
    this.#grammar.disabled = true;
    this.#noGrammar.textContent = reason;
    this.#noGrammar.hidden = false;
  }

  /** Whether the completion has to follow the grammar of its turn. */
  get underGrammar() {
    return this.#grammar.checked;
  }

  /** What the fields say; null where one is empty. */
  get values() {
    return {
      maxTokens: valueOf(this.#maxTokens),
      temperature: valueOf(this.#temperature),
      seed: valueOf(this.#seed),
    };
  }

  /** Whether all fields can be used; tells the user which cannot. */
  check() {
    const fields = [this.#maxTokens, this.#temperature, this.#seed];
    return fields.every((field) => field.reportValidity());
  }
}

/** @param {import("./element.js").Attributes} attributes */
function numberField(attributes) {
  return element("input", { type: "number", ...attributes });
}

/** @param {HTMLInputElement} field */
function valueOf(field) {
  return Number.isNaN(field.valueAsNumber) ? null : field.valueAsNumber;
}
