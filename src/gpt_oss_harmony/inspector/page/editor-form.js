/** The form: the messages of a harmony conversation as cards, to add, move, change and remove. */

import { button, element, fill } from "./element.js";
import { messageCard } from "./editor-card.js";
import { counted, phrase } from "./words.js";

/** @import { ContentItem, HarmonyConversation, HarmonyMessage, Role } from "./wire.js" */

const PAGE = 200; // cards; more are shown when asked for

/** @type {Record<Role, () => HarmonyMessage>} what is added */
const NEW = {
  system: () => ({ role: "system", content: [{ type: "system_content" }] }),
  developer: () => ({ role: "developer", content: [{ type: "developer_content" }] }),
  user: () => ({ role: "user", content: [emptyText()] }),
  assistant: () => ({ role: "assistant", content: [emptyText()], channel: "final" }),
  tool: () => ({
    role: "tool",
    name: "functions.name",
    content: [emptyText()],
    channel: "commentary",
    recipient: "assistant",
  }),
};

const CONTENT_TYPES = ["json", "code", "<|constrain|>json"];

export class EditorForm {
  #host;
  #onChange;
  /** @type {HarmonyConversation} */
  #conversation = { messages: [] };
  #count = PAGE;
  #cards = element("div", { class: "cards" });
  #recipients = element("datalist", { id: "recipients" });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  /** @type {HTMLElement | null} the control that the problem stands at */
  #faulty = null;

  /**
   * @param {HTMLElement} host
   * @param {(conversation: HarmonyConversation) => void} onChange
   */
  constructor(host, onChange) {
    this.#host = host;
    this.#onChange = onChange;
    const types = CONTENT_TYPES.map((value) => element("option", { value }));
    const roles = /** @type {Role[]} */ (Object.keys(NEW));
    const adds = roles.map((role) => {
      const attributes = { class: `add role-${role}`, "aria-label": phrase("Add {role} message", { role }) };
      return button(`+ ${role}`, () => this.#add(role), attributes);
    });
    fill(
      host,
      this.#cards,
      element("div", { class: "adds", role: "group", "aria-label": phrase("Add a message") }, ...adds),
      this.#recipients,
      element("datalist", { id: "content-types" }, ...types),
    );
    this.#problem.id = "form-problem";
  }

  /**
   * Show a conversation.
   *
   * @param {HarmonyConversation} conversation
   */
  show(conversation) {
    this.#conversation = conversation;
    this.#count = PAGE;
    this.#draw();
  }

  /**
   * Show an error beside the field that it is about, or take it away.
   *
   * @param {string | null} param
   * @param {string} message "" where all is well
   */
  showProblem(param, message) {
    this.#faulty?.removeAttribute("aria-invalid");
    this.#faulty?.removeAttribute("aria-errormessage");
    this.#faulty = null;
    this.#problem.textContent = message;
    this.#problem.hidden = message === "";
    if (message === "") {
      this.#problem.remove();
      return;
    }
    const control = param === null ? null : this.#controlAt(param);
    if (control === null) {
      this.#host.prepend(this.#problem);
      return;
    }
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-errormessage", this.#problem.id);
    (control.closest("label") ?? control).after(this.#problem);
    this.#faulty = control;
  }

  /**
   * Bring a message into view, and mark it.
   *
   * @param {number} index
   */
  reveal(index) {
    for (const other of this.#cards.querySelectorAll(".revealed")) other.classList.remove("revealed");
    const card = this.#cardAt(index);
    card?.classList.add("revealed");
    // In one column the card is far from the token that was chosen: the page stays where it is.
    if (matchMedia("(min-width: 60rem)").matches) card?.scrollIntoView({ block: "nearest" });
  }

  get #messages() {
    const { messages } = this.#conversation;
    return Array.isArray(messages) ? messages : [];
  }

  #draw() {
    const shown = this.#messages.slice(0, this.#count);
    const cards = shown.map((message, index) =>
      messageCard(message, index, index === this.#messages.length - 1, {
        edit: (change) => this.#edit(index, change),
        move: (by) => this.#move(index, by),
        remove: () => this.#remove(index),
      }),
    );
    const left = this.#messages.length - shown.length;
    const more = () => {
      this.#count += PAGE;
      this.#draw();
    };
    fill(this.#cards, ...cards, left > 0 && button(counted(left, "Show more ({count} message is left)", "Show more ({count} messages are left)"), more));
    this.#listRecipients();
  }

  /**
   * @param {number} index
   * @param {(message: HarmonyMessage) => HarmonyMessage} change
   */
  #edit(index, change) {
    this.#set(this.#messages.map((other, position) => (position === index ? change(other) : other)));
    this.#listRecipients();
  }

  /** @param {Role} role */
  #add(role) {
    const messages = [...this.#messages];
    const position = placeFor(role, messages);
    messages.splice(position, 0, NEW[role]());
    this.#count = Math.max(this.#count, position + 1);
    this.#set(messages);
    this.#draw();
    const card = this.#cardAt(position);
    const field = card?.querySelector("textarea, .content-fields input, .content-fields select");
    if (field instanceof HTMLElement) field.focus();
  }

  /**
   * @param {number} index
   * @param {-1 | 1} by
   */
  #move(index, by) {
    const messages = [...this.#messages];
    const [moved] = messages.splice(index, 1);
    if (moved === undefined) return;
    messages.splice(index + by, 0, moved);
    this.#set(messages);
    this.#draw();
    const card = this.#cardAt(index + by);
    const moves = [by, -by];
    const [wanted] = moves
      .map((move) => card?.querySelector(`button[data-move="${move}"]:enabled`))
      .filter((found) => found instanceof HTMLElement);
    wanted?.focus();
  }

  /** @param {number} index */
  #remove(index) {
    this.#set(this.#messages.filter((_, position) => position !== index));
    this.#draw();
    const next = this.#cardAt(Math.min(index, this.#messages.length - 1));
    const focus = next?.querySelector(".card-tools button:last-child") ?? this.#host.querySelector(".adds button");
    if (focus instanceof HTMLElement) focus.focus();
  }

  /** @param {HarmonyMessage[]} messages */
  #set(messages) {
    this.#conversation = { ...this.#conversation, messages };
    this.#onChange(this.#conversation);
  }

  /** @param {number} index */
  #cardAt(index) {
    const card = this.#cards.children[index];
    return card instanceof HTMLFieldSetElement ? card : null;
  }

  /**
   * The control that is nearest to where an error is: the longest name that it begins with.
   *
   * @param {string} param
   * @returns {HTMLElement | null}
   */
  #controlAt(param) {
    /** @type {HTMLElement[]} */
    const controls = [...this.#cards.querySelectorAll("[data-param]")].filter(
      (control) => control instanceof HTMLElement,
    );
    const message = /^messages\[\d+\]/.exec(param)?.[0];
    if (message === undefined) return controlNamed(param, controls);
    const fits = controls.filter(({ dataset: { param: name = "" } }) => {
      return param.startsWith(name) || name.startsWith(message);
    });
    const common = (/** @type {HTMLElement} */ control) => {
      return param.startsWith(control.dataset.param ?? "") ? (control.dataset.param ?? "").length : 0;
    };
    return fits.sort((one, other) => common(other) - common(one))[0] ?? null;
  }

  #listRecipients() {
    const names = this.#messages.flatMap((message) => {
      const content = message?.content;
      return Array.isArray(content) ? content.flatMap(recipientsIn) : [];
    });
    const values = [...new Set([...names, "assistant"])];
    fill(this.#recipients, ...values.map((value) => element("option", { value })));
  }
}

/**
 * The control of an error that does not say in which message it is: the first with the field's
 * name, and rather one that is empty.
 *
 * @param {string} param
 * @param {HTMLElement[]} controls
 * @returns {HTMLElement | null}
 */
function controlNamed(param, controls) {
  const name = `.${param.split(".").at(-1)}`;
  const named = controls.filter((control) => control.dataset.param?.endsWith(name));
  const isEmpty = (/** @type {HTMLElement} */ control) => Reflect.get(control, "value") === "";
  return named.find(isEmpty) ?? named[0] ?? null;
}

/** @returns {ContentItem} */
function emptyText() {
  return { type: "text", text: "" };
}

/**
 * Where a new message belongs: the system message first, then the developer's, all others last.
 *
 * @param {Role} role
 * @param {readonly HarmonyMessage[]} messages
 */
function placeFor(role, messages) {
  if (role === "system") return 0;
  if (role !== "developer") return messages.length;
  const other = messages.findIndex((message) => message.role !== "system");
  return other === -1 ? messages.length : other;
}

/**
 * The recipients that an item of content declares.
 *
 * @param {ContentItem | string} item
 * @returns {string[]}
 */
function recipientsIn(item) {
  if (typeof item === "string" || item?.type === "text") return [];
  return Object.entries(item?.tools ?? {}).flatMap(([name, namespace]) => {
    const tools = Array.isArray(namespace?.tools) ? namespace.tools : [];
    return tools.length === 0 ? [name] : tools.map((tool) => `${name}.${tool?.name}`);
  });
}
