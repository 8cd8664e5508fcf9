/**
 * Tokens to messages: the parser's way through a stream, token by token, strict and lenient side
 * by side.
 */

import { ApiError, call } from "./api.js";
import { declaredTools } from "./declared-tools.js";
import { button, element, fill, labelled, select } from "./element.js";
import { exampleButtons, lesson } from "./lesson.js";
import { Panes } from "./panes.js";
import { differingMessages, isPlainText, problemsOf } from "./problems.js";
import { layoutOf } from "./reading-layout.js";
import { ReadingPanel } from "./reading-panel.js";
import { SteppedView } from "./stepped-view.js";
import { TabReader } from "./tab-reader.js";
import { TokenInput } from "./token-input.js";
import { counted, digits, listed, phrase, recoveryCount, tokenCount } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { Problem } from "./problems.js" */
/** @import { JsonObject, Parsing, Role } from "./wire.js" */

const ROLES = /** @type {const} */ ([
  ["assistant", phrase("assistant (a completion)")],
  ["", phrase("none")],
  ["user", "user"],
  ["system", "system"],
  ["developer", "developer"],
  ["tool", "tool"],
]);

const PLACEHOLDER = `${phrase("Marked-up text:")}
<|channel|>final<|message|>2 + 2 = 4.<|return|>
${phrase("or token ids: {ids}", { ids: "200005, 17196, 200008" })}`;

const LESSON = phrase(
  "Paste what a model wrote, as marked-up text or as token ids. Here you then see the messages that " +
  "the tokens make, step by step. Damaged output is repaired, and each repair is marked at its token.",
);

const FORMAT = `<|channel|>analysis<|message|>${phrase("the reasoning")}<|end|>
<|start|>assistant<|channel|>final<|message|>${phrase("the answer")}<|return|>`;

const PLAIN = phrase(
  "The text has no special tokens. If a model wrote it, it is damaged: the strict parser fails, and " +
  "the lenient parser reads it as one message on the channel final.",
);

const KEYS = phrase(
  "← → by token, Page Up and Page Down by change of state, Home and End to the ends, Space to play",
);

/** Problems that are listed; all of them are marked at their tokens. */
const LISTED = 200;

export class StepperTab {
  #state;
  #role = "assistant";
  /** @type {{ source: JsonObject | null, tools: string[] }} the tools of the source read last */
  #declared = { source: null, tools: [] };
  #input;
  #tools;
  #reader;
  #status;
  #stepped;
  #strict;
  #lenient;
  #recoveries;
  #results;
  #lesson;
  #panes;
  #count = 0;

  /**
   * @param {HTMLElement} host
   * @param {State} state
   */
  constructor(host, state) {
    this.#state = state;
    this.#reader = new TabReader(host, (signal) => this.#parse(signal));
    const form = element("section", { class: "pane given", "aria-label": phrase("Tokens to read") });
    this.#input = new TokenInput(
      form,
      {
        label: phrase("Tokens or text"),
        placeholder: PLACEHOLDER,
        onInput: (text) => this.#state.set({ input: text }),
        onError: (message) => this.#reader.problem.say(message),
      },
      button(phrase("Prompt of the conversation"), () => this.#takePrompt()),
    );
    this.#tools = element("input", {
      type: "text",
      spellcheck: "false",
      autocapitalize: "off",
      oninput: () => this.#reader.change(),
    });
    this.#status = element("p", { class: "summary", role: "status" });
    form.append(
      element(
        "div",
        { class: "fields" },
        labelled(
          phrase("Role"),
          select(ROLES, this.#role, (value) => {
            this.#role = value;
            this.#reader.change();
          }),
          phrase("The author of the first message, if the input does not begin with <|start|>."),
        ),
        labelled(phrase("Tools"), this.#tools, phrase("Empty: the tools that the conversation declares.")),
      ),
      this.#reader.problem.node,
      this.#status,
    );

    this.#results = element("section", {
      class: "stepped",
      "aria-label": phrase("What the parser reads"),
      hidden: true,
    });
    this.#stepped = new SteppedView(this.#results, host, {
      label: phrase("Stream"),
      keys: KEYS,
      onPlace: (place) => this.#show(place),
      mark: (place, forward) => this.#changeFrom(place, forward),
    });
    this.#recoveries = element("section", { class: "recoveries", "aria-label": phrase("Recoveries") });
    const readings = element("div", { class: "readings" });
    this.#strict = new ReadingPanel(readings, phrase("Strict"), phrase("Messages of the strict parser"));
    this.#lenient = new ReadingPanel(readings, phrase("Lenient"), phrase("Messages of the lenient parser"));
    this.#results.append(readings);
    form.append(this.#recoveries);
    const format = element("pre", {}, FORMAT);
    this.#lesson = lesson(phrase("Read a model's output"), LESSON, format, ...exampleButtons(state, "tokens"));
    const second = element("div", { class: "pane" }, this.#lesson, this.#results);
    this.#panes = new Panes({ title: phrase("Input"), pane: form }, { title: phrase("Messages"), pane: second }, 1);
    host.append(this.#panes.node);
    state.subscribe((_, changed) => {
      const matters = ["input", "source", "draft", "form"];
      if (matters.some((name) => changed.has(/** @type {any} */ (name)))) this.#reader.change();
    });
  }

  /** The tab has come into view: read what has changed meanwhile. */
  show() {
    this.#reader.show();
  }

  async #takePrompt() {
    try {
      const { source, form, options } = this.#state.conversation();
      const { tokens } = await call("render", { source, form, ...options });
      this.#state.set({ input: tokens.ids.join(" ") });
    } catch (error) {
      this.#reader.problem.say(error);
    }
  }

  /** @param {AbortSignal} signal */
  async #parse(signal) {
    const { input } = this.#state.get();
    this.#input.text = input;
    if (input.trim() === "") {
      this.#reader.finish();
      this.#setEmpty(true);
      this.#status.textContent = "";
      return;
    }
    const role = this.#role === "" ? null : /** @type {Role} */ (this.#role);
    const declared = await this.#declaredTools(signal);
    this.#tools.placeholder = declared.length === 0 ? phrase("none declared") : declared.join(", ");
    const written = this.#tools.value.split(/[\s,]+/).filter(Boolean);
    const tools = written.length === 0 ? declared : written;
    this.#take(await call("parse", { input, role, tools }, signal), tools);
    this.#reader.finish();
  }

  /**
   * The tools of the conversation; none while it has an error, which its own tab shows.
   *
   * @param {AbortSignal} signal
   */
  async #declaredTools(signal) {
    const { source, draft, form } = this.#state.get();
    if (draft !== "") return [];
    if (source !== this.#declared.source) {
      /** @type {string[]} */
      let tools = [];
      try {
        tools = declaredTools((await call("render", { source, form }, signal)).conversation);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
      }
      this.#declared = { source, tools };
    }
    return this.#declared.tools;
  }

  /** @param {boolean} isEmpty */
  #setEmpty(isEmpty) {
    this.#results.hidden = isEmpty;
    this.#lesson.hidden = !isEmpty;
    this.#panes.empty = isEmpty;
  }

  /**
   * @param {Parsing} parsing
   * @param {string[]} tools the declared recipients
   */
  #take(parsing, tools) {
    const { tokens, strict, lenient } = parsing;
    const count = tokens.ids.length;
    this.#count = count;
    const differing = differingMessages(strict, lenient);
    this.#setEmpty(false);
    this.#panes.result = `${phrase("Messages")} ${digits(lenient.messages.length)}`;
    this.#strict.take(strict, count, differing);
    this.#lenient.take(lenient, count, differing);
    const { spans, rows } = layoutOf(lenient, count);
    // Until somebody steps, the whole is of interest.
    this.#stepped.show(tokens, spans, rows, count);
    const problems = problemsOf(parsing, tools);
    const isPlain = isPlainText(parsing);
    for (const { position, kind, words, text = "", className } of problems) {
      if (isPlain || position >= count) continue;
      const note = className === "recovery" ? inWords(kind, text) : `${kind}: ${words}`;
      this.#stepped.view.decorate(position, className, note);
    }
    this.#listProblems(problems, isPlain);
    this.#status.textContent = isPlain ? counted(count, "{count} token of plain text.", "{count} tokens of plain text.") : statusOf(parsing, differing);
    this.#show(count);
  }

  /**
   * @param {Problem[]} problems
   * @param {boolean} isPlain whether they are only those of a text without markup
   */
  #listProblems(problems, isPlain) {
    const left = problems.length - LISTED;
    this.#recoveries.hidden = problems.length === 0;
    if (isPlain) {
      fill(this.#recoveries, element("p", { class: "hint" }, PLAIN));
      return;
    }
    fill(
      this.#recoveries,
      element("h2", {}, phrase("Problems")),
      element("ul", {}, ...problems.slice(0, LISTED).map((problem) => this.#problemItem(problem))),
      left > 0 && element("p", { class: "hint" }, phrase("and {count} more", { count: left })),
    );
  }

  /** @param {Problem} problem */
  #problemItem({ position, kind, words, text = "", original, className }) {
    const where = position < this.#count ? phrase("Token {position}", { position: String(position) }) : phrase("End");
    return element(
      "li",
      { class: className },
      button(where, () => this.#stepped.move(position + 1)),
      element(
        "div",
        {},
        element("strong", {}, kind),
        ` ${words}`,
        text !== "" && element("code", {}, ` ${JSON.stringify(text)}`),
        original !== undefined && element("small", {}, original),
      ),
    );
  }

  /**
   * @param {number} place
   * @param {boolean} forward
   */
  #changeFrom(place, forward) {
    const { index } = this.#lenient;
    return forward ? index.changeAfter(place) : index.changeBefore(place);
  }

  /** @param {number} place */
  #show(place) {
    const strict = this.#strict.knowledgeAt(place);
    const lenient = this.#lenient.knowledgeAt(place);
    this.#strict.move(place, lenient);
    this.#lenient.move(place, strict);
    this.#stepped.describe([lenient.state, lenient.channel].filter(Boolean).join(", "));
  }
}

/**
 * @param {Parsing} parsing
 * @param {ReadonlySet<number>} differing the messages that the parsers read in different ways
 */
function statusOf({ tokens, strict, lenient }, differing) {
  const counts = listed([
    tokenCount(tokens.ids.length),
    counted(lenient.messages.length, "{count} message", "{count} messages"),
    recoveryCount(lenient.recoveries.length),
  ]);
  if (strict.error !== null) return phrase("{counts}; the strict parser fails.", { counts });
  if (differing.size > 0) return phrase("{counts}; the strict parser reads other messages.", { counts });
  return phrase("{counts}; the strict parser reads them all.", { counts });
}

/**
 * @param {string} kind
 * @param {string} text
 */
function inWords(kind, text) {
  return text === "" ? kind : `${kind} ${JSON.stringify(text)}`;
}
