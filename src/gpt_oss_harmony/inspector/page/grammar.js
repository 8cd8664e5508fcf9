/**
 * The grammar of the assistant's next turn in the conversation: what may stand at each place of a
 * completion, and where the completion leaves it.
 */

import { AllowedSteps } from "./allowed-steps.js";
import { AllowedTokens } from "./allowed-tokens.js";
import { call, settings, wasAborted } from "./api.js";
import { declaredTools } from "./declared-tools.js";
import { button, element, fill, labelled } from "./element.js";
import { lesson } from "./lesson.js";
import { Panes } from "./panes.js";
import { problemWords } from "./problem-line.js";
import { layoutOf } from "./reading-layout.js";
import { concernsConversation } from "./state.js";
import { SteppedView } from "./stepped-view.js";
import { TabReader } from "./tab-reader.js";
import { TokenInput } from "./token-input.js";
import { counted, phrase, sentence } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { Allowed, Json } from "./wire.js" */

const PLACEHOLDER = `${phrase("What the model writes after {start}:", { start: "<|start|>assistant" })}
<|channel|>final<|message|>2 + 2 = 4.<|return|>`;

const LESSON = phrase(
  "The grammar lists the tokens that the model may write next. Choose one of them below, and go on " +
  "token by token; or paste a completion to see where it leaves the grammar.",
);

const NO_GRAMMAR = phrase(
  "This tab shows which tokens a grammar allows. Grammars need llguidance, which browsers cannot run. " +
  "Start the page on your own machine: its link opens the same conversation.",
);

const ALLOWED = "<|channel|>final<|message|>Hello!<|return|>";
const REFUSED = "<|channel|>final<|message|>Hello!<|call|>";

const KEYS = phrase(
  "← → by token, Page Up and Page Down to the next choice, Home and End to the ends, Space to play. " +
  "A darker shade means fewer allowed tokens.",
);

const MODES = /** @type {const} */ ([
  ["auto", "auto"],
  ["none", phrase("none: no calls")],
  ["required", phrase("required: some call")],
]);

/** The number of all tokens: where so many are allowed, nothing is forced. */
const VOCABULARY = 201_089;

export class GrammarTab {
  #state;
  /** @type {AllowedSteps | null} */
  #steps = null;
  /** @type {Allowed | null} */
  #allowed = null;
  /** @type {number | null} the place to go to when what was chosen there is known */
  #wanted = null;
  #input;
  #choice;
  #reasoning;
  #reader;
  #verdict;
  #results;
  #stepped;
  #tokens;
  #mismatch;
  #grammar;
  #lark;
  #grammarSize;
  #lesson;
  #body;
  #notice = lesson(
    phrase("No grammars here"),
    NO_GRAMMAR,
    // Until a package index has the package.
    element("pre", {}, "git clone https://github.com/gpt-oss-harmony/gpt-oss-harmony && cd gpt-oss-harmony\npip install '.[inspect]'\nharmony inspect"),
  );

  /**
   * @param {HTMLElement} host
   * @param {State} state
   */
  constructor(host, state) {
    this.#state = state;
    this.#notice.hidden = true;
    this.#reader = new TabReader(host, async (signal) => {
      try {
        await this.#read(signal);
      } catch (error) {
        const problem = problemWords(error);
        if (!signal.aborted) this.#tokens.say(phrase("No grammar: {problem}", { problem }));
        throw error;
      }
    });
    const form = element("section", { class: "pane given", "aria-label": phrase("Completion to follow") });
    this.#input = new TokenInput(
      form,
      {
        label: phrase("Completion"),
        placeholder: PLACEHOLDER,
        onInput: (text) => this.#state.set({ completion: text }),
        onError: (message) => this.#reader.problem.say(message),
      },
      button(phrase("Clear"), () => this.#state.set({ completion: "" })),
    );
    this.#choice = element("select", { onchange: () => this.#reader.change() });
    this.#offer([]);
    this.#reasoning = element("input", {
      type: "checkbox",
      checked: true,
      onchange: () => this.#reader.change(),
    });
    this.#verdict = element("p", { class: "summary verdict", role: "status" });
    form.append(
      element(
        "div",
        { class: "fields" },
        labelled(phrase("Tool choice"), this.#choice, phrase("auto follows the request's tool_choice.")),
        labelled(phrase("Reasoning allowed"), this.#reasoning),
      ),
      this.#reader.problem.node,
      this.#verdict,
    );

    this.#results = element("section", {
      class: "pane stepped",
      "aria-label": phrase("What the grammar allows"),
    });
    this.#stepped = new SteppedView(this.#results, host, {
      label: phrase("Completion tokens"),
      keys: KEYS,
      onPlace: (place) => this.#show(place),
      mark: (place, forward) => this.#freePlace(place, forward),
    });
    this.#mismatch = element("p", { class: "problem mismatch", hidden: true });
    const allowed = element("section", { class: "allowed-tokens", "aria-label": phrase("Allowed tokens") });
    this.#tokens = new AllowedTokens(allowed, (id) => this.#goOnWith(id));
    this.#tokens.say(phrase("Compiling the grammar …"));
    this.#grammarSize = element("summary");
    this.#grammar = element("pre", { tabindex: "0", "aria-label": phrase("Grammar in Lark's form") });
    this.#lark = element("details", { class: "lark", hidden: true }, this.#grammarSize, this.#grammar);
    form.append(this.#mismatch, this.#lark);
    this.#lesson = lesson(
      phrase("Write a turn under its grammar"),
      LESSON,
      button(phrase("A whole turn"), () => this.#state.set({ completion: ALLOWED })),
      button(phrase("A turn that ends with the wrong token"), () => this.#state.set({ completion: REFUSED })),
    );
    this.#lesson.hidden = state.get().completion !== "";
    this.#results.classList.add("empty");
    this.#results.prepend(this.#lesson);
    this.#results.append(allowed);
    const second = { title: phrase("Allowed tokens"), pane: this.#results };
    this.#body = new Panes({ title: phrase("Completion"), pane: form }, second, 1).node;
    this.#body.hidden = true;
    host.append(this.#notice, this.#body);
    state.subscribe((_, changed) => {
      if (concernsConversation(changed) || changed.has("completion")) this.#reader.change();
    });
  }

  /** The tab has come into view: read what has changed meanwhile. */
  async show() {
    if (this.#body.hidden) await this.#findGrammar();
    if (!this.#body.hidden) this.#reader.show();
  }

  async #findGrammar() {
    let hasGrammar = true;
    try {
      hasGrammar = (await settings()).grammar;
    } catch (error) {
      this.#reader.problem.say(error);
    }
    this.#notice.hidden = hasGrammar;
    this.#body.hidden = !hasGrammar;
  }

  /**
   * Offer the choices that there are with these tools; what was chosen stays, if it can.
   *
   * @param {string[]} recipients
   */
  #offer(recipients) {
    const chosen = this.#choice.value;
    const tools = recipients.map((name) => /** @type {const} */ ([`tool ${name}`, `call ${name}`]));
    fill(
      this.#choice,
      ...[...MODES, ...tools].map(([value, words]) => element("option", { value }, words)),
    );
    this.#choice.value = chosen;
    if (this.#choice.selectedIndex < 0) this.#choice.value = "auto";
  }

  /** @returns {Json} */
  #toolChoice() {
    const { value } = this.#choice;
    if (value.startsWith("tool ")) return { type: "function", name: value.slice("tool ".length) };
    return value === "auto" ? null : value;
  }

  /** @param {AbortSignal} signal */
  async #read(signal) {
    const { completion } = this.#state.get();
    this.#input.text = completion;
    this.#teach(completion.trim() === "");
    const { source, form, options } = this.#state.conversation();
    const { conversation } = await call("render", { source, form, ...options }, signal);
    const tools = declaredTools(conversation);
    this.#offer(tools);
    const steps = new AllowedSteps(
      {
        source,
        form,
        date: options.date ?? null,
        completion,
        tool_choice: this.#toolChoice(),
        reasoning: this.#reasoning.checked,
      },
      signal,
    );
    const allowed = await steps.fetch(0);
    const { ids } = allowed.tokens;
    const input = ids.join(" ");
    const layout =
      ids.length === 0
        ? { spans: [], rows: [] }
        : layoutOf(
            (await call("parse", { input, role: "assistant", tools }, signal)).lenient,
            ids.length,
          );
    this.#reader.finish();
    this.#steps = steps;
    this.#take(allowed, layout);
  }

  /** @param {boolean} isEmpty whether nothing is written yet */
  #teach(isEmpty) {
    this.#lesson.hidden = !isEmpty;
    this.#results.classList.toggle("empty", isEmpty);
  }

  /**
   * @param {Allowed} allowed
   * @param {ReturnType<typeof layoutOf>} layout
   */
  #take(allowed, { spans, rows }) {
    const { tokens, mismatch, grammar } = allowed;
    const count = tokens.ids.length;
    this.#allowed = allowed;
    this.#lark.hidden = false;
    this.#teach(count === 0);
    this.#verdict.textContent = verdictOn(allowed);
    this.#verdict.classList.toggle("bad", mismatch !== null);
    const place = Math.min(this.#wanted ?? mismatch?.position ?? count, count);
    this.#wanted = null;
    this.#stepped.show(tokens, spans, rows, place);
    this.#shade();
    if (mismatch !== null) {
      this.#stepped.view.decorate(mismatch.position, "refused", mismatch.explanation);
    }
    this.#mismatch.hidden = mismatch === null;
    this.#mismatch.textContent = mismatch === null ? "" : sentence(mismatch.explanation);
    this.#grammar.textContent = grammar;
    this.#grammarSize.textContent = phrase("The grammar, {count} characters", { count: grammar.length });
    this.#show(place);
  }

  /** @param {number} place */
  async #show(place) {
    const steps = this.#steps;
    if (steps === null || this.#allowed === null) return;
    if (steps.known(place) === undefined && !this.#hasLeft(place)) {
      this.#tokens.say(phrase("Asking the grammar …"));
      try {
        await steps.fetch(place);
      } catch (error) {
        if (!wasAborted(error)) this.#reader.problem.say(error);
        return;
      }
      if (steps !== this.#steps) return;
      this.#shade();
      if (place !== this.#stepped.place) return;
    }
    this.#describe(place);
  }

  /** @param {number} place */
  #hasLeft(place) {
    const { mismatch = null } = this.#allowed ?? {};
    return mismatch !== null && place > mismatch.position;
  }

  /** @param {number} place */
  #describe(place) {
    const step = this.#steps?.known(place);
    if (step !== undefined) {
      this.#tokens.show(step, this.#allowed?.tokens.ids[place]);
      this.#stepped.describe(phrase("{count} allowed next", { count: step.count }));
    } else if (this.#hasLeft(place)) {
      const position = String(this.#mismatchPosition);
      this.#tokens.say(phrase("The completion has left the grammar at token {position}", { position }));
      this.#stepped.describe(phrase("outside the grammar"));
    } else {
      this.#tokens.say(phrase("No token allowed: the turn is over"));
    }
  }

  get #mismatchPosition() {
    return this.#allowed?.mismatch?.position ?? 0;
  }

  /** Shade the tokens whose places are known: the fewer were allowed, the darker. */
  #shade() {
    const { length } = this.#allowed?.tokens.ids ?? [];
    const shades = Array.from({ length }, (_, place) => {
      const count = this.#steps?.known(place)?.count;
      return count === undefined ? null : 1 - Math.log(count) / Math.log(VOCABULARY);
    });
    this.#stepped.view.shade(shades);
  }

  /**
   * The next place where the model has a choice, as far as the pages are known.
   *
   * @param {number} place
   * @param {boolean} forward
   */
  #freePlace(place, forward) {
    const count = this.#allowed?.tokens.ids.length ?? 0;
    const step = forward ? 1 : -1;
    let position = place + step;
    while (position > 0 && position < count && this.#steps?.known(position)?.count === 1) position += step;
    return position;
  }

  /**
   * Put a token at the place of the cursor, and go on behind it.
   *
   * @param {number} id
   */
  #goOnWith(id) {
    const { place } = this.#stepped;
    const ids = this.#allowed?.tokens.ids.slice(0, place) ?? [];
    this.#wanted = place + 1;
    this.#state.set({ completion: [...ids, id].join(" ") });
  }
}

/**
 * How a completion fares, in a sentence.
 *
 * @param {Allowed} allowed
 */
function verdictOn({ tokens, mismatch, finished }) {
  if (tokens.ids.length === 0) return phrase("Nothing is written yet.");
  const count = tokens.ids.length;
  if (mismatch !== null) {
    return phrase("It leaves the grammar at token {position}.", { position: String(mismatch.position) });
  }
  if (finished) return counted(count, "A whole turn of {count} token.", "A whole turn of {count} tokens.");
  return counted(
    count,
    "{count} token, which is allowed; the turn is not over.",
    "{count} tokens, all allowed; the turn is not over.",
  );
}
