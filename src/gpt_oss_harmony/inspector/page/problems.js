/** What is wrong with a model's output: repairs, the strict parser's error, unusable calls. */

import { jsonProblem } from "./json-places.js";
import { cutMessage } from "./reading.js";
import { messageText } from "./message-card.js";
import { RECOVERY_WORDS } from "./recovery-words.js";
import { phrase } from "./words.js";

/** @import { Failure, HarmonyMessage, Parsing, Reading } from "./wire.js" */

/**
 * @typedef {object} Problem
 * @property {number} position of its token; the number of tokens for their end
 * @property {string} kind
 * @property {string} words
 * @property {string} [text] of the output
 * @property {string} [original] the words of the strict parser
 * @property {"recovery" | "refused" | "unusable"} className
 */

/** @type {Readonly<Record<string, string>>} the strict parser's errors at the end of the tokens */
const AT_THE_END = {
  "Unexpected EOS while waiting for message header to complete":
    phrase("The output ends in a header: <|message|> is missing."),
};

/**
 * List the problems of an output by their positions.
 *
 * @param {Parsing} parsing
 * @param {string[]} tools the declared recipients; without any, no recipient is a problem
 * @returns {Problem[]}
 */
export function problemsOf({ tokens, strict, lenient }, tools) {
  const count = tokens.ids.length;
  /** @type {Problem[]} */
  const problems = lenient.recoveries.map(({ kind, position, text }) => {
    return { position, kind, words: RECOVERY_WORDS[kind] ?? "", text, className: "recovery" };
  });
  const { error } = strict;
  if (error !== null) {
    const words = strictWords(error);
    const original = words === error.message ? undefined : error.message;
    problems.push({ position: error.position, kind: "strict", words, original, className: "refused" });
  }
  const cut = cutMessage(lenient);
  for (const [index, message] of lenient.messages.entries()) {
    if (index === cut) continue;
    const position = Math.max(lenient.message_ends[index] ?? 0, 0);
    for (const [kind, words] of problemsOfCall(message, tools)) {
      problems.push({ position, kind, words, className: "unusable" });
    }
  }
  if (cut !== null) {
    const words = phrase("The output ends before <|end|>, <|call|> or <|return|>. Was the token limit reached?");
    problems.push({ position: count, kind: phrase("cut off"), words, className: "unusable" });
  }
  return problems.sort((first, second) => first.position - second.position);
}

/**
 * The words of the page for an error of the strict parser: the texts of its tokens, where it has them,
 * instead of the reference's words with their ids.
 *
 * @param {Failure} error
 */
export function strictWords({ message, detail }) {
  return AT_THE_END[message] ?? (detail || message);
}

/**
 * The indices of the messages that the two parsers read in different ways; none if strict fails.
 *
 * @param {Reading} strict
 * @param {Reading} lenient
 * @returns {Set<number>}
 */
export function differingMessages({ messages, error }, { messages: others }) {
  const length = error === null ? Math.max(messages.length, others.length) : 0;
  const indices = Array.from({ length }, (_, index) => index);
  return new Set(
    indices.filter((index) => JSON.stringify(messages[index]) !== JSON.stringify(others[index])),
  );
}

/**
 * Whether the tokens are a text without any markup, such as one whose tokens somebody counts.
 *
 * @param {Parsing} parsing
 */
export function isPlainText({ lenient: { recoveries, messages } }) {
  return messages.length === 1 && recoveries.length === 1 && recoveries[0]?.kind === "no-markup";
}

/**
 * @param {HarmonyMessage} message
 * @param {string[]} tools
 * @returns {[string, string][]} kinds and words
 */
function problemsOfCall(message, tools) {
  const { role, recipient, content_type: type } = message;
  if (role !== "assistant" || !recipient) return [];
  /** @type {[string, string][]} */
  const problems = [];
  if (tools.length > 0 && !tools.includes(recipient)) {
    problems.push(["tool", phrase("{name} is not declared.", { name: recipient })]);
  }
  if (recipient.startsWith("functions.") || type?.includes("json")) {
    const error = jsonError(messageText(message));
    if (error !== null) problems.push(["arguments", phrase("The arguments are not valid JSON: {problem}", { problem: error })]);
  }
  return problems;
}

/**
 * Why a text is not JSON, with the number of the character (from 1); null if it is.
 *
 * @param {string} text
 * @returns {string | null}
 */
function jsonError(text) {
  if (text.trim() === "") return phrase("there are none.");
  const problem = jsonProblem(text);
  return problem && phrase("{reason}, at character {place}.", { reason: problem.words, place: problem.place + 1 });
}
