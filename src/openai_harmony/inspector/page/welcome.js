/** What the page is, for those who see it for the first time. */

import { button, element } from "./element.js";
import { EXAMPLES } from "./examples.js";

/** @import { Example } from "./examples.js" */

const KEY = "harmony-inspector-welcomed";

/**
 * Make the welcome; null for those who have closed it before.
 *
 * @param {(example: Example) => void} begin
 */
export function welcome(begin) {
  if (localStorage.getItem(KEY) !== null) return null;
  const examples = EXAMPLES.filter(({ kind }, position) => {
    return EXAMPLES.findIndex((other) => other.kind === kind) === position;
  });
  const close = () => {
    localStorage.setItem(KEY, "yes");
    made.remove();
  };
  const attributes = { class: "icon quiet", "aria-label": "Close the welcome", title: "Close" };
  const made = element(
    "section",
    { class: "welcome", "aria-label": "Welcome" },
    element(
      "p",
      {},
      element("strong", {}, "See what gpt-oss reads and writes. "),
      "Write a conversation, and its tokens appear as you type. " +
        "Paste JSON, token ids or text anywhere on this page, or begin with an example. " +
        "Nothing leaves this machine.",
    ),
    element(
      "div",
      { class: "row-of-buttons", role: "group", "aria-label": "Begin with" },
      ...examples.map((example) => button(example.kind, () => begin(example))),
    ),
    button("✕", close, attributes),
  );
  return made;
}
