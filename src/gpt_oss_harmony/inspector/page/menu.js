/** A button that opens a list of things to do. */

import { button, element } from "./element.js";

/** @typedef {{ name: string, about?: string, choose: () => void }} Item */

/**
 * Make a menu; Escape, a choice or a click elsewhere closes it.
 *
 * @param {string} title
 * @param {readonly Item[]} items
 */
export function menu(title, items) {
  const summary = element("summary", {}, title);
  const made = element("details", { class: "menu" }, summary);
  const close = () => {
    made.open = false;
    summary.focus();
  };
  const entries = items.map(({ name, about, choose }) => {
    const entry = button(name, () => {
      close();
      choose();
    });
    if (about !== undefined) entry.append(element("small", {}, about));
    return element("li", {}, entry);
  });
  made.append(element("ul", {}, ...entries));
  made.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  document.addEventListener("click", (event) => {
    if (!made.contains(/** @type {Node} */ (event.target))) made.open = false;
  });
  return made;
}
