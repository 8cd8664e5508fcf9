/** Sharing: a link that holds the conversation, and exports to copy or to save. */

import { call, wasAborted } from "./api.js";
import { copyText, saveText } from "./clipboard.js";
import { button, element, fill, labelled, select } from "./element.js";
import { LONGEST, pack, urlWith } from "./fragment.js";
import { LatestCall } from "./latest-call.js";
import { ProblemLine } from "./problem-line.js";
import { phrase } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { Exported, ExportRequest } from "./wire.js" */

const FORMATS = /** @type {const} */ ([
  ["json", phrase("Harmony JSON")],
  ["python", phrase("Python program")],
  ["vector", phrase("Test vector")],
]);

/** Characters of a link from which on the dialog warns. */
const SENT = 8_000;

export class ShareDialog {
  #state;
  #tab;
  #latest = new LatestCall();
  /** @type {Exported} */
  #exported = { name: "", text: "" };
  #link = element("input", { readonly: true, class: "code" });
  #linkNote = element("p", { class: "hint" });
  #copyLink = button(phrase("Copy link"), () => copyText(this.#link.value, phrase("Link")), { class: "primary" });
  #text = element("textarea", { readonly: true, class: "code", rows: 14 });
  #problem = new ProblemLine();
  #format;
  #dialog;

  /**
   * @param {State} state
   * @param {() => string} tab the name of the tab that the link opens
   */
  constructor(state, tab) {
    this.#state = state;
    this.#tab = tab;
    this.#format = select(FORMATS, "json", () => this.#export());
    this.#dialog = element("dialog", { class: "share", "aria-labelledby": "share-title" }, ...this.#parts());
    document.body.append(this.#dialog);
    this.#problem.node.addEventListener("click", ({ target }) => {
      if (target instanceof HTMLButtonElement) this.#dialog.close();
    });
  }

  /** Open the dialog for the document as it is now. */
  open() {
    this.#dialog.showModal();
    this.#makeLink();
    this.#export();
  }

  #parts() {
    const close = button("✕", () => this.#dialog.close(), { class: "icon", "aria-label": phrase("Close") });
    const title = element("h2", { id: "share-title" }, phrase("Share"));
    return [
      element("div", { class: "dialog-head" }, title, close),
      labelled(phrase("Link"), this.#link),
      this.#linkNote,
      element("div", { class: "row-of-buttons" }, this.#copyLink),
      element("hr"),
      labelled(phrase("Export"), this.#format),
      labelled(phrase("Content of the file"), this.#text),
      this.#problem.node,
      element(
        "div",
        { class: "row-of-buttons" },
        button(phrase("Copy"), () => copyText(this.#exported.text, this.#exported.name)),
        button(phrase("Download"), () => saveText(this.#exported.name, this.#exported.text)),
      ),
    ];
  }

  async #makeLink() {
    const packed = await pack(this.#state.toJSON());
    const fits = packed.length <= LONGEST;
    this.#link.value = fits ? urlWith(packed, this.#tab()) : "";
    this.#copyLink.disabled = !fits;
    const count = packed.length;
    const words = fits
      ? phrase("The link holds the conversation itself: {count} characters after the #, which browsers send to no server.", { count })
      : phrase("The conversation is too long for a link: it takes {count} characters, of at most {most}. Export it instead.", {
          count,
          most: LONGEST,
        });
    const isLong = fits && count > SENT;
    this.#linkNote.textContent = isLong ? `${words} ${phrase("Some programs do not accept links of this length.")}` : words;
  }

  #export() {
    const format = /** @type {ExportRequest["format"]} */ (this.#format.value);
    return this.#latest.now(async (signal) => {
      try {
        const { source, form, options } = this.#state.conversation();
        this.#exported = await call("export", { source, form, ...options, format }, signal);
        this.#problem.say("");
      } catch (error) {
        if (wasAborted(error)) throw error;
        this.#exported = { name: "", text: "" };
        this.#problem.say(error);
      }
      this.#text.value = this.#exported.text;
      const buttons = this.#dialog.querySelectorAll(".row-of-buttons:last-child button");
      for (const one of buttons) fill(one, one.textContent);
      for (const one of buttons) one.toggleAttribute("disabled", this.#exported.name === "");
    });
  }
}
