/**
 * The text of a token, so that people can see all of it. White space and invisible characters get
 * marks, which the style sheet draws and which are never part of the text. A combining mark gets a
 * dotted circle to stand on. Bytes that are no character by themselves get the character that they
 * are a part of.
 */

import { element } from "./element.js";
import { counted, phrase } from "./words.js";

/** @import { Tokens } from "./wire.js" */

const FIRST_SPECIAL = 199998;

/** Those special tokens that have a name, by their ids. */
export const SPECIAL_NAMES = new Map([
  [199998, "<|startoftext|>"],
  [199999, "<|endoftext|>"],
  [200002, "<|return|>"],
  [200003, "<|constrain|>"],
  [200005, "<|channel|>"],
  [200006, "<|start|>"],
  [200007, "<|end|>"],
  [200008, "<|message|>"],
  [200012, "<|call|>"],
]);

// Spaces at the end or more than one, tabs, line breaks, and what has no picture of its own.
const MARKED =
  /(\n|\r|\t| {2,}| +$|[\p{Cc}\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}])/u;

// Nothing but marks that are drawn over the character before: they would have no width of their own.
const COMBINING = /^[\p{Mn}\p{Me}]+$/u;

/**
 * Whether an id is a special token: structure is read from ids, never from text.
 *
 * @param {number} id
 */
export function isSpecial(id) {
  return id >= FIRST_SPECIAL;
}

/**
 * Cut a token's text into nodes, with marks for what nobody could see.
 *
 * @param {string} text
 * @returns {Node[]}
 */
export function piecesOf(text) {
  if (COMBINING.test(text) && !MARKED.test(text)) {
    return [element("span", { class: "combining", "data-mark": text }, text)];
  }
  if (text.startsWith(" ") && !MARKED.test(text)) {
    return [element("span", { class: "space leading" }, " "), new Text(text.slice(1))];
  }
  return text
    .split(MARKED)
    .filter((piece) => piece !== "")
    .map(markOf);
}

/**
 * The bytes of a token, such as "e2 96".
 *
 * @param {Tokens} tokens
 * @param {number} index
 */
export function bytesOf(tokens, index) {
  const text = tokens.texts[index];
  if (text === null || text === undefined) return tokens.bytes[index] ?? "";
  return [...new TextEncoder().encode(text)].map(toHex).join(" ");
}

/**
 * A text on one line in which everything can be seen: for a token's name and details.
 *
 * @param {string} text
 */
export function visible(text) {
  return JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replace(
    /[\u007f-\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u205f-\u206f\ufeff]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/**
 * What a token is called where its text alone would say nothing; null where it says enough.
 *
 * @param {number} id
 * @param {string | null} text
 * @returns {string | null}
 */
export function nameOf(id, text) {
  if (isSpecial(id)) return phrase("special token {token}", { token: text ?? String(id) });
  if (text === null) return null;
  if (COMBINING.test(text)) return [...text].map(codePointOf).join(" ");
  if (text.trim() !== "" && !MARKED.test(text)) return null;
  return text.split(MARKED).filter(Boolean).map(wordFor).join(" ");
}

/**
 * Decode tokens that are not UTF-8 by themselves, together with their neighbours. Each character
 * goes to the token in which it begins.
 *
 * @param {Tokens} tokens
 * @param {number} from the first token that is new; a run that it continues is decoded again
 * @param {Map<number, string>} decoded the texts, by the index of the token
 */
export function decodeRuns(tokens, from, decoded) {
  let start = from;
  while (start > 0 && tokens.texts[start - 1] === null) start -= 1;
  let owner = start;
  /** @type {number[]} the bytes of the character that has begun in `owner` */
  let character = [];
  const finish = () => {
    if (character.length === 0) return;
    const text = new TextDecoder().decode(new Uint8Array(character));
    decoded.set(owner, (decoded.get(owner) ?? "") + text);
    character = [];
  };
  for (let index = start; index < tokens.texts.length; index += 1) {
    if (tokens.texts[index] !== null) {
      finish();
      continue;
    }
    decoded.delete(index);
    for (const byte of fromHex(tokens.bytes[index] ?? "")) {
      // In UTF-8, every later byte of a character begins with the bits 10.
      const isFirst = (byte & 0xc0) !== 0x80;
      if (isFirst) finish();
      if (character.length === 0) owner = index;
      character.push(byte);
    }
  }
  finish();
}

/**
 * A piece of a token as a screen reader can say it.
 *
 * @param {string} piece
 */
function wordFor(piece) {
  if (piece === "\n") return phrase("line break");
  if (piece === "\t") return phrase("tab character");
  if (/^ +$/.test(piece)) return counted(piece.length, "space", "{count} spaces");
  return MARKED.test(piece) ? codePointOf(piece) : piece.trim();
}

/** @param {string} character */
function codePointOf(character) {
  if (character === "\r") return "CR";
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/**
 * @param {string} piece
 * @returns {Node}
 */
function markOf(piece) {
  if (piece === "\n") return element("span", { class: "newline" }, piece);
  if (piece === "\t") return element("span", { class: "tab" }, piece);
  if (/^ +$/.test(piece)) return element("span", { class: "space" }, piece);
  if (!MARKED.test(piece)) return new Text(piece);
  return element("span", { class: "invisible", "data-name": codePointOf(piece) }, piece);
}

/** @param {number} byte */
function toHex(byte) {
  return byte.toString(16).padStart(2, "0");
}

/** @param {string} hex */
function fromHex(hex) {
  return hex.split(" ").filter(Boolean).map((byte) => Number.parseInt(byte, 16));
}
