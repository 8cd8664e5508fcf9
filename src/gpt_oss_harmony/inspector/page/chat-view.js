/** The conversation as people read it, and a form for a tool's result. */

import { element, fill, labelled } from "./element.js";
import { messageCard, settingsCard } from "./message-card.js";
import { counted, phrase } from "./words.js";

/** @import { HarmonyMessage, RenderedMessage } from "./wire.js" */

/** Messages that are shown, the last ones. */
const SHOWN = 50;

export class ChatView {
  #messages = element("div", { class: "cards" });
  #growing = element("div", { class: "cards growing" });
  #call = element("form", { class: "tool-result", hidden: true });
  #scroll;
  #onResult;

  /**
   * @param {HTMLElement} host
   * @param {(call: HarmonyMessage, text: string) => void} onResult a call has its result
   */
  constructor(host, onResult) {
    this.#onResult = onResult;
    const log = { role: "log", "aria-live": "off", "aria-label": phrase("Chat") };
    this.#scroll = element(
      "div",
      { class: "chat", tabindex: "0", ...log },
      this.#messages,
      this.#growing,
    );
    host.append(this.#scroll, this.#call);
  }

  /** Where messages are shown while they are sampled. */
  get growing() {
    return this.#growing;
  }

  /**
   * Show the messages; those that the prompt leaves out are marked.
   *
   * @param {HarmonyMessage[]} messages
   * @param {RenderedMessage[]} rendered the same, as the prompt has them
   */
  show(messages, rendered) {
    const left = Math.max(messages.length - SHOWN, 0);
    fill(
      this.#messages,
      left > 0 && element("p", { class: "hint" }, counted(left, "{count} earlier message", "{count} earlier messages")),
      ...messages.slice(left).map((message, position) => {
        if (isSettings(message)) return settingsCard(message);
        const why = rendered[left + position]?.dropped ?? null;
        const card = messageCard(message, why === null ? "" : phrase("left out of the prompt"));
        card.classList.toggle("dropped", why !== null);
        card.title = why ?? "";
        return card;
      }),
    );
    fill(this.#growing);
    this.toEnd();
  }

  /** Scroll to what was said last. */
  toEnd() {
    this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }

  /** Let the user write the result that is asked for, if one is. */
  focus() {
    this.#call.querySelector("textarea")?.focus();
    this.#call.scrollIntoView({ block: "nearest" });
  }

  /**
   * Ask for the result of a call; null: of none.
   *
   * @param {HarmonyMessage | null} call
   */
  ask(call) {
    this.#call.hidden = call === null;
    if (call === null) {
      fill(this.#call);
      return;
    }
    const result = element("textarea", {
      rows: 3,
      spellcheck: "false",
      placeholder: '{"temperature": 20, "sunny": true}',
    });
    this.#call.onsubmit = (event) => {
      event.preventDefault();
      this.#onResult(call, result.value);
    };
    fill(
      this.#call,
      labelled(phrase("Result of {call}", { call: call.recipient ?? "" }), result),
      element(
        "div",
        { class: "row-of-buttons" },
        element("button", { class: "primary" }, phrase("Go on")),
      ),
    );
  }
}

/** @param {HarmonyMessage} message */
function isSettings({ role }) {
  return role === "system" || role === "developer";
}

