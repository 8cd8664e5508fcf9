/** The author, channel and recipient of a message, or of the parser's state within one. */

import { element } from "./element.js";
import { colourOf } from "./rendering-view.js";
import { phrase } from "./words.js";

/**
 * @typedef {object} Speaker
 * @property {string | null} role
 * @property {string | null} [name]
 * @property {string | null} [channel]
 * @property {string | null} [recipient]
 * @property {string | null} [content_type]
 */

/**
 * The classes that colour what a speaker says.
 *
 * @param {Speaker} speaker
 */
export function classesOf({ role, channel }) {
  return role === null ? "" : colourOf({ role, channel });
}

/**
 * A speaker in words, for a label; "" if nothing is known.
 *
 * @param {Speaker} speaker
 */
export function wordsOf({ role, name, channel, recipient }) {
  return [role, name, channel, recipient && phrase("to {recipient}", { recipient })].filter(Boolean).join(" ");
}

/**
 * A speaker as a heading.
 *
 * @param {Speaker} speaker
 * @param {string} [note] what stands at its end
 */
export function headingOf({ role, name, channel, recipient, content_type: type }, note) {
  return element(
    "div",
    { class: "heading" },
    role === null ? element("em", {}, phrase("no message")) : element("strong", {}, role),
    name && element("span", { class: "author" }, name),
    channel && element("span", { class: "channel" }, channel),
    recipient && element("span", { class: "recipient" }, `→ ${recipient}`),
    type && element("span", { class: "type" }, type),
    note && element("span", { class: "count" }, note),
  );
}
