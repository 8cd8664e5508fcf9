/** A rendering: messages as rows of tokens. Messages that are left out stay in their places. */

import { element } from "./element.js";
import { SPECIAL_NAMES } from "./token-text.js";
import { TokenView } from "./token-view.js";
import { phrase, tokenCount } from "./words.js";

/** @import { Row, Span } from "./token-view.js" */
/** @import { HarmonyMessage, RenderedMessage, RenderedSpan, Rendering } from "./wire.js" */

const SHOWN_OF_DROPPED = 240; // characters

export class RenderingView {
  #view;
  #host;

  /**
   * @param {HTMLElement} host an empty element
   * @param {(index: number) => void} onChoose
   * @param {(index: number | null) => void} onPoint
   */
  constructor(host, onChoose, onPoint) {
    this.#host = host;
    this.#view = new TokenView(host, { label: phrase("Tokens of the prompt"), onChoose, onPoint });
  }

  /** @param {Rendering} rendering */
  show(rendering) {
    this.#view.show(rendering.tokens, rendering.spans.map(toSpan), rowsOf(rendering));
    for (const [index, label] of Object.entries(rendering.labels)) {
      const note = phrase("label {token}", { token: String(SPECIAL_NAMES.get(label) ?? label) });
      this.#view.decorate(Number(index), "relabelled", note);
    }
  }

  /** @param {number} index */
  mark(index) {
    this.#view.mark(index);
  }

  /** @param {boolean} shown whether the training mask lies over the tokens */
  set mask(shown) {
    this.#host.classList.toggle("show-mask", shown);
  }
}

/**
 * The classes that colour a message: its role, and the channel where it has one.
 *
 * @param {{ role: string, channel?: string | null }} message
 */
export function colourOf({ role, channel }) {
  const known = ["analysis", "commentary", "final"].includes(channel ?? "");
  return known ? `role-${role} channel-${channel}` : `role-${role}`;
}

/**
 * @param {RenderedSpan} span
 * @returns {Span}
 */
function toSpan({ start, end, kind, sampled, trainable }) {
  const className = [kind, sampled && "sampled", trainable && "trainable"].filter(Boolean).join(" ");
  return { start, end, className };
}

/**
 * One row for each message, and one for the header that opens the next turn.
 *
 * @param {Rendering} rendering
 * @returns {Row[]}
 */
function rowsOf({ messages, spans, conversation }) {
  /** @type {Row[]} */
  const rows = [];
  let position = 0;
  let end = 0;
  const takeSpans = (/** @type {number} */ message) => {
    const start = end;
    for (let span = spans[position]; span !== undefined && span.message <= message; span = spans[position]) {
      end = span.end;
      position += 1;
    }
    return { start, end };
  };
  for (const message of messages) {
    const range = takeSpans(message.index);
    const original = conversation.messages[message.index];
    const dropped = message.dropped === null ? "" : " dropped";
    rows.push({
      ...range,
      className: `message ${colourOf(message)}${dropped}`,
      label: `${phrase("message {index}", { index: String(message.index) })}, ${headWords(message)}`,
      heading: () => headingOf(message, original),
    });
  }
  const next = takeSpans(Infinity);
  if (next.start < next.end) rows.push(nextTurn(next.start, next.end));
  return rows;
}

/**
 * @param {number} start
 * @param {number} end
 * @returns {Row}
 */
function nextTurn(start, end) {
  const words = element("span", {}, phrase("the next turn begins"));
  return {
    start,
    end,
    className: "message next role-assistant",
    label: phrase("next turn"),
    heading: () => element("div", { class: "heading" }, words, countOf(end - start)),
  };
}

/**
 * @param {RenderedMessage} message
 * @param {HarmonyMessage | undefined} original
 */
function headingOf(message, original) {
  const { index, role, name, channel, recipient, content_type: type, dropped, tokens } = message;
  const heading = element(
    "div",
    { class: "heading" },
    element("span", { class: "number" }, index),
    element("strong", {}, role),
    name === null ? null : element("span", { class: "author" }, name),
    channel === null ? null : element("span", { class: "channel" }, channel),
    recipient === null ? null : element("span", { class: "recipient" }, `→ ${recipient}`),
    type === null ? null : element("span", { class: "type" }, type),
    dropped === null ? countOf(tokens) : null,
    dropped === null ? null : element("span", {}, element("em", {}, phrase("left out")), `: ${dropped}`),
  );
  if (dropped === null) return heading;
  return element("div", {}, heading, element("s", { class: "lost" }, textOf(original)));
}

/** @param {number} count */
function countOf(count) {
  return element("span", { class: "count" }, tokenCount(count));
}

/** @param {RenderedMessage} message */
function headWords({ role, name, channel, dropped }) {
  return [role, name, channel, dropped && phrase("left out")].filter(Boolean).join(" ");
}

/**
 * The beginning of what a message says.
 *
 * @param {HarmonyMessage | undefined} message
 */
function textOf(message) {
  const content = message?.content ?? "";
  const items = typeof content === "string" ? [content] : content;
  const text = items
    .map((item) => (typeof item === "string" ? item : item.type === "text" ? item.text : "…"))
    .join("\n");
  return text.length > SHOWN_OF_DROPPED ? `${text.slice(0, SHOWN_OF_DROPPED)}…` : text;
}
