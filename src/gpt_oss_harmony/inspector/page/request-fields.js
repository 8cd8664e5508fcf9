/** The fields of a request that reach the prompt. All others are for the server and its sampling. */

/** @import { JsonObject } from "./wire.js" */

const IN_PROMPT = {
  chat: ["messages", "tools", "functions", "response_format", "reasoning_effort"],
  responses: ["input", "instructions", "tools", "text", "reasoning"],
};

/**
 * Name the fields that are lost when the request becomes a conversation.
 *
 * @param {JsonObject} source
 * @param {"chat" | "responses"} form
 */
export function fieldsLeftOut(source, form) {
  return Object.keys(source).filter((name) => !IN_PROMPT[form].includes(name));
}
