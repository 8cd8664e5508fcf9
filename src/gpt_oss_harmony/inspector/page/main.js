/** The page: its head, its tabs, and the document in the fragment of the URL. */

import { answerWith, ApiError, apiKey, settings } from "./api.js";
import { announce } from "./clipboard.js";
import { CompareTab } from "./compare.js";
import { ConversationTab } from "./conversation.js";
import { button, element, fill, labelled } from "./element.js";
import { EXAMPLES } from "./examples.js";
import { LONGEST, pack, readFragment, unpack, urlWith } from "./fragment.js";
import { GrammarTab } from "./grammar.js";
import { carriedDocument, carryDocument, languageSwitch } from "./language-switch.js";
import { LiveTab } from "./live.js";
import { menu } from "./menu.js";
import { openFile, readText } from "./open-file.js";
import { ShareDialog } from "./share.js";
import { State } from "./state.js";
import { StepperTab } from "./stepper.js";
import { TabList } from "./tab-list.js";
import { themeSwitch } from "./theme-switch.js";
import { isWelcomed, welcome } from "./welcome.js";
import { language, phrase } from "./words.js";

/** @import { Example } from "./examples.js" */

const state = new State();
const list = element("div", { class: "tabs", "aria-label": phrase("Views") });
const version = element("span", { class: "version" });
const keyBar = element("div", { class: "key-bar", hidden: true });

const tabs = new TabList(
  list,
  byId("tabs"),
  [
    { name: "conversation", title: phrase("Conversation"), make: (host) => new ConversationTab(host, state) },
    { name: "compare", title: phrase("Compare"), make: (host) => new CompareTab(host, state) },
    { name: "tokens", title: phrase("Tokens"), make: (host) => new StepperTab(host, state) },
    { name: "grammar", title: phrase("Grammar"), make: (host) => new GrammarTab(host, state) },
    { name: "live", title: phrase("Live"), make: (host) => new LiveTab(host, state) },
  ],
  () => writeFragment(),
);
const share = new ShareDialog(state, () => tabs.chosen);
const greeting = welcome(state, beginWith);

let timer = 0;
let packed = "";

/** Put the document into the URL; soon, as it may change with each key. */
function writeFragment() {
  clearTimeout(timer);
  const begun = window.setTimeout(async () => {
    const json = state.toJSON();
    const text = Object.keys(json).length === 0 ? "" : await pack(json);
    if (begun !== timer) return; // the document changed again, or another link was opened
    const fits = text.length <= LONGEST;
    if (!fits && packed !== "") {
      announce(phrase("The conversation is too long for the address. A reload loses it; Share saves it."));
    }
    packed = fits ? text : "";
    history.replaceState(null, "", urlWith(packed, tabs.chosen));
    timer = 0;
  }, 300);
  timer = begun;
}

/** Take the document and the tab from the URL. */
async function readLocation() {
  const { c, tab } = readFragment();
  const carried = carriedDocument();
  if (carried !== null) state.restore(carried);
  // The browser may go back before the document of the page is in the URL.
  else if (c !== null && (c !== packed || timer !== 0)) {
    clearTimeout(timer);
    timer = 0;
    try {
      state.restore(await unpack(c));
      packed = c;
    } catch {
      announce(phrase("The link holds no conversation. It may have been cut short."));
    }
  }
  const isEmpty = Object.keys(state.toJSON()).length === 0;
  if (isEmpty) state.set(EXAMPLES[0]?.document ?? {});
  if ((isEmpty || carried !== null) && greeting !== null && !isWelcomed()) byId("top").append(greeting);
  tabs.choose(tab ?? "conversation");
}

/** @param {File | undefined} file */
async function open(file) {
  if (file === undefined) return;
  try {
    const { tab, document } = await openFile(file);
    state.begin(document);
    tabs.choose(tab);
    announce(phrase("{name} opened", { name: file.name }));
  } catch (error) {
    announce(`${file.name}: ${/** @type {Error} */ (error).message}`);
  }
}

function exampleMenu() {
  return menu(
    phrase("Examples"),
    EXAMPLES.map((example) => ({
      name: example.name,
      about: `${example.kind}: ${example.about}`,
      choose: () => beginWith(example),
    })),
  );
}

/** @param {Example} example */
function beginWith({ document, tab }) {
  state.begin(document);
  tabs.choose(tab);
}

function openButton() {
  const input = element("input", {
    type: "file",
    class: "offscreen",
    tabindex: -1,
    "aria-label": phrase("File to open"),
    onchange: () => {
      open(input.files?.[0]);
      input.value = "";
    },
  });
  const made = button(phrase("Open"), () => input.click(), {
    title: phrase("Open a conversation or request as JSON, a test vector, token ids or marked-up text"),
  });
  return element("span", {}, made, input);
}

function fillKeyBar() {
  const input = element("input", { type: "password", autocomplete: "off", value: apiKey.get() });
  const use = (/** @type {Event} */ event) => {
    event.preventDefault();
    keyBar.hidden = true;
    apiKey.set(input.value);
  };
  const words = phrase("This server needs an API key. The page keeps it for this browser tab only.");
  const form = element(
    "form",
    { onsubmit: use },
    element("span", {}, words),
    labelled(phrase("API key"), input),
    element("button", { type: "submit", class: "primary" }, phrase("Use")),
  );
  fill(keyBar, form);
  apiKey.addEventListener("refused", () => {
    keyBar.hidden = false;
  });
}

async function readSettings() {
  try {
    const { version: number, needs_key: needsKey, model } = await settings();
    version.textContent = model === null ? number : `${number} · ${model}`;
    keyBar.hidden = !needsKey || apiKey.get() !== "";
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    announce(error.message);
  }
}

function acceptDrops() {
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) document.body.classList.remove("dropping");
  });
  document.addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    open(event.dataTransfer.files[0]);
  });
}

/** What is pasted beside all fields opens as a file does. */
function acceptPastes() {
  document.addEventListener("paste", (event) => {
    const { target } = event;
    const isField = target instanceof Element && target.closest("input, textarea, select, dialog");
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (isField || text.trim() === "") return;
    event.preventDefault();
    try {
      const opened = readText(text);
      state.begin(opened.document);
      tabs.choose(opened.tab);
      announce(phrase("Pasted"));
    } catch (error) {
      announce(phrase("The clipboard: {problem}", { problem: /** @type {Error} */ (error).message }));
    }
  });
}

/** Put the focus on the tokens of the tab that is shown, or on the tab where it has none. */
function focusTokens() {
  const stops = byId("tabs").querySelectorAll('[role="option"][tabindex="0"]');
  const shown = /** @type {HTMLElement[]} */ ([...stops]).find((stop) => stop.checkVisibility());
  (shown ?? byId(`tab-${tabs.chosen}`)).focus();
}

/** @param {string} id */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** In the playground, let Python in the page answer: its folder stands in the document. */
async function usePython() {
  const { python: folder } = document.documentElement.dataset;
  if (folder === undefined) return;
  const { Python } = await import("./python.js");
  const { startPython } = await import("./python-start.js");
  const python = new Python(folder);
  answerWith(python);
  startPython(python, byId("top"));
}

const isPlayground = document.documentElement.dataset.python !== undefined;
const name = element("h1", {}, "harmony ", element("span", {}, isPlayground ? "playground" : "inspect"));
const shareButton = button(phrase("Share"), () => share.open());
const actions = [exampleMenu(), openButton(), shareButton, languageSwitch(state), themeSwitch()];
const skip = button(phrase("To the tokens"), focusTokens, { class: "skip" });
fill(
  byId("top"),
  skip,
  element("div", { class: "bar" }, name, version, list, element("div", { class: "actions" }, ...actions)),
  keyBar,
);
fillKeyBar();
acceptDrops();
acceptPastes();
state.subscribe(() => writeFragment());
window.addEventListener("popstate", () => readLocation());
// Also before the page is left: a reload goes to the address of that moment, even if the page writes
// a new one while it waits for the answer.
for (const leaving of ["beforeunload", "pagehide"]) {
  window.addEventListener(leaving, () => {
    if (timer === 0) return;
    try {
      carryDocument(state);
    } catch {
      // What is too long for the browser's storage is too long for the address, which was announced.
    }
  });
}
window.addEventListener("pageshow", (event) => {
  if (event.persisted) carriedDocument(); // the page itself came back with its document
});
document.documentElement.lang = language;
document.body.dataset.drop = phrase("Drop a conversation, a request, a test vector or tokens");
// First, because it decides who answers the calls of the page.
await usePython();
readSettings();
readLocation();
