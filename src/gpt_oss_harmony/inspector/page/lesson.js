/** What an empty place shows: what it is for, and examples to begin with. */

import { button, element } from "./element.js";
import { EXAMPLES } from "./examples.js";

/** @import { State } from "./state.js" */

/**
 * Make a lesson.
 *
 * @param {string} title
 * @param {string} words
 * @param {...(HTMLElement | null)} children buttons, or more to read
 */
export function lesson(title, words, ...children) {
  return element(
    "section",
    { class: "lesson", "aria-label": title },
    element("h2", {}, title),
    element("p", {}, words),
    element("div", { class: "row-of-buttons" }, ...children),
  );
}

/**
 * Make a button for each example of a tab.
 *
 * @param {State} state
 * @param {string} tab
 */
export function exampleButtons(state, tab) {
  return EXAMPLES.filter((example) => example.tab === tab).map(({ name, document }) =>
    button(name, () => state.begin(document)),
  );
}
