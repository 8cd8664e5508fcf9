/**
 * How tokens that were parsed stand in a token view: a row for each message, and in it spans for
 * the header and the body.
 */

import { element } from "./element.js";

/** @import { Row, Span } from "./token-view.js" */
/** @import { HarmonyMessage, Reading, StateChange } from "./wire.js" */

/**
 * Who speaks, where and to whom: of a message, or of the parser's state in one.
 *
 * @typedef {object} Speaker
 * @property {string | null} role
 * @property {string | null} [name]
 * @property {string | null} [channel]
 * @property {string | null} [recipient]
 * @property {string | null} [content_type]
 */

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
 * The classes that colour what a speaker says.
 *
 * @param {Speaker} speaker
 */
export function classesOf({ role, channel }) {
  const classes = [role && `role-${role}`, channel && `channel-${wordOf(channel)}`];
  return classes.filter(Boolean).join(" ");
}

/**
 * A speaker in words.
 *
 * @param {Speaker} speaker
 */
export function wordsOf({ role, name, channel, recipient, content_type: type }) {
  const who = [role, name].filter(Boolean).join(" ");
  return [who, channel, recipient && `to ${recipient}`, type].filter(Boolean).join(" · ");
}

/**
 * @param {Reading} reading
 * @param {number} count
 * @returns {Span[]}
 */
function spansOf({ changes }, count) {
  return changes.flatMap((change, at) => {
    // What the parser knew is what the tokens were read in, and the last of them changed that.
    const start = at === 0 ? 0 : change.at + 1;
    const end = at + 1 < changes.length ? changes[at + 1].at + 1 : count;
    return start < end ? [{ start, end, ...appearanceOf(change, changes[at + 1]) }] : [];
  });
}

/**
 * @param {StateChange} change
 * @param {StateChange | undefined} next which says what a header has led to
 */
function appearanceOf(change, next) {
  if (change.state === "Content") {
    return { className: `body ${classesOf(change)}`, title: wordsOf(change) };
  }
  const speaker = change.state === "Header" && next?.state === "Content" ? next : change;
  return { className: `header ${classesOf(speaker)}`.trimEnd(), title: "header" };
}

/**
 * @param {Reading} reading
 * @param {number} count
 * @returns {Row[]}
 */
function rowsOf({ changes, messages, message_ends: ends }, count) {
  let start = 0;
  const rows = ends.map((last, index) => {
    const row = rowOf(start, last + 1, messages[index], `message ${index}`);
    start = last + 1;
    return row;
  });
  const open = changes[changes.length - 1];
  if (start < count) rows.push(rowOf(start, count, open, `message ${ends.length}, not complete`));
  return rows;
}

/**
 * @param {number} start
 * @param {number} end
 * @param {HarmonyMessage | StateChange} speaker
 * @param {string} label
 * @returns {Row}
 */
function rowOf(start, end, speaker, label) {
  const words = wordsOf(speaker);
  return {
    start,
    end,
    className: `message ${classesOf(speaker)}`.trimEnd(),
    label: words === "" ? label : `${label}: ${words}`,
    heading: () => element("div", { class: "row-heading" }, words || "between messages"),
  };
}

/**
 * A channel as a part of a class: a model may write anything there.
 *
 * @param {string} channel
 */
function wordOf(channel) {
  return /^\w+$/.test(channel) ? channel : "other";
}
