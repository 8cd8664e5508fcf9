/**
 * JSON that keeps its numbers: `1.0` stays `1.0`, and long integers all their digits. In a schema
 * both reach the prompt, where `JSON.parse` alone would have changed them.
 */

import { jsonProblem, withPlace } from "./json-places.js";

/** @import { Json } from "./wire.js" */

/** @typedef {{ source?: string }} Context what newer browsers tell a reviver */
/** @typedef {{ rawJSON?: (text: string) => Json }} RawJson */

// A number that may be written otherwise than JavaScript would, somewhere in the text.
const SUSPECT = /\d[.eE]|\d{16}|-0/;

/** A text is not JSON; `place` is the index of the first wrong character. */
export class JsonError extends SyntaxError {
  /**
   * @param {string} text
   * @param {string} words what is wrong
   * @param {number} place
   */
  constructor(text, words, place) {
    super(withPlace(text, place, words));
    this.place = place;
  }
}

/**
 * Read JSON. Throws a `JsonError`.
 *
 * @param {string} text
 * @returns {Json}
 */
export function readJson(text) {
  try {
    if (!SUSPECT.test(text)) return JSON.parse(text);
    return JSON.parse(text, /** @type {(key: string, value: Json) => Json} */ (keepNumber));
  } catch (error) {
    const problem = jsonProblem(text);
    if (problem === null) throw error;
    throw new JsonError(text, problem.words, problem.place);
  }
}

/**
 * Write JSON for people.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function writeJson(value) {
  return JSON.stringify(value, null, 2);
}

/**
 * @param {string} _key
 * @param {Json} value
 * @param {Context} [context]
 */
function keepNumber(_key, value, context) {
  const written = context?.source;
  if (typeof value !== "number" || written === undefined || written === String(value)) return value;
  return /** @type {RawJson} */ (JSON).rawJSON?.(written) ?? value;
}
