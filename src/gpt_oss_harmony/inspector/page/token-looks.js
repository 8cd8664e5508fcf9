/**
 * How tokens look on every tab: what marks their boundaries, and whether ids stand beside them.
 *
 * The choice is kept in the browser. `theme.js` applies it before the page is drawn.
 */

import { button, element, labelled } from "./element.js";
import { phrase } from "./words.js";

const BOUNDARIES = "harmony-inspector-boundaries";
const IDS = "harmony-inspector-ids";
const CHOICES = /** @type {const} */ (["tint", "lines", "none"]);
const NAMES = { tint: phrase("tint"), lines: phrase("lines"), none: phrase("none") };

const root = document.documentElement;

/** Controls of all tabs, which show the same choice. */
const changes = new EventTarget();

/**
 * Make the controls; they act on the token views of all tabs.
 *
 * @returns {HTMLElement[]}
 */
export function tokenLooks() {
  const buttons = CHOICES.map((choice) => button(NAMES[choice], () => setBoundaries(choice), { "data-choice": choice }));
  const ids = element("input", { type: "checkbox", onchange: () => setIds(ids.checked) });
  const show = () => {
    const chosen = root.dataset.boundaries ?? "tint";
    for (const made of buttons) made.setAttribute("aria-pressed", String(made.dataset.choice === chosen));
    ids.checked = "ids" in root.dataset;
  };
  changes.addEventListener("change", show);
  show();
  const group = { class: "segmented", role: "group", "aria-label": phrase("Boundaries of tokens") };
  const boundaries = element("div", group, ...buttons);
  const words = element("span", { class: "label", "aria-hidden": "true" }, phrase("Boundaries"));
  return [element("div", { class: "field" }, words, boundaries), labelled(phrase("Token ids"), ids)];
}

/** @param {(typeof CHOICES)[number]} choice */
function setBoundaries(choice) {
  root.dataset.boundaries = choice;
  localStorage.setItem(BOUNDARIES, choice);
  changes.dispatchEvent(new Event("change"));
}

/** @param {boolean} shown */
function setIds(shown) {
  root.toggleAttribute("data-ids", shown);
  if (shown) localStorage.setItem(IDS, "shown");
  else localStorage.removeItem(IDS);
  changes.dispatchEvent(new Event("change"));
}
