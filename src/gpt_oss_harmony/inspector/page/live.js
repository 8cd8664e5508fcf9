/**
 * Live: the conversation goes on with the server's model, and each turn is seen as it is sampled.
 */

import { apiKey, call, settings } from "./api.js";
import { ChatView } from "./chat-view.js";
import { CompletionReader } from "./completion-reader.js";
import { streamCompletion } from "./completion-stream.js";
import { declaredTools } from "./declared-tools.js";
import { button, element, fill, labelled } from "./element.js";
import { LatestCall } from "./latest-call.js";
import { lesson } from "./lesson.js";
import * as conversation from "./live-conversation.js";
import { Panes } from "./panes.js";
import { ProblemLine } from "./problem-line.js";
import { SamplingForm } from "./sampling-form.js";
import { concernsConversation } from "./state.js";
import { TurnView } from "./turn-view.js";
import { joined, phrase, recoveryCount, tokenCount } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { HarmonyMessage, JsonObject, Parsing, Rendering } from "./wire.js" */

const NO_MODEL = phrase(
  "This tab talks with a model, and shows each token of its turn with its probability. Start the page " +
  "with a model: a small one comes with the package.",
);

const LESSON = phrase(
  "Send a message. Here you then see each token of the model's turn, with its probability and the " +
  "tokens that were likely in its place.",
);

const DEMO = phrase(
  "The demo model is tiny. It knows the weather example, sums up to 99, greetings and shopping lists, " +
  "and answers “I don't know.” to everything else.",
);

const NO_GRAMMAR = phrase("Here is no grammar: grammars need llguidance, which has no build for browsers.");

/**
 * A turn as it is sampled. `source` is what it goes on from.
 *
 * @typedef {object} Turn
 * @property {JsonObject} source
 * @property {number[]} sampled
 * @property {keyof typeof ENDINGS} ending
 */

const ENDINGS = {
  stop: phrase("The turn has ended"),
  length: phrase("The limit was reached"),
  stopped: phrase("Stopped"),
  "broken off": phrase("Broken off"),
};

export class LiveTab {
  #state;
  #host;
  #reading = new LatestCall();
  #isLive = false;
  #isStale = true;
  #isOwnChange = false;
  /** @type {AbortController | null} of the turn that is sampled now */
  #sampling = null;
  #chat;
  #turn;
  #form;
  #line;
  #send;
  #stop;
  #after = element("div", { class: "row-of-buttons", hidden: true });
  #problem = new ProblemLine();
  #status = element("p", { class: "summary", role: "status" });
  #body;
  #lesson;
  #notice = lesson(
    phrase("No model is loaded"),
    NO_MODEL,
    element("pre", {}, `harmony inspect demo       # ${phrase("the small model of the package")}\n` +
      `harmony inspect MODEL      # ${phrase("another one: a folder, a name or a URL")}`),
  );

  /**
   * @param {HTMLElement} host
   * @param {State} state
   */
  constructor(host, state) {
    this.#state = state;
    this.#host = host;
    const talk = element("section", { class: "pane talk", "aria-label": phrase("Talk") });
    const seen = element("section", { class: "pane seen", "aria-label": phrase("Turn") });
    this.#chat = new ChatView(talk, (call, text) => this.#answerCall(call, text));
    this.#line = element("textarea", {
      rows: 2,
      dir: "auto",
      placeholder: phrase("Write a message. Leave empty to let the model continue."),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#pressed(event),
    });
    this.#send = element("button", { type: "submit", class: "primary" }, phrase("Send"));
    this.#stop = button(phrase("Stop"), () => this.#sampling?.abort(), { disabled: true });
    const settingsHost = element("div", { class: "sampling" });
    this.#form = new SamplingForm(settingsHost);
    const submit = (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      this.#say();
    };
    talk.append(
      element(
        "form",
        { class: "say", onsubmit: submit },
        labelled(phrase("Message"), this.#line, phrase("Enter sends; Shift and Enter begin a new line.")),
        element(
          "div",
          { class: "row-of-buttons" },
          this.#send,
          this.#stop,
          button(phrase("New conversation"), () => this.#beginAnew()),
        ),
        this.#problem.node,
        this.#status,
        this.#after,
        settingsHost,
      ),
    );
    this.#turn = new TurnView(this.#chat.growing, seen);
    this.#lesson = lesson(phrase("A turn, token by token"), LESSON);
    seen.prepend(this.#lesson);
    const second = { title: phrase("Tokens"), pane: seen };
    this.#body = new Panes({ title: phrase("Chat"), pane: talk }, second, 0).node;
    this.#notice.hidden = this.#body.hidden = true;
    fill(host, this.#notice, this.#body);
    state.subscribe((_, changed) => {
      if (concernsConversation(changed)) this.#changed();
    });
    apiKey.addEventListener("change", () => this.#changed());
  }

  /** The tab has come into view. */
  async show() {
    if (!this.#isLive) await this.#findModel();
    if (this.#isLive && this.#isStale) this.#reading.now((signal) => this.#read(signal));
  }

  async #findModel() {
    try {
      const { live, model, grammar } = await settings();
      if (!grammar) this.#form.refuseGrammar(NO_GRAMMAR);
      this.#isLive = live;
      if (model === "demo") this.#lesson.append(element("p", {}, DEMO));
    } catch (error) {
      this.#problem.say(error);
    }
    this.#notice.hidden = this.#isLive;
    this.#body.hidden = !this.#isLive;
  }

  #changed() {
    this.#isStale = true;
    // What can be done with the last turn would undo what somebody has written since.
    if (!this.#isOwnChange) this.#after.hidden = true;
    const isSeen = this.#isLive && this.#host.checkVisibility();
    if (isSeen && this.#sampling === null) this.#reading.wish((signal) => this.#read(signal));
  }

  /**
   * Read the conversation, and show it.
   *
   * @param {AbortSignal} [signal]
   */
  async #read(signal) {
    try {
      this.#show(await conversation.renderPrompt(this.#state, signal));
      this.#problem.say("");
    } catch (error) {
      if (signal?.aborted) return;
      this.#problem.say(error);
      this.#body.classList.add("stale");
    }
  }

  /** @param {Rendering} rendering */
  #show({ conversation: { messages }, messages: rendered }) {
    this.#isStale = false;
    this.#body.classList.remove("stale");
    this.#chat.show(messages, rendered);
    this.#chat.ask(conversation.openCall(messages));
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#say();
  }

  #beginAnew() {
    this.#sampling?.abort();
    try {
      this.#setSource(conversation.withoutTurns(this.#state.conversation().source));
    } catch (error) {
      this.#problem.say(error);
      return;
    }
    this.#turn.begin(0);
    this.#status.textContent = "";
    this.#after.hidden = true;
    this.#line.focus();
  }

  /** The user's line, if there is one, and then the model. */
  async #say() {
    const text = this.#line.value.trim() === "" ? null : this.#line.value;
    await this.#goOn(text === null ? [] : [conversation.userMessage(text)]);
  }

  /**
   * @param {HarmonyMessage} call
   * @param {string} text
   */
  async #answerCall(call, text) {
    await this.#goOn([conversation.toolMessage(call, text)]);
  }

  /**
   * Add messages, and let the model speak.
   *
   * @param {HarmonyMessage[]} added
   */
  async #goOn(added) {
    if (this.#sampling !== null || !this.#form.check()) return;
    const running = new AbortController();
    this.#setSampling(running);
    this.#problem.say("");
    this.#after.hidden = true;
    try {
      const grown = await conversation.append(this.#state.conversation(), added, running.signal);
      this.#setSource(conversation.withEffort(grown, this.#form.effort));
      await this.#sample(running.signal);
    } catch (error) {
      this.#status.textContent = "";
      if (!running.signal.aborted) this.#problem.say(error);
    }
    this.#setSampling(null);
  }

  /** @param {AbortController | null} running */
  #setSampling(running) {
    this.#sampling = running;
    this.#send.disabled = running !== null;
    this.#stop.disabled = running === null;
    this.#host.toggleAttribute("aria-busy", running !== null);
  }

  /**
   * Sample a turn of the conversation as it is now, and show it while it comes.
   *
   * @param {AbortSignal} signal
   */
  async #sample(signal) {
    const prompt = await conversation.renderPrompt(this.#state, signal);
    const last = prompt.conversation.messages.at(-1);
    if (last === undefined || last.role === "system" || last.role === "developer") {
      throw new Error(phrase("Nobody has said anything yet. Write a message first."));
    }
    this.#show(prompt);
    this.#line.value = "";
    const tools = declaredTools(prompt.conversation);
    const grammar = this.#form.underGrammar ? await this.#grammar(signal) : null;
    const reader = new CompletionReader(tools, (parsing) => this.#follow(parsing), signal);
    /** @type {Turn} */
    const turn = {
      source: this.#state.get().source,
      sampled: [],
      ending: "stopped",
    };
    this.#status.textContent = phrase("Sampling …");
    this.#lesson.hidden = true;
    this.#turn.begin(prompt.tokens.ids.length);
    const sampling = { ...this.#form.values, grammar };
    try {
      for await (const piece of streamCompletion(prompt.tokens.ids, sampling, signal)) {
        this.#turn.add(piece.tokens);
        for (const { id } of piece.tokens) turn.sampled.push(id);
        reader.grow(turn.sampled);
        turn.ending = piece.finish ?? turn.ending;
      }
    } catch (error) {
      if (!signal.aborted) {
        turn.ending = "broken off";
        this.#problem.say(error);
      }
    }
    if (turn.sampled.length === 0) this.#status.textContent = phrase("Nothing was sampled.");
    else await this.#end(turn, await reader.finish(turn.sampled));
  }

  /** @param {AbortSignal} signal */
  async #grammar(signal) {
    const { source, form } = this.#state.conversation();
    const request = { source, form, completion: "", tool_choice: null, reasoning: true, from: 0 };
    return (await call("allowed", request, signal)).grammar;
  }

  /** @param {Parsing} parsing */
  #follow(parsing) {
    this.#turn.read(parsing);
    this.#chat.toEnd();
  }

  /**
   * The turn is over: it becomes a part of the conversation, unless it was cut short.
   *
   * @param {Turn} turn
   * @param {Parsing} parsing
   */
  async #end(turn, parsing) {
    const messages = conversation.sampledMessages(parsing);
    const { source, draft } = this.#state.get();
    const hasChanged = source !== turn.source || draft !== "";
    const isAdded = turn.ending === "stop" && messages.length > 0 && !hasChanged;
    const add = async () => {
      const document = { ...this.#state.get(), source: turn.source };
      this.#setSource((await conversation.append(document, messages)).source);
    };
    this.#turn.end(turn.ending, parsing);
    if (isAdded) {
      await add();
      await this.#read();
      // Who has just asked answers the call next.
      const focused = document.activeElement;
      if (focused === this.#line || focused === document.body) this.#chat.focus();
    }
    const repairs = parsing.lenient.recoveries.length;
    const words = [
      phrase("{ending} after {tokens}", { ending: ENDINGS[turn.ending], tokens: tokenCount(turn.sampled.length) }),
      repairs > 0 && recoveryCount(repairs),
      hasChanged && phrase("the conversation was changed meanwhile"),
      !isAdded && phrase("the turn was not added to the conversation"),
    ];
    this.#status.textContent = phrase("{words}.", { words: joined(words.filter((one) => one !== false)) });
    fill(
      this.#after,
      button(phrase("Step through these tokens"), () => this.#stepThrough(turn.sampled)),
      !isAdded && !hasChanged && messages.length > 0 && button(phrase("Add it anyway"), add),
      !hasChanged && button(phrase("Sample again"), () => this.#sampleAgain(turn)),
    );
    this.#after.hidden = false;
    this.#chat.toEnd();
  }

  /** @param {number[]} tokens */
  #stepThrough(tokens) {
    this.#state.set({ input: tokens.join(" ") });
    location.hash = "#tab=tokens";
  }

  /** @param {Turn} turn */
  async #sampleAgain({ source }) {
    this.#setSource(source);
    await this.#goOn([]);
  }

  /** @param {JsonObject} source */
  #setSource(source) {
    this.#isOwnChange = true;
    this.#state.set({ source });
    this.#isOwnChange = false;
  }
}
