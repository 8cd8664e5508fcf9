/**
 * How tokens that were parsed stand in a token view: a row for each message, and in it spans for
 * the header and the body.
 */

import { cutMessage } from "./reading.js";
import { classesOf, headingOf, wordsOf } from "./speaker.js";
import { phrase, tokenCount } from "./words.js";

/** @import { Row, Span } from "./token-view.js" */
/** @import { Speaker } from "./speaker.js" */
/** @import { Reading } from "./wire.js" */

/**
 * Lay out the first `count` tokens.
 *
 * @param {Reading} reading one that reads to the end: the lenient one
 * @param {number} count
 * @returns {{ spans: Span[], rows: Row[] }}
 */
export function layoutOf(reading, count) {
  return { spans: spansOf(reading, count), rows: rowsOf(reading, count) };
}

/**
 * @param {Reading} reading
 * @param {number} count
 * @returns {Span[]}
 */
function spansOf({ changes }, count) {
  return changes.flatMap((change, position) => {
    // What the parser knew is what the tokens were read in, and the last of them changed that.
    const start = position === 0 ? 0 : change.index + 1;
    const end = position + 1 < changes.length ? changes[position + 1].index + 1 : count;
    const className = change.state === "Content" ? "body" : "header";
    return start < end ? [{ start, end, className }] : [];
  });
}

/**
 * @param {Reading} reading
 * @param {number} count
 * @returns {Row[]}
 */
function rowsOf(reading, count) {
  const { changes, messages, message_ends: ends } = reading;
  const cut = cutMessage(reading);
  let start = 0;
  const rows = ends.map((last, index) => {
    const isWhole = index !== cut;
    const at = { index: String(index) };
    const label = isWhole ? phrase("message {index}", at) : phrase("message {index}, not complete", at);
    const isShared = ends[index - 1] === last || ends[index + 1] === last;
    const row = rowOf(start, last + 1, messages[index], label, isWhole, isShared);
    start = last + 1;
    return row;
  });
  const open = changes[changes.length - 1];
  if (start < count) rows.push(rowOf(start, count, open, phrase("not a message"), false));
  return rows;
}

/**
 * @param {number} start
 * @param {number} end
 * @param {Speaker} speaker
 * @param {string} label
 * @param {boolean} isWhole
 * @param {boolean} [isShared] whether text without special tokens makes this and other messages
 * @returns {Row}
 */
function rowOf(start, end, speaker, label, isWhole, isShared = false) {
  const words = wordsOf(speaker);
  const size = isShared ? phrase("tokens shared") : tokenCount(end - start);
  return {
    start,
    end,
    className: `message ${classesOf(speaker)}`.trimEnd(),
    label: words === "" ? label : `${label}, ${words}`,
    heading: () => headingOf(speaker, isWhole ? size : phrase("not complete")),
  };
}
