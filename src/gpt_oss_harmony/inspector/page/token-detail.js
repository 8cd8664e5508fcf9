/** The details of one token, in one line. */

import { element, fill } from "./element.js";
import { bytesOf, isSpecial, SPECIAL_NAMES, visible } from "./token-text.js";
import { digits, phrase } from "./words.js";

/** @import { Rendering, RenderedMessage } from "./wire.js" */

/** Whether there is nothing to point at a token with but a finger. */
export const isTapped = matchMedia("(hover: none)").matches;

const HINT = isTapped
  ? phrase("Tap a token to see its id and bytes.")
  : phrase("Point at a token or use the arrow keys to see its id and bytes.");

/** What each detail is called, and what some of them say. */
const NAMES = {
  token: phrase("token"),
  id: phrase("id"),
  special: phrase("special"),
  text: phrase("text"),
  bytes: phrase("bytes"),
  message: phrase("message"),
  part: phrase("part"),
  sampled: phrase("sampled"),
  trainable: phrase("trainable"),
};

/**
 * List the details of a token of a rendering.
 *
 * @param {Rendering} rendering
 * @param {number} index
 * @returns {[keyof typeof NAMES, string][]} pairs of a name and its value
 */
export function detailsOf(rendering, index) {
  const { tokens, spans, messages, labels } = rendering;
  const id = tokens.ids[index] ?? -1;
  const text = tokens.texts[index];
  const span = spans.find(({ start, end }) => start <= index && index < end);
  /** @type {[keyof typeof NAMES, string][]} */
  const details = [
    ["token", digits(index)],
    ["id", String(id)],
    [isSpecial(id) ? "special" : "text", text === null || text === undefined ? "–" : visible(text)],
    ["bytes", bytesOf(tokens, index)],
  ];
  if (span === undefined) return details;
  const label = labels[index];
  const trainable = label === undefined ? phrase("yes") : phrase("yes, as {token}", { token: String(SPECIAL_NAMES.get(label) ?? label) });
  return [
    ...details,
    ["message", nameOfMessage(span.message, messages[span.message])],
    ["part", span.kind],
    ["sampled", span.sampled ? phrase("yes") : phrase("no")],
    ["trainable", span.trainable ? trainable : phrase("no")],
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
    fill(host, element("span", { class: "hint" }, HINT));
    return;
  }
  const pairs = detailsOf(rendering, index).map(([name, value]) =>
    element("div", {}, element("dt", {}, NAMES[name]), element("dd", { "data-detail": name }, value)),
  );
  fill(host, element("dl", {}, ...pairs));
}

/**
 * @param {number} index
 * @param {RenderedMessage | undefined} message undefined: the header that opens the next turn
 */
export function nameOfMessage(index, message) {
  return message === undefined ? phrase("next turn") : `${index} ${message.name ?? message.role}`;
}
