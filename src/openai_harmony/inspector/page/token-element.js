/** The element of a token: its text, its id and its notes. */

import { element } from "./element.js";
import { isSpecial, nameOf, piecesOf } from "./token-text.js";

/** @typedef {{ className: string, title: string }} Note */

/**
 * Make the element of a token.
 *
 * @param {number} index
 * @param {number} id
 * @param {string | null} raw its own text; null where it is no UTF-8 by itself
 * @param {string} text what is shown: its own, or that of the characters that begin in it
 * @param {string | undefined} bytes those of a token without a text of its own
 */
export function tokenElement(index, id, raw, text, bytes) {
  const special = isSpecial(id);
  const token = element("span", {
    class: ["token", special && "special", index % 2 === 1 && "odd"].filter(Boolean).join(" "),
    role: "option",
    "aria-selected": "false",
    "aria-label": nameOf(id, raw, bytes),
    "data-index": index,
    "data-id": id,
  });
  if (raw === null) {
    token.classList.add("bytes");
    token.dataset.bytes = bytes ?? "";
  }
  token.append(...(special ? [text] : piecesOf(text)));
  return token;
}

/**
 * The elements of the tokens in a block, in their order.
 *
 * @param {HTMLElement} block
 * @returns {NodeListOf<HTMLElement>}
 */
export function tokensIn(block) {
  return block.querySelectorAll(".token");
}

/** @param {HTMLElement} token */
export function indexOf(token) {
  return Number(token.dataset.index);
}

/**
 * @param {HTMLElement} token
 * @param {boolean} marked whether it is the current one
 */
export function setMarked(token, marked) {
  token.classList.toggle("marked", marked);
  token.setAttribute("aria-selected", String(marked));
}

/**
 * @param {HTMLElement} token
 * @param {readonly Note[]} notes
 */
export function setNotes(token, notes) {
  if (notes.length === 0) return;
  for (const { className } of notes) token.classList.add(...className.split(" ").filter(Boolean));
  token.title = notes.map(({ title }) => title).join("; ");
  token.dataset.note = token.title;
}

/**
 * @param {HTMLElement} token
 * @param {number | null} value from 0 to 1; null: no shade
 */
export function setShade(token, value) {
  token.classList.toggle("shaded", value !== null);
  if (value === null) token.style.removeProperty("--shade");
  else token.style.setProperty("--shade", String(value));
}
