/**
 * The worker of the playground: it loads Python and the demo model, checks every file, answers the calls
 * of the page, and samples completions.
 *
 * A file with another hash than its list says is refused. Nothing is loaded from another host.
 */

import { DemoModel, PromptTooLong } from "./demo-model.js";

/** @import { Answer, CompletionPiece, ModelPiece, ModelSettings, PythonFiles, FromWorker, ToWorker } from "../../src/gpt_oss_harmony/inspector/page/wire.js" */

/** The words of the page. Not imported above: they wait for a file, and the first message would be missed. */
const words = import("./words.js");

const scope = /** @type {DedicatedWorkerGlobalScope} */ (/** @type {unknown} */ (globalThis));

/** @type {((name: string, body: string) => Answer) | null} */
let answer = null;

/** @type {ArrayBuffer | null} the file of the demo model, which takes half a second to read: at first use */
let weights = null;

/** @type {DemoModel | null} */
let model = null;

/** The completion that is sampled now. */
let running = 0;

/** How many of the likeliest tokens are shown beside each. */
const LIKELIEST = 5;

scope.onmessage = async ({ data }) => {
  const message = /** @type {ToWorker} */ (data);
  if (message.kind === "call") {
    if (answer !== null) post({ kind: "answer", answer: answer(message.name, message.body) });
    return;
  }
  if (message.kind === "stop") {
    running = 0;
    return;
  }
  if (message.kind === "complete") {
    await complete(message.completion, message.prompt, message.settings);
    return;
  }
  try {
    answer = await start(new URL(message.folder), message.isControlled);
    post({ kind: "ready" });
  } catch (error) {
    const { phrase } = await words;
    post({ kind: "failed", problem: phrase("Python does not start: {problem}", { problem: await inWords(error) }) });
  }
};

/** @param {unknown} error */
async function inWords(error) {
  const { phrase } = await words;
  if (error instanceof PromptTooLong) {
    return phrase("The demo model reads {count} tokens, not more.", { count: error.most });
  }
  return /** @type {Error} */ (error).message;
}

/** @param {FromWorker} message */
function post(message) {
  scope.postMessage(message);
}

/**
 * Sample a completion, until the page stops it; messages of the page are read between two tokens.
 *
 * @param {number} completion
 * @param {number[]} prompt
 * @param {ModelSettings} settings
 */
async function complete(completion, prompt, settings) {
  running = completion;
  try {
    const { phrase } = await words;
    if (weights === null) throw new Error(phrase("the demo model was not loaded"));
    model ??= new DemoModel(weights);
    for (const piece of model.complete(prompt, settings, LIKELIEST)) {
      await othersFirst();
      if (running !== completion) return;
      if (piece !== null) post({ kind: "piece", completion, piece: named(piece) });
    }
    post({ kind: "end", completion, problem: null });
  } catch (error) {
    post({ kind: "end", completion, problem: await inWords(error) });
  }
}

const { port1: waiting, port2: waking } = new MessageChannel();

/** Let what has arrived be read first; unlike a timer, without a pause of milliseconds. */
function othersFirst() {
  return new Promise((resolve) => {
    waiting.onmessage = resolve;
    waking.postMessage(null);
  });
}

/**
 * Write a piece as the Completions API does: with the texts of its tokens.
 *
 * @param {ModelPiece} piece
 * @returns {CompletionPiece}
 */
function named({ id, logprob, likeliest, finish }) {
  const ids = [id, ...likeliest.map((one) => one.id)];
  const found = /** @type {Answer} */ (answer?.("tokens", JSON.stringify(ids)));
  const { texts, bytes } = JSON.parse(found.text);
  const others = likeliest.map((one, at) => {
    const spelled = bytes[at + 1] ?? "";
    return { text: texts[at + 1] ?? `bytes:\\x${spelled.replaceAll(" ", "\\x")}`, logprob: one.logprob };
  });
  return { tokens: [{ id, text: texts[0], bytes: bytes[0] ?? "", logprob, likeliest: others }], finish };
}

/**
 * @param {URL} folder
 * @param {boolean} isControlled whether service-worker.js answers what is fetched
 */
async function start(folder, isControlled) {
  const files = await loadFiles(folder);
  const take = (/** @type {string} */ name) => /** @type {ArrayBuffer} */ (files.get(new URL(name, folder).href));
  weights = take("demo-model.safetensors");
  const load = fetch;
  // Pyodide gets what was checked, and asks no network for it.
  const fetchNothing = async (/** @type {RequestInfo | URL} */ request) => {
    const url = new URL(request instanceof Request ? request.url : request, folder).href;
    const bytes = files.get(url);
    if (bytes === undefined) throw new TypeError(`not a file of the playground: ${url}`);
    // A browser keeps compiled code only of what it has fetched. service-worker.js answers with the file
    // that was checked.
    if (isControlled && url.endsWith(".wasm") && (await caches.match(url)) !== undefined) return load(url);
    const type = url.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    return new Response(bytes, { headers: { "Content-Type": type } });
  };
  Object.defineProperty(scope, "fetch", { value: fetchNothing });
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all([
    import(new URL("pyodide.mjs", folder).href),
    import(new URL("pyodide.asm.mjs", folder).href),
  ]);
  const python = await loadPyodide({
    indexURL: folder.href,
    packageBaseUrl: folder.href,
    lockFileContents: new TextDecoder().decode(take("pyodide-lock.json")),
    createPyodideModule,
  });
  python.unpackArchive(take("packages.zip"), "zip", { extractDir: "/packages" });
  return python.runPython(PROGRAM);
}

const PROGRAM = `
import json, sys
sys.path.insert(0, "/packages")
from pyodide.ffi import to_js
from js import Object
from gpt_oss_harmony.inspector import calls
from gpt_oss_harmony.inspector.wire import token_list
from gpt_oss_harmony.encoding import load_harmony_encoding

def answer(name, body):
    if name == "settings":
        status, text = 200, calls.json_text(calls.settings("demo"))
    elif name == "tokens":
        status, text = 200, calls.json_text(token_list(json.loads(body)))
    else:
        status, text = calls.answer(name, body.encode())
    return to_js({"status": status, "text": text}, dict_converter=Object.fromEntries)

load_harmony_encoding("HarmonyGptOss").encode("é")
answer
`;

/**
 * Load all files, from what the browser keeps or from the server; keep them when they are checked.
 *
 * @param {URL} folder
 * @returns {Promise<Map<string, ArrayBuffer>>} by their addresses
 */
async function loadFiles(folder) {
  const { phrase } = await words;
  const list = /** @type {PythonFiles} */ (await (await fetch(new URL("files.json", folder))).json());
  const cache = await caches.open(folder.pathname);
  const total = list.files.reduce((sum, { size }) => sum + size, 0);
  let done = 0;
  const load = async (/** @type {PythonFiles["files"][number]} */ { name, sha256 }) => {
    const url = new URL(name, folder).href;
    const kept = await cache.match(url);
    const response = kept ?? (await fetch(url));
    if (!response.ok || response.body === null) {
      throw new Error(phrase("{name} cannot be loaded: {status}", { name, status: String(response.status) }));
    }
    const chunks = [];
    for await (const chunk of response.body) {
      chunks.push(chunk);
      done += chunk.length;
      post({ kind: "progress", done, total });
    }
    const blob = new Blob(chunks);
    const bytes = await blob.arrayBuffer();
    if ((await digest(bytes)) !== sha256) {
      await cache.delete(url);
      throw new Error(phrase("{name} is not the file that belongs here: its hash is wrong. It was not used.", { name }));
    }
    if (kept === undefined) await keep(cache, url, response, blob);
    return /** @type {const} */ ([url, bytes]);
  };
  const files = new Map(await Promise.all(list.files.map(load)));
  await forgetOthers(folder);
  return files;
}

/**
 * @param {Cache} cache
 * @param {string} url
 * @param {Response} response
 * @param {Blob} blob
 */
async function keep(cache, url, response, blob) {
  const headers = { "Content-Type": response.headers.get("Content-Type") ?? "application/octet-stream" };
  try {
    await cache.put(url, new Response(blob, { headers }));
  } catch (error) {
    console.info("The browser has no place for this file, and loads it again next time:", url, error);
  }
}

/**
 * Delete the files of other versions.
 *
 * @param {URL} folder
 */
async function forgetOthers(folder) {
  const parent = new URL("..", folder).pathname;
  for (const name of await caches.keys()) {
    if (name.startsWith(`${parent}python-`) && name !== folder.pathname) await caches.delete(name);
  }
}

/** @param {ArrayBuffer} bytes */
async function digest(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
