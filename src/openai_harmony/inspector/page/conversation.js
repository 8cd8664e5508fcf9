/** The tab "Conversation": on the left what is said, on the right what the model reads. */

import { call, ApiError, apiKey } from "./api.js";
import { copyText } from "./clipboard.js";
import { Editor } from "./editor.js";
import { button, element, fill, labelled } from "./element.js";
import { LatestCall } from "./latest-call.js";
import { RenderOptions } from "./render-options.js";
import { RenderingView } from "./rendering-view.js";
import { detailsOf, showDetails } from "./token-detail.js";

/** @import { State } from "./state.js" */
/** @import { Rendering } from "./wire.js" */

export class ConversationTab {
  #state;
  #latest = new LatestCall();
  /** @type {Rendering | null} */
  #rendering = null;
  /** @type {number | null} the token whose details stay */
  #chosen = null;
  #summary = element("p", { class: "summary", role: "status" });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  #detail = element("div", { class: "detail", "data-testid": "token-detail" });
  #tokens = element("div", { class: "tokens" });
  #spoken = element("p", { class: "offscreen", role: "status" });
  #legend = element("p", { class: "legend", hidden: true });
  #result = element("section", { class: "pane result", "aria-label": "Rendering" });
  #editor;
  #options;
  #view;

  /**
   * @param {HTMLElement} host
   * @param {State} state
   */
  constructor(host, state) {
    this.#state = state;
    const editor = element("section", { class: "pane editor", "aria-label": "Editor" });
    const options = element("div");
    this.#editor = new Editor(editor, state);
    this.#options = new RenderOptions(options, state);
    this.#view = new RenderingView(
      this.#tokens,
      (index) => this.#choose(index),
      (index) => showDetails(this.#detail, this.#rendering, index ?? this.#chosen),
    );
    fillLegend(this.#legend);
    const head = element("div", { class: "pane-head" }, options, this.#switches(), this.#summary);
    fill(this.#result, head, this.#problem, this.#legend, this.#tokens, this.#detail, this.#spoken);
    fill(host, element("div", { class: "panes" }, editor, this.#result));
    showDetails(this.#detail, null, null);
    state.subscribe((_document, changed) => {
      const matters = changed.has("source") || changed.has("form") || changed.has("options");
      if (!matters) return;
      this.#result.setAttribute("aria-busy", "true");
      this.#latest.wish((signal) => this.#render(signal));
    });
    apiKey.addEventListener("change", () => this.#latest.now((signal) => this.#render(signal)));
  }

  /** The tab comes into view. */
  show() {
    if (this.#rendering === null) this.#latest.now((signal) => this.#render(signal));
  }

  #switches() {
    const ids = element("input", {
      type: "checkbox",
      onchange: () => {
        this.#view.ids = ids.checked;
      },
    });
    const mask = element("input", {
      type: "checkbox",
      onchange: () => {
        this.#view.mask = mask.checked;
        this.#legend.hidden = !mask.checked;
      },
    });
    const copyIds = () => copyText((this.#rendering?.tokens.ids ?? []).join(" "), "Token ids");
    return element(
      "div",
      { class: "switches" },
      labelled("Token ids", ids),
      labelled("Training mask", mask),
      button("Copy text", () => copyText(this.#rendering?.text ?? "", "Text")),
      button("Copy ids", copyIds),
    );
  }

  /** @param {AbortSignal} signal */
  async #render(signal) {
    const { source, form, options } = this.#state.get();
    this.#result.setAttribute("aria-busy", "true");
    try {
      this.#show(await call("render", { source, form, ...options }, signal));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#fail(error);
    }
    this.#result.removeAttribute("aria-busy");
  }

  /** @param {Rendering} rendering */
  #show(rendering) {
    this.#rendering = rendering;
    this.#chosen = null;
    this.#problem.hidden = true;
    this.#result.classList.remove("stale");
    this.#editor.follow(rendering);
    this.#options.follow(rendering.examples, rendering.form);
    this.#view.show(rendering);
    fill(this.#summary, ...summaryOf(rendering));
    showDetails(this.#detail, rendering, null);
  }

  /** @param {ApiError} error */
  #fail(error) {
    const place = error.param === null ? "" : `${error.param}: `;
    this.#problem.textContent = place + error.message;
    this.#problem.hidden = false;
    this.#result.classList.add("stale");
    this.#editor.showProblem(error.param, error.message);
  }

  /** @param {number} index */
  #choose(index) {
    if (this.#rendering === null) return;
    this.#chosen = index;
    this.#view.mark(index);
    showDetails(this.#detail, this.#rendering, index);
    const details = detailsOf(this.#rendering, index);
    this.#spoken.textContent = details.map((pair) => pair.join(" ")).join(", ");
    const span = this.#rendering.spans.find(({ end }) => index < end);
    if (span !== undefined) this.#editor.reveal(span.message);
  }
}

/**
 * Counts: tokens, messages, what was left out, what the model samples, and what is trained on.
 *
 * @param {Rendering} rendering
 * @returns {(HTMLElement | string)[]}
 */
function summaryOf({ tokens, messages, spans }) {
  const dropped = messages.filter((message) => message.dropped !== null).length;
  const sampled = lengthOf(spans.filter((span) => span.sampled));
  const trainable = lengthOf(spans.filter((span) => span.trainable));
  /** @type {[number, string, string][]} */
  const counts = [
    [tokens.ids.length, "token", "tokens"],
    [messages.length - dropped, "message", "messages"],
    [dropped, "left out", "left out"],
    [sampled, "sampled", "sampled"],
    [trainable, "trainable", "trainable"],
  ];
  return counts
    .filter(([count], position) => count > 0 || position < 2)
    .flatMap(([count, one, many]) => {
      const number = element("strong", {}, count.toLocaleString("en"));
      return [element("span", {}, number, ` ${count === 1 ? one : many}`), " "];
    });
}

/** @param {{ start: number, end: number }[]} spans */
function lengthOf(spans) {
  return spans.reduce((sum, { start, end }) => sum + end - start, 0);
}

/** @param {HTMLElement} host */
function fillLegend(host) {
  fill(
    host,
    element("span", {}, element("i", { class: "key" }), " given"),
    element("span", {}, element("i", { class: "key key-sampled" }), " sampled by the model"),
    element("span", {}, element("i", { class: "key key-trainable" }), " trainable (ending: training)"),
  );
}
