/** The language of the page's words: what is chosen is kept in the browser, and the page starts anew. */

import { announce } from "./clipboard.js";
import { element } from "./element.js";
import { readJson } from "./json.js";
import { language, LANGUAGE_KEY, LANGUAGES, phrase } from "./words.js";

/** @import { State } from "./state.js" */

const CARRIED = "harmony-inspector-document";

/**
 * Make the list of languages.
 *
 * @param {State} state
 * @returns {HTMLSelectElement}
 */
export function languageSwitch(state) {
  const options = Object.entries(LANGUAGES).map(([value, name]) => element("option", { value, lang: value }, name));
  const made = element("select", { class: "language", "aria-label": phrase("Language"), value: language }, ...options);
  made.addEventListener("change", () => {
    try {
      carryDocument(state);
      localStorage.setItem(LANGUAGE_KEY, made.value);
    } catch {
      sessionStorage.removeItem(CARRIED);
      made.value = language;
      announce(phrase("The conversation is too long to be kept while the page starts anew. Share saves it."));
      return;
    }
    location.reload();
  });
  return made;
}

/**
 * Keep the document while the page starts anew, because it may not be in the address: it may be too
 * long, or changed a moment ago.
 *
 * @param {State} state
 */
export function carryDocument(state) {
  sessionStorage.setItem(CARRIED, JSON.stringify([location.href, state.toJSON()]));
}

/**
 * Take the document that was on the page when it started anew at the same address; null if there is
 * none.
 *
 * @returns {unknown}
 */
export function carriedDocument() {
  const text = sessionStorage.getItem(CARRIED);
  sessionStorage.removeItem(CARRIED);
  const [address, document] = /** @type {[string, unknown]} */ (readJson(text ?? "[null, null]"));
  return address === location.href ? document : null;
}
