/** The details of one token, in one line. */

import { element, fill } from "./element.js";
import { bytesOf, isSpecial, SPECIAL_NAMES, visible } from "./token-text.js";

/** @import { Rendering, RenderedMessage } from "./wire.js" */

/** How to see the details of a token. */
export const POINT = matchMedia("(hover: none)").matches
  ? "Tap a token"
  : "Point at a token or use the arrow keys";

/**
 * List the details of a token of a rendering.
 *
 * @param {Rendering} rendering
 * @param {number} index
 * @returns {[string, string][]} pairs of a name and its value
 */
export function detailsOf(rendering, index) {
  const { tokens, spans, messages, labels } = rendering;
  const id = tokens.ids[index] ?? -1;
  const text = tokens.texts[index];
  const span = spans.find(({ start, end }) => start <= index && index < end);
  /** @type {[string, string][]} */
  const details = [
    ["token", index.toLocaleString("en")],
    ["id", String(id)],
    [isSpecial(id) ? "special" : "text", text === null || text === undefined ? "–" : visible(text)],
    ["bytes", bytesOf(tokens, index)],
  ];
  if (span === undefined) return details;
  const label = labels[index];
  const trainable = label === undefined ? "yes" : `yes, as ${SPECIAL_NAMES.get(label) ?? label}`;
  return [
    ...details,
    ["message", nameOfMessage(span.message, messages[span.message])],
    ["part", span.kind],
    ["sampled", span.sampled ? "yes" : "no"],
    ["trainable", span.trainable ? trainable : "no"],
  ];
}

/**
 * Show the details of a token; null: how to see some.
 *
 * @param {HTMLElement} host
 * @param {Rendering | null} rendering
 * @param {number | null} index
 */
export function showDetails(host, rendering, index) {
  if (rendering === null || index === null) {
    fill(host, element("span", { class: "hint" }, `${POINT} to see its id and bytes.`));
    return;
  }
  const pairs = detailsOf(rendering, index).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", { "data-detail": name }, value)),
  );
  fill(host, element("dl", {}, ...pairs));
}

/**
 * @param {number} index
 * @param {RenderedMessage | undefined} message undefined: the header that opens the next turn
 */
export function nameOfMessage(index, message) {
  return message === undefined ? "next turn" : `${index} ${message.name ?? message.role}`;
}
