/** The fields of one item of content: text, the system's settings, or the developer's. */

import { BUILT_IN_TOOLS } from "./built-in-tools.js";
import { element, labelled, select } from "./element.js";
import { jsonField } from "./json-field.js";
import { isObject } from "./state.js";
import { phrase } from "./words.js";

/**
 * @import {
 *   ContentItem, DeveloperItem, Json, ResponseFormat, SystemItem, ToolDescription, ToolNamespace,
 * } from "./wire.js"
 */

/**
 * Where an item stands, and how it is changed: `edit` is given what becomes of the item.
 *
 * @template {ContentItem | string} Item
 * @typedef {object} Place
 * @property {string} name for those who do not see where it stands, such as "message 2"
 * @property {string} param such as `messages[2].content[0]`
 * @property {(change: (item: Item) => Item) => void} edit
 */

const EFFORTS = /** @type {const} */ ([
  ["Low", "low"],
  ["Medium", "medium"],
  ["High", "high"],
  ["", phrase("left out")],
]);

// What a field that is missing means; null means that its line is left out.
const DEFAULTS = {
  model_identity: "You are ChatGPT, a large language model trained by OpenAI.",
  knowledge_cutoff: "2024-06",
  reasoning_effort: "Medium",
  channels: ["analysis", "commentary", "final"],
};

/**
 * Make the fields of an item; one of a type that nobody knows is edited as JSON.
 *
 * @param {ContentItem | string} item
 * @param {Place<any>} place
 * @returns {HTMLElement}
 */
export function contentFields(item, place) {
  if (typeof item === "string") return textField(item, place, (text) => text);
  switch (item?.type) {
    case "text":
      return textField(item.text, place, (text, old) => ({ ...old, text }));
    case "system_content":
      return systemFields(item, place);
    case "developer_content":
      return developerFields(item, place);
    default:
      return jsonField({
        label: phrase("Content as JSON"),
        param: place.param,
        value: item,
        onChange: (value) => place.edit(() => value ?? ""),
      });
  }
}

/**
 * @param {string} text
 * @param {Place<any>} place
 * @param {(text: string, old: any) => unknown} change
 */
function textField(text, place, change) {
  return element("textarea", {
    class: "text",
    dir: "auto",
    // What users write may be in another language than the page.
    lang: "",
    rows: 1,
    value: text,
    "aria-label": phrase("Text of {place}", { place: place.name }),
    "data-param": place.param,
    oninput: (/** @type {Event} */ event) => {
      const { value } = /** @type {HTMLTextAreaElement} */ (event.target);
      place.edit((old) => change(value, old));
    },
  });
}

/**
 * @param {SystemItem} item
 * @param {Place<SystemItem>} place
 */
function systemFields(item, place) {
  const { reasoning_effort: effort = DEFAULTS.reasoning_effort } = item;
  const choose = (/** @type {string} */ value) => {
    const chosen = /** @type {SystemItem["reasoning_effort"]} */ (value === "" ? null : value);
    place.edit((old) => ({ ...old, reasoning_effort: chosen }));
  };
  const param = `${place.param}.reasoning_effort`;
  const efforts = select(EFFORTS, effort ?? "", choose, { "data-param": param });
  return element(
    "div",
    { class: "content-fields" },
    labelled(phrase("Reasoning effort"), efforts),
    lineField(phrase("Current date"), "conversation_start_date", item, place, "YYYY-MM-DD"),
    lineField(phrase("Knowledge cutoff"), "knowledge_cutoff", item, place),
    lineField(phrase("Identity"), "model_identity", item, place),
    channelsField(item, place),
    builtInTools(item, place),
  );
}

/**
 * A field of one line; an empty one leaves its line out.
 *
 * @param {string} title
 * @param {"conversation_start_date" | "knowledge_cutoff" | "model_identity"} name
 * @param {SystemItem} item
 * @param {Place<SystemItem>} place
 * @param {string} [placeholder]
 */
function lineField(title, name, item, place, placeholder = phrase("left out")) {
  const missing = name === "conversation_start_date" ? "" : DEFAULTS[name];
  const value = item[name] === undefined ? missing : (item[name] ?? "");
  const oninput = (/** @type {Event} */ event) => {
    const { value: text } = /** @type {HTMLInputElement} */ (event.target);
    place.edit((old) => ({ ...old, [name]: text === "" ? null : text }));
  };
  const param = `${place.param}.${name}`;
  const input = element("input", { value, placeholder, oninput, "data-param": param });
  const field = labelled(title, input);
  field.classList.add(name);
  return field;
}

/**
 * @param {SystemItem} item
 * @param {Place<SystemItem>} place
 */
function channelsField(item, place) {
  const config = item.channel_config;
  const listed = config === undefined ? DEFAULTS.channels : config?.valid_channels;
  const channels = Array.isArray(listed) ? listed : [];
  const change = () => {
    const names = input.value.split(/[\s,]+/).filter(Boolean);
    const changed = { valid_channels: names, channel_required: required.checked };
    place.edit((old) => ({ ...old, channel_config: names.length === 0 ? null : changed }));
  };
  const input = element("input", {
    value: channels.join(", "),
    placeholder: phrase("left out"),
    "data-param": `${place.param}.channel_config`,
    oninput: change,
  });
  const checked = config?.channel_required ?? true;
  const required = element("input", { type: "checkbox", checked, onchange: change });
  const field = labelled(phrase("Channels"), input);
  field.classList.add("channels");
  return element("div", { class: "channels-field" }, field, labelled(phrase("required"), required));
}

/**
 * @param {SystemItem} item
 * @param {Place<SystemItem>} place
 */
function builtInTools(item, place) {
  const boxes = Object.entries(BUILT_IN_TOOLS).map(([name, tool]) => {
    const box = element("input", {
      type: "checkbox",
      checked: item.tools?.[name] !== undefined,
      onchange: () =>
        place.edit((old) => {
          const { [name]: _, ...others } = old.tools ?? {};
          const added = box.checked ? { [name]: tool } : {};
          return { ...old, tools: noneIfEmpty({ ...others, ...added }) };
        }),
    });
    return labelled(name, box);
  });
  const legend = element("legend", {}, phrase("Built-in tools"));
  const others = Object.keys(item.tools ?? {}).filter((name) => !(name in BUILT_IN_TOOLS));
  return element(
    "div",
    { class: "wide" },
    element("fieldset", { class: "boxes" }, legend, ...boxes),
    ...others.map((name) => namespaceField(name, item.tools?.[name], place)),
  );
}

/**
 * @param {DeveloperItem} item
 * @param {Place<DeveloperItem>} place
 */
function developerFields(item, place) {
  const instructions = element("textarea", {
    class: "text",
    dir: "auto",
    lang: "",
    rows: 1,
    value: item.instructions ?? "",
    placeholder: phrase("none"),
    "data-param": `${place.param}.instructions`,
    oninput: (/** @type {Event} */ event) => {
      const { value } = /** @type {HTMLTextAreaElement} */ (event.target);
      place.edit((old) => ({ ...old, instructions: value === "" ? null : value }));
    },
  });
  const names = new Set(["functions", ...Object.keys(item.tools ?? {})]);
  return element(
    "div",
    { class: "content-fields" },
    labelled(phrase("Instructions"), instructions),
    ...[...names].map((name) => namespaceField(name, item.tools?.[name], place)),
    formatsField(item, place),
  );
}

/**
 * The tools of a namespace, as JSON; those of Chat Completions are read as well.
 *
 * @param {string} name
 * @param {ToolNamespace | undefined} namespace
 * @param {Place<any>} place
 */
function namespaceField(name, namespace, place) {
  return jsonField({
    label: name === "functions" ? phrase("Function tools") : phrase("Tools of {name}", { name }),
    param: `${place.param}.tools.${name}`,
    placeholder: '[{"name": "now", "description": "Tells the time.", "parameters": {…}}]',
    value: namespace?.tools,
    onChange: (value) => {
      const tools = value === undefined ? undefined : readTools(value);
      place.edit((/** @type {SystemItem | DeveloperItem} */ old) => {
        const { [name]: known = { name }, ...others } = old.tools ?? {};
        if (tools === undefined) return { ...old, tools: noneIfEmpty(others) };
        return { ...old, tools: { ...old.tools, [name]: { ...known, tools } } };
      });
    },
  });
}

/**
 * The response formats, as a list in JSON; that of Chat Completions is read as well.
 *
 * @param {DeveloperItem} item
 * @param {Place<DeveloperItem>} place
 */
function formatsField(item, place) {
  const formats = Object.values(item.response_formats ?? {});
  return jsonField({
    label: phrase("Response format"),
    param: `${place.param}.response_formats`,
    placeholder: '{"name": "list", "json_schema": {…}}',
    value: formats.length === 1 ? formats[0] : formats.length === 0 ? undefined : formats,
    onChange: (value) => {
      const list = value === undefined ? [] : Array.isArray(value) ? value : [value];
      const named = list.map(readFormat).map((format) => [format.name, format]);
      const made = list.length === 0 ? null : Object.fromEntries(named);
      place.edit((old) => ({ ...old, response_formats: made }));
    },
  });
}

/**
 * @param {Json} value
 * @returns {ToolDescription[]}
 */
function readTools(value) {
  const list = Array.isArray(value) ? value : [value];
  return list.map((tool) => {
    const found = isObject(tool) && isObject(tool.function) ? tool.function : tool;
    if (!isObject(found) || typeof found.name !== "string") {
      throw new SyntaxError(phrase("expected a list of tools, each with a name"));
    }
    const { type: _, strict: __, ...fields } = found;
    return /** @type {any} */ ({ description: "", ...fields });
  });
}

/**
 * @param {Json} value
 * @returns {ResponseFormat}
 */
function readFormat(value) {
  const found = isObject(value) && value.type === "json_schema" ? value.json_schema : value;
  if (!isObject(found) || typeof found.name !== "string") {
    throw new SyntaxError(phrase("expected a response format with a name and a json_schema"));
  }
  const { schema, strict: _, json_schema = schema ?? {}, ...fields } = found;
  return /** @type {any} */ ({ ...fields, json_schema });
}

/**
 * @template {object} T
 * @param {T} named
 * @returns {T | null}
 */
function noneIfEmpty(named) {
  return Object.keys(named).length === 0 ? null : named;
}
