/** Light, dark, or as the system has it; `theme.js` applies what was chosen before. */

import { button, element } from "./element.js";
import { phrase } from "./words.js";

const KEY = "harmony-inspector-theme";
const CHOICES = /** @type {const} */ (["auto", "light", "dark"]);
const NAMES = { auto: phrase("auto"), light: phrase("light"), dark: phrase("dark") };

/** @returns {HTMLButtonElement} a button that goes from one choice to the next */
export function themeSwitch() {
  const text = element("span", { class: "words" }, words());
  const made = button("◐ ", () => {
    const next = CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length] ?? "auto";
    if (next === "auto") {
      localStorage.removeItem(KEY);
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem(KEY, next);
      document.documentElement.dataset.theme = next;
    }
    text.textContent = words();
    made.setAttribute("aria-label", words());
  }, { "aria-label": words() });
  made.append(text);
  return made;
}

/** @returns {(typeof CHOICES)[number]} */
function chosen() {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "auto";
}

function words() {
  return phrase("Theme: {theme}", { theme: NAMES[chosen()] });
}
