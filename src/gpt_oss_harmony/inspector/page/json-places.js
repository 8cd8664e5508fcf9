/** The places in a JSON text: of a field by its path, and of the first character that is wrong. */

import { phrase } from "./words.js";

/**
 * @typedef {object} JsonProblem
 * @property {number} place of the first character that is wrong
 * @property {string} words
 */

/**
 * @typedef {"value" | "first-value" | "field-value" | "name" | "first-name" | "colon" | "more" | "end"} Expected
 */

const SPACE = /[ \t\n\r]*/y;
const TEXT = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** @type {Readonly<Record<Expected, string>>} */
const EXPECTED = {
  value: phrase("expected a value"),
  "first-value": phrase("expected a value"),
  "field-value": phrase("expected a value"),
  name: phrase("expected a field name in double quotes"),
  "first-name": phrase("expected a field name in double quotes"),
  colon: phrase("expected : after the field name"),
  more: phrase("expected a comma, or the end of the list or object"),
  end: phrase("there is text after the end of the JSON"),
};

/**
 * What to do about a sign that other languages and word processors write, and JSON never does.
 *
 * @type {readonly (readonly [string, string])[]}
 */
const NO_JSON = [
  ["'‘’“”„«", phrase('write " around names and texts')],
  ["/#", phrase("JSON has no comments")],
  ["TFN", phrase("write true, false and null in small letters")],
];

/**
 * Say where a text stops being JSON, in the same words in each browser; null if it is JSON.
 *
 * @param {string} text
 * @param {(path: string, place: number) => void} [visit] gets each value's path, such as `messages[0].role`
 * @returns {JsonProblem | null}
 */
export function jsonProblem(text, visit = () => undefined) {
  /** @type {{ closing: string, path: string, index: number }[]} lists and objects that are open */
  const open = [];
  /** @type {Expected} */
  let expected = "value";
  let at = 0;
  let path = "";
  const skip = (/** @type {RegExp} */ pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0] ?? "";
    at += found.length;
    return found;
  };
  for (;;) {
    skip(SPACE);
    const sign = text[at];
    if (sign === undefined) {
      return expected === "end" ? null : { place: at, words: phrase("the text ends too early") };
    }
    const outer = open.at(-1);
    const isValue = expected.endsWith("value");
    const isName = expected.endsWith("name");
    if (sign === outer?.closing && expected !== "colon" && expected !== "field-value") {
      if (expected === "value" || expected === "name") {
        return { place: at, words: phrase("remove the comma before {sign}", { sign }) };
      }
      open.pop();
      at += 1;
      expected = open.length === 0 ? "end" : "more";
      continue;
    }
    if (isValue) {
      if (outer?.closing === "]") path = `${outer.path}[${outer.index++}]`;
      visit(path, at);
    }
    if (sign === "," && expected === "more") {
      at += 1;
      expected = outer?.closing === "}" ? "name" : "value";
    } else if (sign === ":" && expected === "colon") {
      at += 1;
      expected = "field-value";
    } else if (sign === '"' && (isValue || isName)) {
      const begin = at;
      const written = skip(TEXT);
      if (text[at] !== '"') return textProblem(text, begin, at);
      at += 1;
      if (isName) path = (outer?.path ? `${outer.path}.` : "") + JSON.parse(`${written}"`);
      expected = isName ? "colon" : open.length === 0 ? "end" : "more";
    } else if (isValue && (sign === "{" || sign === "[")) {
      at += 1;
      open.push({ closing: sign === "{" ? "}" : "]", path, index: 0 });
      expected = sign === "{" ? "first-name" : "first-value";
    } else if (isValue && skip(SCALAR) !== "") {
      expected = open.length === 0 ? "end" : "more";
    } else {
      const words = expected === "end" ? undefined : NO_JSON.find(([signs]) => signs.includes(sign))?.[1];
      return { place: at, words: words ?? EXPECTED[expected] };
    }
  }
}

/**
 * @param {string} text
 * @param {number} begin
 * @param {number} end the place at which the text has no quote
 * @returns {JsonProblem}
 */
function textProblem(text, begin, end) {
  if (end === text.length) return { place: begin, words: phrase("the text that begins here has no closing quote") };
  if (text[end] === "\\") return { place: end, words: phrase("there is no such escape") };
  const escape = { escape: JSON.stringify(text[end]).slice(1, -1) };
  if (text[end] === "\n" || text[end] === "\r") {
    return { place: end, words: phrase("write a line break in a text as {escape}", escape) };
  }
  return { place: end, words: phrase("write this character in a text as {escape}", escape) };
}

/**
 * Find a field by its path; in the place of a missing one, what should hold it.
 *
 * @param {string} text
 * @param {string} path such as `messages[0].role`
 */
export function placeOf(text, path) {
  let found = { place: 0, path: "" };
  jsonProblem(text, (one, place) => {
    const holds = path === one || path.startsWith(`${one}.`) || path.startsWith(`${one}[`);
    if (holds && one.length >= found.path.length) found = { place, path: one };
  });
  return found.place;
}

/**
 * Find the first field that an object has twice; null if there is none.
 *
 * @param {string} text
 */
export function repeatedField(text) {
  const seen = new Set();
  /** @type {string | null} */
  let repeated = null;
  jsonProblem(text, (path) => {
    if (seen.has(path)) repeated ??= path;
    seen.add(path);
  });
  return repeated;
}

/**
 * Find the end of the value at a place; of a list, an object and what is no value, that of the line.
 *
 * @param {string} text
 * @param {number} place
 */
export function endOfValue(text, place) {
  const line = text.indexOf("\n", place);
  const pattern = text[place] === '"' ? TEXT : SCALAR;
  pattern.lastIndex = place;
  const length = pattern.exec(text)?.[0].length ?? 0;
  if (length > 0) return place + length + (pattern === TEXT ? 1 : 0);
  return line < 0 ? text.length : line;
}

/**
 * Count the line and the column of a place from 1, as people do.
 *
 * @param {string} text
 * @param {number} place
 * @returns {{ line: string, column: string }}
 */
export function lineAndColumn(text, place) {
  const lines = text.slice(0, place).split("\n");
  return { line: String(lines.length), column: String((lines.at(-1) ?? "").length + 1) };
}

/**
 * Say what is wrong with a text, with the line and the column.
 *
 * @param {string} text
 * @param {number} place
 * @param {string} problem
 */
export function withPlace(text, place, problem) {
  const { line, column } = lineAndColumn(text, place);
  return phrase("line {line}, column {column}: {problem}", { line, column, problem });
}
