/**
 * The shared conversation as the live tab uses it: read as harmony, whatever its form is, and
 * added to.
 */

import { call } from "./api.js";

/** @import { State } from "./state.js" */
/** @import { HarmonyMessage, JsonObject, Parsing, Rendering, SystemItem } from "./wire.js" */

/** @typedef {"" | "Low" | "Medium" | "High"} Effort "" is as the conversation has it */

/** A message, and the tokens that it was sampled as. */
/** @typedef {HarmonyMessage & { sampled_tokens?: number[] }} KnownMessage */

/**
 * The conversation as harmony, and its prompt.
 *
 * @param {State} state
 * @param {AbortSignal} [signal]
 * @returns {Promise<Rendering>}
 */
export function renderPrompt(state, signal) {
  const { source, form, options } = state.get();
  return call("render", { source, form, ...options, ending: "completion" }, signal);
}

/**
 * Make these the messages of the conversation; from now on it is harmony.
 *
 * @param {State} state
 * @param {KnownMessage[]} messages
 */
export function setMessages(state, messages) {
  // The date that requests are read with stands in the system message now.
  const { date: _, ...options } = state.get().options;
  const source = /** @type {JsonObject} */ (/** @type {unknown} */ ({ messages }));
  state.set({ source, form: "harmony", options });
}

/**
 * What the user says.
 *
 * @param {string} text
 * @returns {HarmonyMessage}
 */
export function userMessage(text) {
  return { role: "user", content: [{ type: "text", text }] };
}

/**
 * What a tool answers to a call.
 *
 * @param {HarmonyMessage} call
 * @param {string} text
 * @returns {HarmonyMessage}
 */
export function toolMessage(call, text) {
  return {
    role: "tool",
    name: call.recipient,
    content: [{ type: "text", text }],
    channel: call.channel ?? "commentary",
    recipient: "assistant",
  };
}

/**
 * The call that the conversation ends in; null where it ends otherwise.
 *
 * @param {HarmonyMessage[]} messages
 * @returns {HarmonyMessage | null}
 */
export function openCall(messages) {
  const last = messages[messages.length - 1];
  return last?.role === "assistant" && last.recipient ? last : null;
}

/**
 * The messages with this effort in their system message, which comes first where there is none.
 *
 * @param {KnownMessage[]} messages
 * @param {Effort} effort
 * @returns {KnownMessage[]}
 */
export function withEffort(messages, effort) {
  if (effort === "") return messages;
  const [first, ...others] = messages;
  const settings = first === undefined ? null : systemItem(first);
  if (first === undefined || settings === null) {
    const item = /** @type {SystemItem} */ ({ type: "system_content", reasoning_effort: effort });
    return [{ role: "system", content: [item] }, ...messages];
  }
  return [{ ...first, content: [{ ...settings, reasoning_effort: effort }] }, ...others];
}

/**
 * @param {HarmonyMessage} message
 * @returns {SystemItem | null} the settings, where the message is nothing else
 */
function systemItem({ content }) {
  if (typeof content === "string" || content.length !== 1) return null;
  const [item] = content;
  return typeof item === "object" && item.type === "system_content" ? item : null;
}

/**
 * What was sampled, as messages: each with its tokens where it needed no repair.
 *
 * @param {Parsing} parsing
 * @returns {KnownMessage[]}
 */
export function sampledMessages({ tokens, strict, lenient }) {
  if (strict.error !== null || strict.incomplete) return lenient.messages;
  return strict.messages.map((message, position) => {
    const start = position === 0 ? 0 : strict.message_ends[position - 1] + 1;
    return { ...message, sampled_tokens: tokens.ids.slice(start, strict.message_ends[position] + 1) };
  });
}
