/** The tab "Compare": header styles and schema dialects side by side, differences marked. */

import { call } from "./api.js";
import { element, fill } from "./element.js";
import { exampleButtons, lesson } from "./lesson.js";
import { concernsConversation } from "./state.js";
import { TabReader } from "./tab-reader.js";
import { counted, phrase, tokenCount } from "./words.js";

/** @import { State } from "./state.js" */
/** @import { ComparedPart, ComparedTable, Comparison } from "./wire.js" */

export class CompareTab {
  #state;
  #reader;
  #tables = element("div", { class: "comparison" });
  #lesson;

  /**
   * @param {HTMLElement} host
   * @param {State} state
   */
  constructor(host, state) {
    this.#state = state;
    this.#reader = new TabReader(host, (signal) => this.#compare(signal));
    const about = phrase(
      "The same conversation in each header style and each schema dialect. " +
        "Marks show what differs from the first column.",
    );
    const words = phrase(
      "Header styles differ in function calls and their results, schema dialects in the parameters " +
        "of tools. This conversation has neither, or none in which they differ.",
    );
    this.#lesson = lesson(phrase("No differences"), words, ...exampleButtons(state, "conversation"));
    this.#lesson.hidden = true;
    fill(host, element("p", { class: "about" }, about), this.#reader.problem.node, this.#tables, this.#lesson);
    state.subscribe((_document, changed) => {
      if (concernsConversation(changed)) this.#reader.change();
    });
  }

  /** The tab comes into view. */
  show() {
    this.#reader.show();
  }

  /** @param {AbortSignal} signal */
  async #compare(signal) {
    const { source, form, options } = this.#state.conversation();
    this.#show(await call("compare", { source, form, ...options }, signal));
    this.#reader.finish();
  }

  /** @param {Comparison} comparison */
  #show({ header_styles: styles, schema_dialects: dialects }) {
    fill(this.#tables, tableOf("styles", phrase("Header styles"), styles), tableOf("dialects", phrase("Schema dialects"), dialects));
    this.#lesson.hidden = styles.rows.length + dialects.rows.length > 0;
  }
}

/**
 * @param {string} name
 * @param {string} title
 * @param {ComparedTable} table
 */
function tableOf(name, title, { columns, totals, rows }) {
  const id = `compare-${name}`;
  if (rows.length === 0) return same(id, title, totals[0] ?? 0);
  const heads = columns.map((column, position) => {
    const total = totals[position] ?? 0;
    const small = element("small", {}, tokenCount(total) + sign(total - (totals[0] ?? 0)));
    return element("th", { scope: "col" }, column, " ", small);
  });
  const body = rows.map(({ message, cells }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", "data-column": phrase("Message") }, message),
      ...cells.map((parts, position) => element("td", { "data-column": columns[position] }, ...partsOf(parts))),
    ),
  );
  const table = element(
    "table",
    { "aria-labelledby": id },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, phrase("Message")), ...heads)),
    element("tbody", {}, ...body),
  );
  const box = { class: "scroll", role: "region", tabindex: 0, "aria-labelledby": id };
  return element(
    "section",
    {},
    element("h2", { id }, title),
    element("div", box, table),
  );
}

/**
 * What stands in the place of a table without rows.
 *
 * @param {string} id
 * @param {string} title
 * @param {number} total
 */
function same(id, title, total) {
  const words = counted(total, "All of them give the same token.", "All of them give the same {count} tokens.");
  return element("section", {}, element("h2", { id }, title), element("p", { class: "same" }, words));
}

/** @param {ComparedPart[]} parts */
function partsOf(parts) {
  return parts.map(({ text, differs }) => (differs ? element("mark", {}, text) : text));
}

/** @param {number} difference */
function sign(difference) {
  if (difference === 0) return "";
  return difference > 0 ? `, +${difference}` : `, −${-difference}`;
}
