/** Copies and saves texts, and announces it. */

import { element } from "./element.js";
import { phrase } from "./words.js";

/**
 * Copy a text, and say so.
 *
 * @param {string} text
 * @param {string} what was copied, such as "Link"
 */
export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without HTTPS, and where it is not allowed: the older way.
    if (!copyBySelection(text)) {
      announce(phrase("{what} could not be copied: the browser does not allow it", { what }));
      return;
    }
  }
  announce(phrase("{what} copied", { what }));
}

/**
 * Save a text as a file.
 *
 * @param {string} name
 * @param {string} text
 */
export function saveText(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  element("a", { href: url, download: name }).click();
  // The download has read the address by the time that the page is idle again.
  setTimeout(() => URL.revokeObjectURL(url), 1000);
  announce(phrase("{name} saved", { name }));
}

let timer = 0;

/**
 * Show a message for a moment, and let screen readers say it.
 *
 * @param {string} message
 */
export function announce(message) {
  const place = document.getElementById("notice");
  if (place === null) return;
  place.textContent = message;
  place.classList.add("shown");
  clearTimeout(timer);
  const time = Math.max(2500, 80 * message.length); // long enough to be read
  timer = window.setTimeout(() => place.classList.remove("shown"), time);
}

/** @param {string} text */
function copyBySelection(text) {
  // While a dialog is open, nothing outside of it can be selected.
  const host = document.querySelector("dialog[open]") ?? document.body;
  const carrier = element("textarea", { class: "offscreen", value: text });
  const focused = document.activeElement;
  host.append(carrier);
  carrier.select();
  const done = document.execCommand("copy");
  carrier.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
