/** The tab "Conversation": the messages on the left, the tokens that the model reads on the right. */

import { call, ApiError, apiKey } from "./api.js";
import { copyText } from "./clipboard.js";
import { Editor, isBlank } from "./editor.js";
import { button, element, fill, labelled } from "./element.js";
import { LatestCall } from "./latest-call.js";
import { exampleButtons, lesson } from "./lesson.js";
import { menu } from "./menu.js";
import { Panes } from "./panes.js";
import { RenderOptions } from "./render-options.js";
import { RenderingView } from "./rendering-view.js";
import { concernsConversation, UnreadableError } from "./state.js";
import { detailsOf, showDetails } from "./token-detail.js";
import { tokenLooks } from "./token-looks.js";
import { counted, digits, phrase, sentence, tokenCount } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { Rendering } from "./wire.js" */

const BEFORE_PYTHON = phrase(
  "No tokens yet: press the button to load Python, above. It takes some 5 to 20 seconds; the tokens then appear here.",
);

export class ConversationTab {
  #state;
  #latest = new LatestCall();
  /** @type {Rendering | null} */
  #rendering = null;
  #isTraining = false;
  /** @type {number | null} the token whose details stay */
  #chosen = null;
  #summary = element("p", { class: "summary", role: "status" });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  #detail = element("div", { class: "detail", "data-testid": "token-detail" });
  #tokens = element("div", { class: "tokens" });
  #spoken = element("p", { class: "offscreen", role: "status" });
  #legend = element("div", { class: "legend", hidden: true });
  #lesson = element("div", { hidden: true });
  #mask = element("input", { type: "checkbox", onchange: () => this.#showMask() });
  #result = element("section", { class: "pane result", "aria-label": phrase("Rendering") });
  #editor;
  #options;
  #panes;
  #view;

  /**
   * @param {HTMLElement} host
   * @param {State} state
   */
  constructor(host, state) {
    this.#state = state;
    const editor = element("section", { class: "pane editor", "aria-label": phrase("Editor") });
    const words = phrase(
      "Add a message in the editor, paste JSON anywhere on this page, or drop a file. " +
        "Here you then see the tokens that the model reads.",
    );
    fill(this.#lesson, lesson(phrase("No messages yet"), words, ...exampleButtons(state, "conversation")));
    const options = element("div");
    this.#editor = new Editor(editor, state);
    this.#options = new RenderOptions(options, state);
    this.#view = new RenderingView(
      this.#tokens,
      (index) => this.#choose(index),
      (index) => showDetails(this.#detail, this.#rendering, index ?? this.#chosen),
    );
    const looks = element("div", { class: "switches" }, ...tokenLooks(), labelled(phrase("Training mask"), this.#mask));
    const head = element("div", { class: "pane-head" }, this.#summary, this.#copyMenu(), folded(phrase("Options"), options), looks);
    const note = element("p", { class: "before-python" }, BEFORE_PYTHON);
    const body = [this.#problem, note, this.#lesson, this.#legend, this.#tokens, this.#detail, this.#spoken];
    fill(this.#result, head, ...body);
    const first = { title: phrase("Editor"), pane: editor };
    this.#panes = new Panes(first, { title: phrase("Tokens"), pane: this.#result }, 1);
    fill(host, this.#panes.node);
    showDetails(this.#detail, null, null);
    this.#followEnding();
    state.subscribe((_document, changed) => {
      if (changed.has("options")) this.#followEnding();
      if (!concernsConversation(changed)) return;
      this.#result.setAttribute("aria-busy", "true");
      this.#latest.wish((signal) => this.#render(signal));
    });
    apiKey.addEventListener("change", () => this.#latest.now((signal) => this.#render(signal)));
  }

  /** The tab comes into view. */
  show() {
    if (this.#rendering === null) this.#latest.now((signal) => this.#render(signal));
  }

  #copyMenu() {
    const ids = () => this.#rendering?.tokens.ids ?? [];
    const texts = /** @type {const} */ ([
      [phrase("Text"), () => this.#rendering?.text ?? ""],
      [phrase("Token ids"), () => ids().join(" ")],
      [phrase("Python list"), () => `[${ids().join(", ")}]`],
      [phrase("Link"), () => location.href],
    ]);
    return menu(phrase("Copy"), texts.map(([name, make]) => ({ name, choose: () => copyText(make(), name) })));
  }

  /** A training example is shown with its mask; somebody may switch it off, or on elsewhere. */
  #followEnding() {
    const isTraining = this.#state.get().options.ending === "training";
    if (isTraining === this.#isTraining) return;
    this.#isTraining = isTraining;
    this.#mask.checked = isTraining;
    this.#showMask();
  }

  #showMask() {
    this.#view.mask = this.#mask.checked;
    this.#legend.hidden = !this.#mask.checked;
  }

  /** @param {Rendering} rendering */
  #fillLegend({ untrained, spans, tokens }) {
    const key = (/** @type {string} */ name, /** @type {string} */ words) =>
      element("span", {}, element("i", { class: `key ${name}` }), ` ${words}`);
    const trained = lengthOf(spans.filter((span) => span.trainable));
    const words = phrase("{trained} of {total} tokens are trained on.", { trained, total: tokens.ids.length });
    const { options } = this.#state.get();
    const showExample = () => this.#state.set({ options: { ...options, ending: "training", example: 0 } });
    fill(
      this.#legend,
      key("", phrase("given")),
      key("key-sampled", phrase("sampled by the model")),
      key("key-trainable", phrase("trained on")),
      element("p", {}, untrained === null ? words : sentence(untrained)),
      options.ending !== "training" && button(phrase("Show the training example"), showExample),
    );
  }

  /** @param {AbortSignal} signal */
  async #render(signal) {
    this.#result.setAttribute("aria-busy", "true");
    try {
      const { source, form, options } = this.#state.conversation();
      this.#show(await call("render", { source, form, ...options }, signal));
    } catch (error) {
      if (error instanceof ApiError) this.#fail(error);
      else if (error instanceof UnreadableError) this.#outdate(""); // the editor says why
      else throw error;
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
    this.#lesson.hidden = !isBlank(this.#state.get().source);
    this.#fillLegend(rendering);
    fill(this.#summary, ...summaryOf(rendering));
    this.#panes.result = `${phrase("Tokens")} ${digits(rendering.tokens.ids.length)}`;
    showDetails(this.#detail, rendering, null);
  }

  /** @param {ApiError} error */
  #fail(error) {
    const place = error.param === null ? "" : `${error.param}: `;
    const isShown = this.#editor.showProblem(error.param, error.message);
    this.#outdate(isShown ? "" : place + error.message);
  }

  /**
   * Mark what is shown as old, without its counts.
   *
   * @param {string} problem why; "" if the editor shows it
   */
  #outdate(problem) {
    this.#problem.textContent = problem;
    this.#problem.hidden = problem === "";
    this.#result.classList.add("stale");
    const old = phrase("Not up to date: these are the tokens before the error.");
    const none = phrase("No tokens: the conversation has an error.");
    fill(this.#summary, this.#rendering === null ? none : old);
    this.#panes.result = phrase("Tokens");
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
 * Counts: tokens, characters, messages, what was left out, what the model samples, and what is
 * trained on.
 *
 * @param {Rendering} rendering
 * @returns {(HTMLElement | string)[]}
 */
function summaryOf({ tokens, text, messages, spans }) {
  const dropped = messages.filter((message) => message.dropped !== null).length;
  const sampled = lengthOf(spans.filter((span) => span.sampled));
  const trainable = lengthOf(spans.filter((span) => span.trainable));
  const characters = [...text].length;
  /** @type {[number, string][]} */
  const counts = [
    [tokens.ids.length, tokenCount(tokens.ids.length)],
    [characters, counted(characters, "{count} character with markup", "{count} characters with markup")],
    [messages.length - dropped, counted(messages.length - dropped, "{count} message", "{count} messages")],
    [dropped, phrase("{count} left out", { count: dropped })],
    [sampled, phrase("{count} sampled", { count: sampled })],
    [trainable, phrase("{count} trainable", { count: trainable })],
  ];
  return counts
    .filter(([count], position) => count > 0 || position < 3)
    .flatMap(([count, words]) => {
      const number = digits(count);
      const [before, after] = words.split(number);
      return [element("span", {}, before, element("strong", {}, number), after), " "];
    });
}

/** @param {{ start: number, end: number }[]} spans */
function lengthOf(spans) {
  return spans.reduce((sum, { start, end }) => sum + end - start, 0);
}

/**
 * Fold a part that narrow windows have little room for.
 *
 * @param {string} title
 * @param {HTMLElement} part
 */
function folded(title, part) {
  const wide = matchMedia("(min-width: 30.01rem)");
  const made = element("details", { class: "folded", open: wide.matches }, element("summary", {}, title), part);
  wide.addEventListener("change", () => {
    made.open = wide.matches;
  });
  return made;
}
