/** A message as people read it: who speaks to whom, and what is said. */

import { button, element, fill } from "./element.js";
import { classesOf, headingOf } from "./speaker.js";
import { phrase } from "./words.js";

/** @import { Speaker } from "./speaker.js" */
/** @import { HarmonyMessage } from "./wire.js" */

/** Characters of a text that are shown at first: a page with very long texts is slow. */
const SHOWN = 4000;

/**
 * Make the card of a whole message; of a long text the beginning, until more is asked for.
 *
 * @param {HarmonyMessage} message
 * @param {string} [note]
 * @returns {HTMLElement}
 */
export function messageCard(message, note) {
  const text = messageText(message);
  const body = element("div", { class: "card-text", lang: "" }, text.slice(0, SHOWN));
  const more = button(phrase("Show all {count} characters", { count: text.length }), () => {
    fill(body, text);
    more.remove();
  });
  return card(message, note, body, text.length > SHOWN ? more : null);
}

/**
 * Make the card of a message that sets the conversation up, closed.
 *
 * @param {HarmonyMessage} message
 * @returns {HTMLElement}
 */
export function settingsCard(message) {
  return element(
    "details",
    { class: `card ${classesOf(message)}` },
    element("summary", {}, headingOf(message)),
    element("div", { class: "card-text", lang: "" }, messageText(message)),
  );
}

/**
 * Make the card of a message that grows; of a long text the end.
 *
 * @param {Speaker} speaker
 * @param {string} text
 * @returns {HTMLElement}
 */
export function openCard(speaker, text) {
  const left = Math.max(text.length - SHOWN, 0);
  const before = left === 0 ? "" : `${phrase("… {count} characters before …", { count: left })}\n`;
  const made = card(speaker, "", element("div", { class: "card-text", lang: "" }, before + text.slice(left)));
  made.classList.add("open");
  return made;
}

/**
 * The text of a message; of a system or developer message, its settings as JSON.
 *
 * @param {HarmonyMessage} message
 * @returns {string}
 */
export function messageText({ content }) {
  if (typeof content === "string") return content;
  return content
    .map((item) => {
      if (typeof item === "string") return item;
      if (item.type === "text") return item.text;
      const { type: _, ...settings } = item;
      return JSON.stringify(settings, null, 1);
    })
    .join("");
}

/**
 * @param {Speaker} speaker
 * @param {string | undefined} note
 * @param {...(HTMLElement | null)} children
 */
function card(speaker, note, ...children) {
  return element(
    "article",
    { class: `card ${classesOf(speaker)}`.trimEnd() },
    headingOf(speaker, note),
    ...children,
  );
}
