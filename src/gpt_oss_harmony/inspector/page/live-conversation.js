/** The shared conversation, or request, as the live tab uses it: rendered, and appended to. */

import { call } from "./api.js";
import { isObject } from "./state.js";

/** @import { Document, State } from "./state.js" */
/**
 * @import {
 *   Appended, HarmonyConversation, HarmonyMessage, Json, JsonObject, Parsing, Rendering, SystemItem,
 * } from "./wire.js"
 */

/** @typedef {"" | "Low" | "Medium" | "High"} Effort "" is as the conversation has it */

/**
 * Render the prompt of the conversation.
 *
 * @param {State} state
 * @param {AbortSignal} [signal]
 * @returns {Promise<Rendering>}
 */
export async function renderPrompt(state, signal) {
  const { source, form, options } = state.conversation();
  return call("render", { source, form, ...options, ending: "completion" }, signal);
}

/**
 * Append messages in the format of the source, so that nothing of a request is lost.
 *
 * @param {Pick<Document, "source" | "form" | "options">} document
 * @param {HarmonyMessage[]} messages
 * @param {AbortSignal} [signal]
 * @returns {Promise<Appended>}
 */
export function append({ source, form, options: { date } }, messages, signal) {
  return call("append", { source, form, ...(date ? { date } : {}), messages }, signal);
}

/**
 * The source without what was said: the instructions, tools and settings stay.
 *
 * @param {JsonObject} source
 * @returns {JsonObject}
 */
export function withoutTurns(source) {
  const name = Array.isArray(source.messages) ? "messages" : "input";
  const entries = source[name];
  const isSetting = (/** @type {Json} */ entry) =>
    isObject(entry) && ["system", "developer"].includes(String(entry.role));
  return { ...source, [name]: Array.isArray(entries) ? entries.filter(isSetting) : [] };
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
 * A source with this effort: in a request's own field, or in the system message of a conversation,
 * which comes first where there is none.
 *
 * @param {Appended} appended
 * @param {Effort} effort
 * @returns {JsonObject}
 */
export function withEffort({ form, source }, effort) {
  if (effort === "") return source;
  const low = effort.toLowerCase();
  if (form === "chat") return { ...source, reasoning_effort: low };
  if (form === "responses") {
    return { ...source, reasoning: { ...(isObject(source.reasoning) ? source.reasoning : {}), effort: low } };
  }
  const { messages } = /** @type {HarmonyConversation} */ (/** @type {unknown} */ (source));
  const settings = messages[0] === undefined ? null : systemItem(messages[0]);
  const item = { ...(settings ?? { type: "system_content" }), reasoning_effort: effort };
  const others = settings === null ? messages : messages.slice(1);
  const system = settings === null ? { role: "system" } : messages[0];
  return /** @type {any} */ ({ ...source, messages: [{ ...system, content: [item] }, ...others] });
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
 * @returns {HarmonyMessage[]}
 */
export function sampledMessages({ tokens, strict, lenient }) {
  if (strict.error !== null || strict.incomplete) return lenient.messages;
  return strict.messages.map((message, position) => {
    const start = position === 0 ? 0 : strict.message_ends[position - 1] + 1;
    return { ...message, sampled_tokens: tokens.ids.slice(start, strict.message_ends[position] + 1) };
  });
}
