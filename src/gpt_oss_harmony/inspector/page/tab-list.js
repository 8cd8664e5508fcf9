/** Tabs: one panel is visible, arrow keys go to other tabs, and panels are made on first use. */

import { element, fill } from "./element.js";

/**
 * @typedef {object} Tab
 * @property {string} name in the URL
 * @property {string} title
 * @property {(host: HTMLElement) => { show: () => void }} make fills the panel, once
 */

export class TabList {
  #tabs;
  #onChoose;
  #chosen = "";
  /** @type {Map<string, { show: () => void }>} */
  #made = new Map();
  /** @type {Map<string, HTMLButtonElement>} */
  #buttons = new Map();
  /** @type {Map<string, HTMLElement>} */
  #panels = new Map();

  /**
   * @param {HTMLElement} list gets the tabs
   * @param {HTMLElement} host gets the panels
   * @param {readonly Tab[]} tabs
   * @param {(name: string) => void} onChoose another tab is shown
   */
  constructor(list, host, tabs, onChoose) {
    this.#tabs = tabs;
    this.#onChoose = onChoose;
    for (const { name, title } of tabs) {
      const ids = { id: `tab-${name}`, "aria-controls": `panel-${name}` };
      const onclick = () => this.choose(name);
      const made = element("button", { type: "button", role: "tab", ...ids, onclick }, title);
      const label = { role: "tabpanel", "aria-labelledby": `tab-${name}` };
      const panel = element("section", { id: `panel-${name}`, ...label, class: `panel ${name}` });
      this.#buttons.set(name, made);
      this.#panels.set(name, panel);
    }
    list.setAttribute("role", "tablist");
    list.addEventListener("keydown", (event) => this.#pressed(event));
    fill(list, ...this.#buttons.values());
    fill(host, ...this.#panels.values());
  }

  /** The name of the tab that is shown. */
  get chosen() {
    return this.#chosen;
  }

  /**
   * Show a tab; an unknown name means the first.
   *
   * @param {string | null} name
   */
  choose(name) {
    const tab = this.#tabs.find((other) => other.name === name) ?? this.#tabs[0];
    if (tab === undefined || tab.name === this.#chosen) return;
    this.#chosen = tab.name;
    for (const [other, made] of this.#buttons) {
      made.setAttribute("aria-selected", String(other === tab.name));
      made.tabIndex = other === tab.name ? 0 : -1;
    }
    for (const [other, panel] of this.#panels) panel.hidden = other !== tab.name;
    const panel = /** @type {HTMLElement} */ (this.#panels.get(tab.name));
    const shown = this.#made.get(tab.name) ?? tab.make(panel);
    this.#made.set(tab.name, shown);
    shown.show();
    this.#onChoose(tab.name);
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const position = this.#tabs.findIndex(({ name }) => name === this.#chosen);
    const count = this.#tabs.length;
    const to = new Map([
      ["ArrowRight", (position + 1) % count],
      ["ArrowLeft", (position + count - 1) % count],
      ["Home", 0],
      ["End", count - 1],
    ]).get(event.key);
    const name = to === undefined ? undefined : this.#tabs[to]?.name;
    if (name === undefined) return;
    event.preventDefault();
    this.choose(name);
    this.#buttons.get(name)?.focus();
  }
}
