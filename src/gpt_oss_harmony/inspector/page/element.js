/**
 * Elements of the page. Whatever is text becomes a text node, so that no conversation, however
 * full of markup, is ever read as HTML.
 */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {(event: any) => void} Listener */
/** @typedef {Record<string, string | number | boolean | null | undefined | Listener>} Attributes */

// Set as properties: as attributes they would only say what the element begins with.
const PROPERTIES = new Set(["value", "checked", "selected", "disabled", "hidden", "indeterminate"]);

/**
 * Make an element. A function `onNAME` listens to the event NAME; `true` is an attribute without
 * a value; `null`, `undefined` and `false` leave an attribute, or a child, out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  // The value of a select is one of its options, so those come first.
  made.append(...nodes(children));
  for (const [name, value] of Object.entries(attributes)) setAttribute(made, name, value);
  return made;
}

/**
 * Put `children` in the place of what `host` held.
 *
 * @param {Element} host
 * @param {...Child} children
 */
export function fill(host, ...children) {
  host.replaceChildren(...nodes(children));
}

/**
 * Make a button that does something here, and submits nothing.
 *
 * @param {string} text what stands on it, which is its accessible name as well
 * @param {Listener} onclick
 * @param {Attributes} [attributes]
 */
export function button(text, onclick, attributes = {}) {
  return element("button", { type: "button", onclick, ...attributes }, text);
}

/**
 * Put a label above (or, for a box to tick, after) a control.
 *
 * @param {string} text
 * @param {HTMLElement} control an input, select or textarea
 * @param {string} [hint] a word of explanation, in small print
 */
export function labelled(text, control, hint) {
  const small = hint === undefined ? null : element("small", { class: "hint" }, hint);
  const box = control instanceof HTMLInputElement && control.type === "checkbox";
  const words = element("span", { class: "label" }, text);
  return box
    ? element("label", { class: "check" }, control, words, small)
    : element("label", { class: "field" }, words, control, small);
}

/**
 * Make a list to choose one of `options` from.
 *
 * @param {readonly (readonly [string, string])[]} options pairs of the value and its words
 * @param {string} value the one that is chosen now
 * @param {(value: string) => void} onChoose
 * @param {Attributes} [attributes]
 */
export function select(options, value, onChoose, attributes = {}) {
  const made = element(
    "select",
    attributes,
    ...options.map(([key, words]) => element("option", { value: key }, words)),
  );
  made.value = value;
  made.addEventListener("change", () => onChoose(made.value));
  return made;
}

/**
 * @param {HTMLElement} made
 * @param {string} name
 * @param {Attributes[string]} value
 */
function setAttribute(made, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === "function") made.addEventListener(name.slice(2), value);
  else if (PROPERTIES.has(name)) Reflect.set(made, name, value);
  else made.setAttribute(name, value === true ? "" : String(value));
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function nodes(children) {
  return children
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === "number" ? String(child) : /** @type {Node} */ (child)));
}
