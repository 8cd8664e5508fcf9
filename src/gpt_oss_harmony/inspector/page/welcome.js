/** What the page is, for those who see it for the first time. */

import { button, element } from "./element.js";
import { EXAMPLES } from "./examples.js";
import { phrase } from "./words.js";

/** @import { Example } from "./examples.js" */
/** @import { State } from "./state.js" */

const KEY = "harmony-inspector-welcomed";

/** Whether the welcome was closed before. */
export function isWelcomed() {
  return localStorage.getItem(KEY) !== null;
}

/**
 * Make the welcome; null for those who have closed it before. The first change closes it.
 *
 * @param {State} state
 * @param {(example: Example) => void} begin
 */
export function welcome(state, begin) {
  if (isWelcomed()) return null;
  const close = () => {
    localStorage.setItem(KEY, "yes");
    made.remove();
  };
  const attributes = { class: "icon quiet", "aria-label": phrase("Close the welcome"), title: phrase("Close") };
  const made = element(
    "section",
    { class: "welcome", "aria-label": phrase("Welcome") },
    element(
      "p",
      {},
      element("strong", {}, phrase("See what gpt-oss reads and writes. ")),
      element("span", {}, phrase("Write a conversation, and its tokens appear as you type. ")),
      phrase("Paste JSON, token ids or text anywhere on this page, or begin with an example. "),
      element("span", {}, phrase("Nothing leaves this machine.")),
    ),
    element(
      "div",
      { class: "row-of-buttons", role: "group", "aria-label": phrase("Begin with") },
      ...EXAMPLES.flatMap((example) => {
        const { purpose, kind } = example;
        const choose = () => {
          close();
          begin(example);
        };
        return purpose === undefined ? [] : [button(purpose, choose, { title: kind })];
      }),
    ),
    button("✕", close, attributes),
  );
  // It is not in the page yet while the first example is put there.
  state.subscribe(() => {
    if (made.isConnected) close();
  });
  return made;
}
