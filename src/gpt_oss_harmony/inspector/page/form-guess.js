/** Guesses the format of a source, so that the page can draw it before the server responds. */

/** @import { Form, Json, JsonObject } from "./wire.js" */

import { isObject } from "./state.js";

/**
 * Guess the format of a source by the rules of the server.
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
