/** The bar that says how much Python there is to load, and how far it is. */

import { button, element, fill } from "./element.js";
import { PythonError } from "./python.js";
import { digits, phrase } from "./words.js";

/** @import { Python } from "./python.js" */

const WHY = phrase(
  "This page runs the library itself, in Python, in your browser. It needs no server, and what you " +
  "write stays here.",
);

/**
 * Offer to load Python, or start it at once if the browser has it.
 *
 * @param {Python} python
 * @param {HTMLElement} host
 */
export async function startPython(python, host) {
  const bar = element("section", { class: "python-bar", "aria-label": "Python" });
  host.append(bar);
  try {
    const missing = await python.missing();
    if (missing > 0) {
      document.documentElement.dataset.waits = "";
      await agreed(bar, missing);
      delete document.documentElement.dataset.waits;
    }
    await load(python, bar);
    bar.remove();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const words = error instanceof PythonError ? error.message : phrase("Python does not start: {problem}", { problem: error.message });
    const again = button(phrase("Load the page again"), () => location.reload());
    fill(bar, element("p", { class: "problem", role: "alert" }, words), again);
  }
}

/**
 * Wait until somebody agrees to load this many bytes.
 *
 * @param {HTMLElement} bar
 * @param {number} bytes
 */
function agreed(bar, bytes) {
  return new Promise((resolve) => {
    const load = button(phrase("Load {size}", { size: megabytes(bytes) }), resolve, { class: "primary" });
    fill(bar, element("p", {}, `${WHY} ${phrase("Python is loaded once; then your browser keeps it.")}`), load);
  });
}

/**
 * @param {Python} python
 * @param {HTMLElement} bar
 */
async function load(python, bar) {
  const progress = element("progress", { "aria-label": phrase("Loading Python") });
  const words = element("p", { role: "status" }, phrase("Starting Python …"));
  fill(bar, words, progress);
  await python.start((done, total) => {
    progress.max = total;
    progress.value = done;
    const loaded = done < total;
    words.textContent = loaded ? phrase("Loading {done} of {total}", { done: megabytes(done), total: megabytes(total) }) : phrase("Starting Python …");
    if (!loaded) progress.removeAttribute("value");
  });
}

/** @param {number} bytes */
function megabytes(bytes) {
  return phrase("{size} MB", { size: digits(bytes / 1e6, { minimumFractionDigits: 1, maximumFractionDigits: 1 }) });
}
