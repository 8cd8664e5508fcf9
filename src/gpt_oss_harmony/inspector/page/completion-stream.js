/**
 * `POST /v1/completions`, streamed: a prompt of token ids goes in, tokens come out as they are
 * sampled, with their probabilities. In a page without a server, its own model does the same.
 */

import { ApiError, pythonInPage, request, requestHeaders } from "./api.js";
import { readEvents } from "./event-stream.js";
import { phrase } from "./words.js";

/** @import { CompletionPiece, SampledToken } from "./wire.js" */

/**
 * How a completion is sampled; null is as the server has it, and no grammar.
 *
 * @typedef {object} Sampling
 * @property {number | null} maxTokens
 * @property {number | null} temperature
 * @property {number | null} seed
 * @property {string | null} grammar
 */

/**
 * @typedef {object} Chunk
 * @property {{ message: string, param: string | null }} [error]
 * @property {Choice[]} [choices]
 *
 * @typedef {object} Choice
 * @property {number[]} [token_ids]
 * @property {Logprobs | null} logprobs
 * @property {"stop" | "length" | null} finish_reason
 *
 * @typedef {object} Logprobs
 * @property {string[]} tokens
 * @property {number[]} token_logprobs
 * @property {Record<string, number>[]} top_logprobs
 */

/** How many of the likeliest tokens are asked for. */
const LIKELIEST = 5;

/**
 * Sample a completion. Aborting the signal closes the stream, and with it ends the sampling.
 *
 * Throws an `ApiError` with what the server says, also in the midst of the stream, or an
 * `AbortError` where `signal` aborted.
 *
 * @param {number[]} prompt
 * @param {Sampling} sampling
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<CompletionPiece, void, undefined>}
 */
export async function* streamCompletion(prompt, sampling, signal) {
  const python = pythonInPage();
  if (python !== null) {
    yield* python.complete(prompt, sampling, signal);
    return;
  }
  const response = await request("/v1/completions", {
    method: "POST",
    headers: requestHeaders(),
    body: JSON.stringify(requestBody(prompt, sampling)),
    signal,
  });
  if (response.body === null) throw new ApiError(phrase("The answer is empty"), response.status, null);
  for await (const data of readEvents(response.body)) {
    if (data === "[DONE]") return;
    yield* readChunk(JSON.parse(data));
  }
  throw new ApiError(phrase("The stream broke off; is the server still running?"), 0, null);
}

/**
 * @param {number[]} prompt
 * @param {Sampling} sampling
 */
function requestBody(prompt, { maxTokens, temperature, seed, grammar }) {
  return {
    prompt,
    stream: true,
    return_token_ids: true,
    logprobs: LIKELIEST,
    max_tokens: maxTokens,
    temperature,
    seed,
    structured_outputs: grammar === null ? null : { grammar },
  };
}

/**
 * @param {Chunk} chunk
 * @returns {Generator<CompletionPiece, void, undefined>} nothing where there is no choice in it
 */
function* readChunk({ error, choices = [] }) {
  if (error !== undefined) throw new ApiError(error.message, 0, error.param);
  for (const { token_ids: ids = [], logprobs, finish_reason: finish } of choices) {
    yield { tokens: ids.map((id, position) => readToken(id, logprobs, position)), finish };
  }
}

/**
 * @param {number} id
 * @param {Logprobs | null} logprobs
 * @param {number} position
 * @returns {SampledToken}
 */
function readToken(id, logprobs, position) {
  const top = Object.entries(logprobs?.top_logprobs[position] ?? {});
  return {
    id,
    ...readName(logprobs?.tokens[position] ?? ""),
    logprob: logprobs?.token_logprobs[position] ?? 0,
    likeliest: top
      .map(([text, logprob]) => ({ text, logprob }))
      .sort((one, other) => other.logprob - one.logprob),
  };
}

/**
 * Read the name that the API gives a token: its text, or `bytes:\xe2\x96` where it has none.
 *
 * @param {string} name
 */
function readName(name) {
  if (!/^bytes:(\\x[0-9a-f]{2})+$/.test(name)) return { text: name, bytes: "" };
  return { text: null, bytes: name.slice("bytes:\\x".length).replaceAll("\\x", " ") };
}
