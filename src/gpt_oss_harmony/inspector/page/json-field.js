/** A field for JSON in a form. Invalid JSON stays in the field, and the problem stands below. */

import { element } from "./element.js";
import { readJson, writeJson } from "./json.js";

/** @import { Json } from "./wire.js" */

let count = 0;

/**
 * Make a field for a JSON value; an empty field stands for undefined.
 *
 * @param {object} settings
 * @param {string} settings.label
 * @param {string} settings.param where it stands, for errors of the server
 * @param {string} [settings.placeholder]
 * @param {unknown} settings.value
 * @param {(value: Json | undefined) => void} settings.onChange throws a `SyntaxError` to refuse
 */
export function jsonField({ label, param, placeholder, value, onChange }) {
  count += 1;
  const id = `json-field-${count}`;
  const problem = element("p", { class: "problem", id, role: "alert", hidden: true });
  const say = (/** @type {string} */ words) => {
    problem.textContent = words;
    problem.hidden = words === "";
    text.setAttribute("aria-invalid", String(words !== ""));
  };
  const read = () => {
    try {
      onChange(text.value.trim() === "" ? undefined : readJson(text.value));
      say("");
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      say(error.message);
    }
  };
  const text = element("textarea", {
    class: "code",
    rows: 2,
    spellcheck: "false",
    autocapitalize: "off",
    placeholder,
    "data-param": param,
    "aria-describedby": id,
    value: value === undefined || value === null ? "" : writeJson(value),
    oninput: read,
  });
  const words = element("span", { class: "label" }, label);
  return element("div", { class: "json-entry" }, element("label", { class: "field" }, words, text), problem);
}
