/** The element of a token: its text, its id and its notes. */

import { element } from "./element.js";
import { isSpecial, nameOf, piecesOf } from "./token-text.js";
import { phrase } from "./words.js";

/** @typedef {{ className: string, title: string }} Note */

/**
 * A token that is a part of a character: its bytes, and which of the character's tokens it is.
 *
 * @typedef {{ bytes: string, character: string, number: number, count: number }} Part
 */

/**
 * Make the element of a token.
 *
 * @param {number} index
 * @param {number} id
 * @param {string | null} raw its own text; null where it is no UTF-8 by itself
 * @param {string} text what is shown: its own, or that of the characters that begin in it
 * @param {Part | undefined} part of a token without a text of its own
 */
export function tokenElement(index, id, raw, text, part) {
  const special = isSpecial(id);
  const token = element("span", {
    class: ["token", special && "special", index % 2 === 1 && "odd"].filter(Boolean).join(" "),
    role: "option",
    "aria-selected": "false",
    "aria-label": part === undefined ? nameOf(id, raw) : nameOfPart(part),
    "data-index": index,
    "data-id": id,
  });
  if (part !== undefined) {
    token.classList.add("bytes");
    token.dataset.bytes = part.bytes;
    // A token that is no part of a known character has only its bytes.
    token.dataset.part = part.count > 1 ? `${part.number}/${part.count}` : part.bytes;
    token.title = nameOfPart(part);
  }
  token.append(...(special ? [text] : piecesOf(text)));
  return token;
}

/** @param {Part} part */
function nameOfPart({ bytes, character, number, count }) {
  if (count === 1) return phrase("bytes {bytes}", { bytes });
  return phrase("part {number} of {count} of {character}, bytes {bytes}", { number, count, character: character.trim(), bytes });
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
