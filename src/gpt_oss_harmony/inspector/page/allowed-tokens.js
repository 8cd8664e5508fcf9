/** What the grammar allows at a place: how many tokens, and the first of them to choose from. */

import { element, fill } from "./element.js";
import { isSpecial, visible } from "./token-text.js";
import { counted, phrase } from "./words.js";

/** @import { AllowedStep, Tokens } from "./wire.js" */

export class AllowedTokens {
  #onChoose;
  #count;
  #list;

  /**
   * @param {HTMLElement} host
   * @param {(id: number) => void} onChoose a token is wanted at this place
   */
  constructor(host, onChoose) {
    this.#onChoose = onChoose;
    this.#count = element("h2", { class: "allowed-count" });
    this.#list = element("ul", { class: "allowed-list", "aria-label": phrase("Allowed") });
    host.append(this.#count, this.#list);
  }

  /**
   * Show words in the place of tokens.
   *
   * @param {string} words
   */
  say(words) {
    this.#count.textContent = words;
    this.#list.hidden = true;
  }

  /**
   * Show what is allowed at a place.
   *
   * @param {AllowedStep} step
   * @param {number | undefined} chosen the token that the completion has there
   */
  show({ count, first }, chosen) {
    this.#count.textContent = inWords(count, first.ids.length);
    this.#list.hidden = false;
    const items = first.ids.map((id, position) => this.#item(id, wordsOf(first, position), id === chosen));
    fill(this.#list, ...items);
  }

  /**
   * @param {number} id
   * @param {string} words
   * @param {boolean} isChosen
   */
  #item(id, words, isChosen) {
    const item = element(
      "button",
      {
        type: "button",
        class: isSpecial(id) ? "allowed special" : "allowed",
        title: phrase("Go on with this token"),
        "aria-current": isChosen ? "true" : null,
        onclick: () => this.#onChoose(id),
      },
      element("code", {}, words),
      " ",
      element("small", {}, id),
    );
    return element("li", {}, item);
  }
}

/**
 * @param {number} count
 * @param {number} listed
 */
function inWords(count, listed) {
  if (count <= listed) return counted(count, "{count} token allowed", "{count} tokens allowed");
  return phrase("{count} tokens allowed; the first {listed}:", { count, listed });
}

/**
 * @param {Tokens} tokens
 * @param {number} position
 */
function wordsOf({ texts, bytes }, position) {
  const text = texts[position];
  return text === null ? phrase("bytes {bytes}", { bytes: bytes[position] ?? "" }) : visible(text).replaceAll(" ", "␣");
}
