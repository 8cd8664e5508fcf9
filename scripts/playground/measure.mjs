/**
 * Measure what a call of the library costs in JavaScript: `node scripts/playground/measure.mjs`.
 *
 * Times are those of the processor, of all threads, so another program beside it changes them less.
 */

import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const site = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../site/playground");
const folder = fs.readdirSync(site).find((name) => name.startsWith("python-"));
const files = path.join(site, folder);

const seconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const begun = seconds();
const { loadPyodide } = await import(pathToFileURL(path.join(files, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: files });
const loaded = seconds();
const bytes = fs.readFileSync(path.join(files, "packages.zip"));
const packages = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
python.unpackArchive(packages, "zip", { extractDir: "/packages" });
const answer = python.runPython(`
import sys
sys.path.insert(0, "/packages")
from gpt_oss_harmony.inspector import calls
lambda name, body: calls.answer(name, body.encode()).text
`);
const imported = seconds();
answer("render", JSON.stringify({ source: { input: "Grüße" } }));
const first = seconds();
console.log(`Pyodide starts: ${(loaded - begun).toFixed(1)} s`);
console.log(`The library is unpacked and imported: ${(imported - loaded).toFixed(1)} s`);
console.log(`The first prompt: ${(first - imported).toFixed(1)} s`);
console.log(`Memory: ${Math.round(process.memoryUsage().rss / 1e6)} MB`);

const words = "The quick brown fox jumps over the lazy dog near the river while it rains in Tokyo. ";
for (const turns of [1, 10, 50]) {
  const messages = [];
  for (let turn = 0; turn < turns; turn += 1) {
    messages.push({ role: "user", content: `Question ${turn}: ${words.repeat(2)}` });
    messages.push({ role: "assistant", channel: "final", content: `Answer ${turn}: ${words.repeat(3)}` });
  }
  let text = "";
  const render = (count) => {
    const start = seconds();
    for (let time = 0; time < count; time += 1) {
      messages.at(-1).content += "x";
      text = answer("render", JSON.stringify({ source: { messages } }));
    }
    return ((seconds() - start) / count) * 1000;
  };
  render(20);
  const milliseconds = render(100);
  const tokens = JSON.parse(text).tokens.ids.length;
  console.log(`${turns} turns, ${tokens.toLocaleString("en")} tokens: ${milliseconds.toFixed(1)} ms for a change of the last answer`);
}
