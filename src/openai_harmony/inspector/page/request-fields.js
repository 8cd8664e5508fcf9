/** Which fields of a request reach the prompt; all others are for the server and its sampling. */

/** @import { JsonObject } from "./wire.js" */

const IN_PROMPT = {
  chat: ["messages", "tools", "functions", "response_format", "reasoning_effort"],
  responses: ["input", "instructions", "tools", "text", "reasoning"],
};

/**
 * Name the fields that a conversation made of the request does not have.
 *
 * @param {JsonObject} source
 * @param {"chat" | "responses"} form
 */
export function fieldsLeftOut(source, form) {
  return Object.keys(source).filter((name) => !IN_PROMPT[form].includes(name));
}
