/** One message in the form: who speaks, to whom, and what. */

import { contentFields } from "./content-fields.js";
import { button, element, fill, labelled, select } from "./element.js";
import { jsonField } from "./json-field.js";
import { colourOf } from "./rendering-view.js";
import { isObject } from "./state.js";
import { counted, phrase } from "./words.js";

/** @import { ContentItem, HarmonyMessage, Role } from "./wire.js" */

/**
 * @typedef {object} Actions
 * @property {(change: (message: HarmonyMessage) => HarmonyMessage) => void} edit
 * @property {(by: -1 | 1) => void} move
 * @property {() => void} remove
 */

/** @typedef {"name" | "channel" | "recipient" | "content_type"} HeaderField */

const ROLES = /** @type {const} */ (["system", "developer", "user", "assistant", "tool"]);
const CHANNELS = ["analysis", "commentary", "final"];

/** @type {Record<HeaderField, string>} */
const TITLES = {
  name: phrase("Name"),
  channel: phrase("Channel"),
  recipient: phrase("Recipient"),
  content_type: phrase("Content type"),
};


/**
 * Make the card of a message.
 *
 * @param {HarmonyMessage} message
 * @param {number} index
 * @param {boolean} isLast
 * @param {Actions} actions
 */
export function messageCard(message, index, isLast, actions) {
  const card = element("fieldset", { "data-message": index });
  const legend = element("legend", {}, phrase("Message {index}", { index: String(index) }));
  if (!isObject(message)) {
    card.className = "message-card";
    fill(card, legend, tools(index, isLast, actions, null), anything(message, index, actions));
    return card;
  }
  const colour = () => (card.className = `message-card ${colourOf(message)}`);
  const sampled = sampledNote(message);
  const edit = (/** @type {(message: HarmonyMessage) => HarmonyMessage} */ change) => {
    const changeAll = (/** @type {HarmonyMessage} */ old) => withoutTokens(change(old));
    message = changeAll(message);
    sampled?.remove();
    colour();
    actions.edit(changeAll);
  };
  const head = element("div", { class: "card-head" });
  const draw = (/** @type {boolean} */ all) => {
    const focused = card.querySelector(":focus")?.getAttribute("data-param");
    const redraw = () => draw(all);
    const fields = headerFields(message, index, edit, all, redraw);
    const isMore = fields.length < Object.keys(TITLES).length;
    const more = isMore ? () => draw(true) : null;
    const role = roleField(message, index, edit, redraw);
    fill(head, role, ...fields, tools(index, isLast, actions, more));
    const again = focused ? head.querySelector(`[data-param="${focused}"]`) : null;
    if (again instanceof HTMLElement) again.focus();
  };
  colour();
  draw(false);
  fill(card, legend, head, sampled, ...contents(message, index, edit));
  return card;
}

/**
 * @param {HarmonyMessage} message
 * @param {number} index
 * @param {Actions["edit"]} edit
 * @param {() => void} redraw
 */
function roleField(message, index, edit, redraw) {
  const roles = ROLES.map((role) => /** @type {const} */ ([role, role]));
  const choose = (/** @type {string} */ role) => {
    edit((old) => ({ ...old, role: /** @type {Role} */ (role) }));
    redraw();
  };
  const label = phrase("Role of message {index}", { index: String(index) });
  const list = select(roles, message.role, choose, {
    "aria-label": label,
    "data-param": `messages[${index}].role`,
  });
  return element("div", { class: "role-field" }, element("span", { class: "number" }, index), list);
}

/**
 * @param {HarmonyMessage} message
 * @param {number} index
 * @param {Actions["edit"]} edit
 * @param {boolean} all whether fields that are empty and unusual are shown, too
 * @param {() => void} redraw
 */
function headerFields(message, index, edit, all, redraw) {
  const names = /** @type {HeaderField[]} */ (Object.keys(TITLES));
  const usual = usualFields(message);
  const shown = names.filter((name) => all || usual.includes(name) || Boolean(message[name]));
  return shown.map((name) => {
    const change = (/** @type {string} */ value) => {
      edit((old) => withField(old, name, value));
      if (name === "channel") redraw();
    };
    const param = `messages[${index}].${name}`;
    const field = labelled(TITLES[name], headerControl(name, message[name] ?? "", param, change));
    field.classList.add(name);
    return field;
  });
}

/**
 * What messages of the kind usually have.
 *
 * @param {HarmonyMessage} message
 * @returns {HeaderField[]}
 */
function usualFields({ role, channel, recipient }) {
  if (role === "tool") return ["name", "channel", "recipient"];
  if (role !== "assistant") return [];
  if (recipient) return ["channel", "recipient", "content_type"];
  return channel === "final" ? ["channel"] : ["channel", "recipient"];
}

/**
 * @param {HeaderField} name
 * @param {string} value
 * @param {string} param
 * @param {(value: string) => void} change
 */
function headerControl(name, value, param, change) {
  if (name === "channel") {
    const known = value === "" || CHANNELS.includes(value) ? CHANNELS : [...CHANNELS, value];
    /** @type {[string, string][]} */
    const choices = [["", phrase("none")], ...known.map((one) => /** @type {[string, string]} */ ([one, one]))];
    return select(choices, value, change, { "data-param": param });
  }
  const list = { recipient: "recipients", name: "recipients", content_type: "content-types" }[name];
  return element("input", {
    value,
    list,
    spellcheck: "false",
    autocapitalize: "off",
    "data-param": param,
    oninput: (/** @type {Event} */ event) => {
      change(/** @type {HTMLInputElement} */ (event.target).value);
    },
  });
}

/**
 * @param {number} index
 * @param {boolean} isLast
 * @param {Actions} actions
 * @param {(() => void) | null} more shows all fields of the header
 */
function tools(index, isLast, actions, more) {
  const at = { index: String(index) };
  const name = (/** @type {string} */ title, /** @type {string} */ label) => ({
    class: "icon",
    "aria-label": label,
    title,
  });
  const fields = name(phrase("More fields"), phrase("More fields of message {index}", at));
  const up = name(phrase("Move up"), phrase("Move up message {index}", at));
  const down = name(phrase("Move down"), phrase("Move down message {index}", at));
  const remove = name(phrase("Remove"), phrase("Remove message {index}", at));
  return element(
    "div",
    { class: "card-tools" },
    more && button("⋯", more, fields),
    button("↑", () => actions.move(-1), { ...up, disabled: index === 0, "data-move": -1 }),
    button("↓", () => actions.move(1), { ...down, disabled: isLast, "data-move": 1 }),
    button("✕", () => actions.remove(), remove),
  );
}

/**
 * @param {HarmonyMessage} message
 * @param {number} index
 * @param {Actions["edit"]} edit
 */
function contents(message, index, edit) {
  const { content } = message;
  const items = Array.isArray(content) ? content : [content];
  return items.map((item, position) =>
    contentFields(item, {
      name: items.length === 1 ? phrase("message {index}", { index: String(index) }) : phrase("message {index}, part {position}", { index: String(index), position: String(position) }),
      param: Array.isArray(content) ? `messages[${index}].content[${position}]` : `messages[${index}].content`,
      edit: (change) => edit((old) => withItem(old, position, change)),
    }),
  );
}

/**
 * The field of what is no message at all, and can become one.
 *
 * @param {HarmonyMessage} message
 * @param {number} index
 * @param {Actions} actions
 */
function anything(message, index, actions) {
  return jsonField({
    label: phrase("Message as JSON"),
    param: `messages[${index}]`,
    value: message,
    onChange: (value) => actions.edit(() => /** @type {any} */ (value ?? null)),
  });
}

/**
 * What is said of a message that keeps the tokens it was sampled as.
 *
 * @param {HarmonyMessage} message
 */
function sampledNote({ sampled_tokens: tokens }) {
  if (!Array.isArray(tokens)) return null;
  const words = counted(
    tokens.length,
    "This message keeps its sampled token until you change it.",
    "This message keeps its {count} sampled tokens until you change it.",
  );
  return element("p", { class: "hint" }, words);
}

/**
 * A message that was changed is no longer what was sampled.
 *
 * @param {HarmonyMessage} message
 * @returns {HarmonyMessage}
 */
function withoutTokens({ sampled_tokens: _, ...message }) {
  return message;
}

/**
 * @param {HarmonyMessage} message
 * @param {HeaderField} name
 * @param {string} value "" leaves the field out
 * @returns {HarmonyMessage}
 */
function withField(message, name, value) {
  const { [name]: _, ...others } = message;
  return value === "" ? others : { ...message, [name]: value };
}

/**
 * @param {HarmonyMessage} message
 * @param {number} position
 * @param {(item: any) => any} change
 * @returns {HarmonyMessage}
 */
function withItem(message, position, change) {
  const { content } = message;
  if (!Array.isArray(content)) return { ...message, content: change(content) };
  const items = content.map((item, place) => (place === position ? change(item) : item));
  return { ...message, content: /** @type {(ContentItem | string)[]} */ (items) };
}
