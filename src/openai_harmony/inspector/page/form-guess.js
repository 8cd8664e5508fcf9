/** Which form a source has, before the server has said so: the page need not wait to draw it. */

/** @import { Form, Json, JsonObject } from "./wire.js" */

import { isObject } from "./state.js";

/**
 * Guess the form of a source as the server would find it.
 *
 * @param {JsonObject} source
 * @returns {Exclude<Form, "auto">}
 */
export function guessForm(source) {
  const { messages } = source;
  if (!Array.isArray(messages)) return source.input === undefined ? "chat" : "responses";
  return messages.length === 0 || messages.some(isHarmony) ? "harmony" : "chat";
}

/** @param {Json} message */
function isHarmony(message) {
  if (!isObject(message)) return false;
  const { channel, recipient, content_type: type, content } = message;
  if ([channel, recipient, type].some((value) => typeof value === "string")) return true;
  const items = Array.isArray(content) ? content : [content ?? null];
  return items.some((item) => {
    return isObject(item) && ["system_content", "developer_content"].includes(String(item.type));
  });
}
