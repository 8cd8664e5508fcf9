/**
 * The document in the fragment of the URL, which browsers never send anywhere:
 * `#c=BASE64URL(deflate-raw(JSON))&tab=NAME`.
 */

/** @import { Document } from "./state.js" */

import { readJson } from "./json.js";

/** Most characters of a link. */
export const LONGEST = 500_000;

const LARGEST = 16 * 1024 * 1024; // bytes of JSON, as much as the server takes

/**
 * Write a document as a fragment's value.
 *
 * @param {Partial<Document>} document
 * @returns {Promise<string>} ASCII letters, digits, `-` and `_`
 */
export async function pack(document) {
  const text = new Blob([JSON.stringify(document)]);
  const packed = text.stream().pipeThrough(new CompressionStream("deflate-raw"));
  return toBase64Url(new Uint8Array(await new Response(packed).arrayBuffer()));
}

/**
 * Read what `pack` wrote. Throws an `Error` where it was cut short or is something else.
 *
 * @param {string} packed
 * @returns {Promise<unknown>}
 */
export async function unpack(packed) {
  const bytes = new Blob([fromBase64Url(packed)]);
  const reader = bytes.stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    // A short link can unpack to any size.
    if (size > LARGEST) throw new Error("it holds more than 16 MiB");
    text += decoder.decode(value, { stream: true });
  }
  return readJson(text + decoder.decode());
}

/**
 * The fields of the fragment that the page has now.
 *
 * @returns {{ c: string | null, tab: string | null }}
 */
export function readFragment() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return { c: fields.get("c"), tab: fields.get("tab") };
}

/**
 * The URL of the page with a document and a tab; `c` is "" for an empty document.
 *
 * @param {string} c
 * @param {string} tab
 */
export function urlWith(c, tab) {
  const url = new URL(location.href);
  url.hash = (c === "" ? "" : `c=${c}&`) + `tab=${tab}`;
  return url.href;
}

/** @param {Uint8Array} bytes */
function toBase64Url(bytes) {
  let binary = "";
  // In pieces, because a call takes only so many arguments.
  for (let start = 0; start < bytes.length; start += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** @param {string} text */
function fromBase64Url(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}
