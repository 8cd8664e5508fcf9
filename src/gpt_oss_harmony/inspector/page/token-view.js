/**
 * Tokens as boxes in their text: a view that takes 100,000 of them.
 *
 * Tokens stand in blocks of some 200. A block near the window has an element for each token; any
 * other is one text node, so that searching in the page and copying work everywhere. Blocks are
 * inline, and a paragraph holds those of the same line: a line breaks at a line break only, or
 * where the window is too narrow. Copying takes the text of the tokens, without marks, ids and
 * headings.
 *
 * One token is the tab stop; arrow keys go on from it, by token and by line, Home and End to the
 * ends of its row, Page Up and Page Down to the row before and after.
 */

import { element } from "./element.js";
import { copyTokens } from "./token-copy.js";
import { indexOf, setMarked, setNotes, setShade, tokenElement, tokensIn } from "./token-element.js";
import { keyTarget } from "./token-keys.js";
import { decodeRuns } from "./token-text.js";
import { phrase } from "./words.js";

/** @import { Note, Part } from "./token-element.js" */
/** @import { Tokens } from "./wire.js" */

/**
 * Tokens of one kind: gets an element of its own with the class. Spans cover all tokens, in order.
 *
 * @typedef {object} Span
 * @property {number} start
 * @property {number} end
 * @property {string} className
 * @property {string} [title]
 */

/**
 * Tokens that stand in a box of their own, such as a message. Rows cover all tokens, in order;
 * one without tokens is only its heading.
 *
 * @typedef {object} Row
 * @property {number} start
 * @property {number} end
 * @property {string} className
 * @property {string} label its name for those who do not see it
 * @property {() => Node} [heading] what stands above it; is never copied
 */

/**
 * @typedef {object} Callbacks
 * @property {string} label what the view is, for those who do not see it
 * @property {(index: number) => void} [onChoose] a token was clicked, or Enter was pressed on it
 * @property {(index: number | null) => void} [onPoint] the pointer, or the focus, is on a token
 */

/** @typedef {{ start: number, end: number, node: HTMLElement, filled: boolean }} Block */
/** @typedef {{ row: Row, node: HTMLElement, text: HTMLElement }} ShownRow */

const BLOCK = 200;
const FRAME = 6; // milliseconds of a frame that filling blocks may take
const AT_ONCE = 1000; // tokens that always have elements, without waiting for the observer
const MOST_PRINTED = 20_000; // tokens; others are printed as text
const LINE = 22; // pixels, for blocks that nobody has seen yet
const CHARACTER = 7.8;

export class TokenView {
  /** @type {Tokens} */
  #tokens = { ids: [], texts: [], bytes: {} };
  /** @type {Map<number, string>} what tokens that are no UTF-8 by themselves give together */
  #decoded = new Map();
  /** @type {Span[]} */
  #spans = [];
  /** @type {ShownRow[]} */
  #rows = [];
  /** @type {Block[]} */
  #blocks = [];
  /** @type {WeakMap<Element, Block>} */
  #blockOf = new WeakMap();
  /** @type {Map<number, Note[]>} */
  #decorations = new Map();
  /** @type {readonly (number | null)[] | null} */
  #shades = null;
  /** @type {number | null} */
  #marked = null;
  #stop = 0; // the token that Tab goes to
  #columns = 80; // about as many characters as a line has
  #host;
  #callbacks;
  #observer;
  /** @type {Set<Block>} blocks that are near, and are to be filled */
  #near = new Set();
  #frame = 0;

  /**
   * @param {HTMLElement} host an empty element
   * @param {Callbacks} callbacks
   */
  constructor(host, callbacks) {
    this.#host = host;
    this.#callbacks = callbacks;
    host.classList.add("token-view");
    host.setAttribute("aria-label", callbacks.label);
    host.setAttribute("lang", ""); // it is written in any language, and in none that is known
    host.setAttribute("translate", "no");
    this.#observer = new IntersectionObserver((entries) => this.#seen(entries), near());
    host.addEventListener("click", (event) => this.#clicked(event));
    host.addEventListener("keydown", (event) => this.#pressed(event));
    host.addEventListener("focusin", (event) => this.#focused(event));
    host.addEventListener("pointerover", (event) => this.#pointed(event.target));
    host.addEventListener("pointerleave", () => this.#pointed(document.activeElement));
    host.addEventListener("copy", copyTokens);
    window.addEventListener("beforeprint", () => this.#fillForPrint());
    this.show({ ids: [], texts: [], bytes: {} }, []);
  }

  /** How many tokens there are. */
  get size() {
    return this.#tokens.ids.length;
  }

  /**
   * Show other tokens; takes marks, shades and decorations away.
   *
   * @param {Tokens} tokens
   * @param {readonly Span[]} spans
   * @param {readonly Row[]} [rows] without them, all tokens stand in one
   */
  show(tokens, spans, rows = [wholeRow(tokens.ids.length)]) {
    // Measured before anything changes: in an empty view, the page would lose its place.
    this.#columns = Math.max(20, Math.floor((this.#host.clientWidth || 600) / CHARACTER) - 4);
    const filled = this.#blocks.filter((block) => block.filled).map((block) => block.start);
    this.#observer.disconnect();
    this.#near.clear();
    this.#tokens = { ids: [], texts: [], bytes: {} };
    this.#decoded = new Map();
    this.#spans = [];
    this.#rows = [];
    this.#blocks = [];
    this.#decorations = new Map();
    this.#shades = null;
    this.#marked = null;
    this.#stop = 0;
    this.#host.replaceChildren();
    this.append(tokens, spans, rows);
    this.#fillAtOnce(filled);
  }

  /**
   * Show more tokens after those that are there; `tokens.bytes` has indices of `tokens`, while
   * spans and rows count all tokens of the view. Without rows, tokens go on in the last one.
   *
   * @param {Tokens} tokens
   * @param {readonly Span[]} spans
   * @param {readonly Row[]} [rows]
   */
  append(tokens, spans, rows = []) {
    const before = this.size;
    this.#add(tokens);
    for (const span of spans) this.#spans.push(span);
    const row = this.#rows.at(-1);
    const first = rows[0];
    if (row !== undefined) {
      row.row = { ...row.row, end: first === undefined ? this.size : first.start };
      this.#goOn(row, before);
    }
    for (const added of rows) this.#addRow(added);
    if (this.size > 0) this.#host.setAttribute("role", "listbox");
    else this.#host.setAttribute("role", "group");
    this.#fillStop();
  }

  /**
   * Make a token the current one, and bring it into view; null: none.
   *
   * @param {number | null} index
   */
  mark(index) {
    const old = this.#marked === null ? null : this.#elementOf(this.#marked);
    if (old !== null) setMarked(old, false);
    this.#marked = index;
    if (index === null || index < 0 || index >= this.size) return;
    const token = this.#bring(index);
    setMarked(token, true);
    token.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.#moveStop(index);
  }

  /**
   * Shade tokens, from 0 (not at all) to 1; null for a token that has no value, or for none at all.
   *
   * @param {readonly (number | null)[] | null} values by index
   */
  shade(values) {
    this.#shades = values;
    for (const block of this.#blocks) {
      if (!block.filled) continue;
      for (const token of tokensIn(block.node)) setShade(token, values?.[indexOf(token)] ?? null);
    }
  }

  /**
   * Give a token a class more and a note, such as on what was repaired there.
   *
   * @param {number} index
   * @param {string} className
   * @param {string} title
   */
  decorate(index, className, title) {
    const notes = [...(this.#decorations.get(index) ?? []), { className, title }];
    this.#decorations.set(index, notes);
    const token = this.#elementOf(index);
    if (token !== null) setNotes(token, notes);
  }

  /**
   * Put the focus on a token, and bring it into view.
   *
   * @param {number} index
   */
  focus(index) {
    this.#bring(index).focus();
  }

  /** @param {Tokens} tokens */
  #add(tokens) {
    const before = this.size;
    // No `push(...all)`: 100,000 arguments are too many.
    for (const id of tokens.ids) this.#tokens.ids.push(id);
    for (const text of tokens.texts) this.#tokens.texts.push(text);
    for (const [index, bytes] of Object.entries(tokens.bytes)) {
      this.#tokens.bytes[String(before + Number(index))] = bytes;
    }
    decodeRuns(this.#tokens, before, this.#decoded);
  }

  /** @param {Row} row */
  #addRow(row) {
    const text = element("div", { class: "row-text" });
    const heading = row.heading === undefined ? null : row.heading();
    const empty = row.start === row.end;
    const group = { role: empty ? "presentation" : "group", "aria-label": empty ? null : row.label };
    const node = element("div", { class: `row ${row.className}`, ...group }, heading);
    if (!empty || heading === null) node.append(text);
    this.#host.append(node);
    const shown = { row, node, text };
    this.#rows.push(shown);
    this.#addBlocks(shown, row.start, row.end);
  }

  /**
   * @param {ShownRow} row
   * @param {number} from
   * @param {number} to
   */
  #addBlocks(row, from, to) {
    if (from < to) {
      row.node.setAttribute("role", "group");
      row.node.setAttribute("aria-label", row.row.label);
      if (!row.text.isConnected) row.node.append(row.text);
    }
    for (let start = from; start < to; ) {
      const end = this.#cut(start, to);
      const node = element("span", { class: "block" });
      const block = { start, end, node, filled: false };
      this.#blocks.push(block);
      this.#blockOf.set(node, block);
      this.#empty(block);
      this.#paragraphAt(row, start).append(node);
      this.#observer.observe(node);
      start = end;
    }
    for (const paragraph of row.text.children) this.#estimate(/** @type {HTMLElement} */ (paragraph));
  }

  /**
   * The paragraph for a block: the last one of the row, or a new one after a line break.
   *
   * @param {ShownRow} row
   * @param {number} start
   */
  #paragraphAt({ row, text }, start) {
    const last = text.lastElementChild;
    const isNewLine = start === row.start || this.#textOf(start - 1).endsWith("\n");
    if (last !== null && !isNewLine) return last;
    const added = element("div", { class: "paragraph" });
    text.append(added);
    return added;
  }

  /**
   * Estimate the height of a paragraph, which counts until it has been in view.
   *
   * @param {HTMLElement} paragraph
   */
  #estimate(paragraph) {
    const lines = (paragraph.textContent ?? "").split("\n");
    const rows = lines.reduce((sum, { length }) => sum + Math.ceil(length / this.#columns), 0);
    paragraph.style.containIntrinsicBlockSize = `auto ${LINE * Math.max(1, rows)}px`;
  }

  /**
   * The end of a block that begins at `start`: after a line break if there is one at a good place,
   * and never within a character.
   *
   * @param {number} start
   * @param {number} to
   */
  #cut(start, to) {
    if (to - start <= BLOCK * 1.5) return to;
    const { texts } = this.#tokens;
    for (let end = start + BLOCK * 1.5; end > start + BLOCK / 2; end -= 1) {
      if (texts[end - 1]?.endsWith("\n")) return end;
    }
    let end = start + BLOCK;
    while (end < to && texts[end] === null) end += 1;
    return end;
  }

  /**
   * Put the tokens from `before` on into a row that is there. Its last block is made anew: it may
   * have room, or end within a character.
   *
   * @param {ShownRow} row
   * @param {number} before
   */
  #goOn(row, before) {
    const last = this.#blocks.at(-1);
    if (last === undefined || !row.text.contains(last.node)) {
      this.#addBlocks(row, before, row.row.end);
      return;
    }
    const room = last.start + BLOCK * 1.5;
    if (last.filled && row.row.end <= room && this.#tokens.texts[before - 1] !== null) {
      last.end = row.row.end;
      last.node.append(this.#segments(before, last.end));
      return;
    }
    const hadFocus = last.node.contains(document.activeElement);
    this.#blocks.pop();
    this.#observer.unobserve(last.node);
    const paragraph = /** @type {HTMLElement} */ (last.node.parentElement);
    last.node.remove();
    if (paragraph.childElementCount === 0) paragraph.remove();
    this.#addBlocks(row, last.start, row.row.end);
    // What is in view stays filled: the observer would answer a frame later.
    const added = this.#blockWith(last.start);
    if (last.filled && added !== undefined) this.#fill(added);
    if (last.filled) this.#fill(/** @type {Block} */ (this.#blocks.at(-1)));
    if (hadFocus) this.#bring(this.#stop).focus({ preventScroll: true });
  }

  /**
   * Make one text of a block that is far away.
   *
   * @param {Block} block
   */
  #empty(block) {
    let text = "";
    for (let index = block.start; index < block.end; index += 1) text += this.#textOf(index);
    block.node.textContent = text;
    block.filled = false;
  }

  /**
   * Fill the first blocks, and those where others were filled before, so that nothing flickers
   * when a text changes while it is looked at.
   *
   * @param {number[]} places tokens
   */
  #fillAtOnce(places) {
    for (const block of this.#blocks) {
      if (block.end > AT_ONCE) break;
      this.#fill(block);
    }
    for (const place of places) {
      const block = this.#blockWith(place);
      if (block !== undefined) this.#fill(block);
    }
  }

  /** Paper has no window: all tokens have elements, unless there are too many. */
  #fillForPrint() {
    if (this.size > MOST_PRINTED) return;
    for (const block of this.#blocks) this.#fill(block);
  }

  /** @param {Block} block */
  #fill(block) {
    if (block.filled) return;
    block.filled = true;
    block.node.replaceChildren(this.#segments(block.start, block.end));
  }

  /**
   * Make the elements of tokens, each span in one of its own.
   *
   * @param {number} start
   * @param {number} end
   */
  #segments(start, end) {
    const made = document.createDocumentFragment();
    let position = this.#spanAt(start);
    for (let index = start; index < end; ) {
      while (position + 1 < this.#spans.length && this.#spanOf(position).end <= index) position += 1;
      const span = this.#spans[position];
      // At least one token, whatever the spans are: otherwise this would not end.
      const last = span === undefined ? end : Math.max(index + 1, Math.min(span.end, end));
      const className = `segment ${span?.className ?? ""}`.trimEnd();
      const segment = element("span", { class: className, title: span?.title });
      for (; index < last; index += 1) segment.append(this.#makeToken(index));
      made.append(segment);
    }
    return made;
  }

  /** @param {number} index */
  #makeToken(index) {
    const id = this.#tokens.ids[index] ?? -1;
    const raw = this.#tokens.texts[index] ?? null;
    const bytes = raw === null ? this.#partAt(index) : undefined;
    const token = tokenElement(index, id, raw, this.#textOf(index), bytes);
    token.tabIndex = index === this.#stop ? 0 : -1;
    if (index === this.#marked) setMarked(token, true);
    setNotes(token, this.#decorations.get(index) ?? []);
    if (this.#shades !== null) setShade(token, this.#shades[index] ?? null);
    return token;
  }

  /** @param {IntersectionObserverEntry[]} entries */
  #seen(entries) {
    for (const entry of entries) {
      const block = this.#blockOf.get(entry.target);
      if (block === undefined) continue;
      if (entry.isIntersecting) this.#near.add(block);
      else {
        this.#near.delete(block);
        if (block.filled && !this.#isHeld(block)) this.#empty(block);
      }
    }
    this.#fillNear();
  }

  /** Fill what has come near: as much as there is time for, and the rest in the next frame. */
  #fillNear() {
    cancelAnimationFrame(this.#frame);
    const end = performance.now() + FRAME;
    for (const block of this.#near) {
      if (performance.now() > end) {
        this.#frame = requestAnimationFrame(() => this.#fillNear());
        return;
      }
      this.#near.delete(block);
      this.#fill(block);
    }
  }

  /**
   * Whether a block stays filled: it is one of the first, or has the tab stop or selected text.
   *
   * @param {Block} block
   */
  #isHeld(block) {
    if (block.end <= AT_ONCE) return true;
    if (block.start <= this.#stop && this.#stop < block.end) return true;
    const selection = getSelection();
    if (selection === null || selection.isCollapsed) return false;
    return selection.containsNode(block.node, true);
  }

  /** @param {number} index */
  #spanOf(index) {
    return /** @type {Span} */ (this.#spans[index]);
  }

  /**
   * The place of the span that has a token.
   *
   * @param {number} index
   */
  #spanAt(index) {
    return lastBefore(this.#spans.length, (position) => this.#spanOf(position).start <= index);
  }

  /** @param {number} index */
  #blockWith(index) {
    return this.#blocks[lastBefore(this.#blocks.length, (position) => {
      return /** @type {Block} */ (this.#blocks[position]).start <= index;
    })];
  }

  /**
   * Find the character that a token without a text of its own is a part of.
   *
   * @param {number} index
   * @returns {Part}
   */
  #partAt(index) {
    const { texts, bytes } = this.#tokens;
    const isLater = (/** @type {number} */ position) =>
      texts[position] === null && !this.#decoded.has(position);
    let start = index;
    while (start > 0 && isLater(start)) start -= 1;
    let end = index + 1;
    while (end < this.size && isLater(end)) end += 1;
    const character = this.#decoded.get(start) ?? "";
    return { bytes: bytes[index] ?? "", character, number: index - start + 1, count: end - start };
  }

  /** @param {number} index */
  #textOf(index) {
    return this.#tokens.texts[index] ?? this.#decoded.get(index) ?? "";
  }

  /**
   * The element of a token, if it has one now.
   *
   * @param {number} index
   * @returns {HTMLElement | null}
   */
  #elementOf(index) {
    const block = this.#blockWith(index);
    if (!block?.filled || index >= block.end) return null;
    return tokensIn(block.node)[index - block.start] ?? null;
  }

  /**
   * The element of a token, made if need be.
   *
   * @param {number} index
   * @returns {HTMLElement}
   */
  #bring(index) {
    const block = this.#blockWith(index);
    if (block !== undefined) this.#fill(block);
    const token = this.#elementOf(index);
    if (token === null) throw new RangeError(`there is no token ${index}`);
    return token;
  }

  #fillStop() {
    const block = this.#blockWith(this.#stop);
    if (block !== undefined) this.#fill(block);
  }

  /** @param {number} index */
  #moveStop(index) {
    if (index === this.#stop) return;
    this.#elementOf(this.#stop)?.setAttribute("tabindex", "-1");
    this.#stop = index;
    this.#bring(index).setAttribute("tabindex", "0");
  }

  /** @param {EventTarget | null} target */
  #tokenAt(target) {
    if (!(target instanceof Element) || !this.#host.contains(target)) return null;
    const token = target.closest(".token");
    return token instanceof HTMLElement ? token : null;
  }

  /** @param {Event} event */
  #clicked(event) {
    const token = this.#tokenAt(event.target);
    // A click that ends a selection chooses nothing.
    if (token === null || getSelection()?.isCollapsed === false) return;
    token.focus({ preventScroll: true });
    this.#callbacks.onChoose?.(indexOf(token));
  }

  /** @param {Event} event */
  #focused(event) {
    const token = this.#tokenAt(event.target);
    if (token === null) return;
    this.#moveStop(indexOf(token));
    this.#pointed(token);
  }

  /** @param {EventTarget | null} target */
  #pointed(target) {
    const token = this.#tokenAt(target);
    this.#callbacks.onPoint?.(token === null ? null : indexOf(token));
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const token = this.#tokenAt(event.target);
    if (token === null || event.altKey || event.metaKey) return;
    const index = indexOf(token);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#callbacks.onChoose?.(index);
      return;
    }
    const to = keyTarget(event, index, {
      size: this.size,
      rowWith: (position) => this.#rowWith(position),
      elementOf: (position) => this.#bring(position),
    });
    if (to === null) return;
    event.preventDefault();
    this.focus(Math.max(0, Math.min(to, this.size - 1)));
  }

  /** @param {number} index */
  #rowWith(index) {
    const found = this.#rows.find(({ row }) => row.start <= index && index < row.end);
    return found?.row ?? { start: 0, end: this.size };
  }

}

/** @returns {IntersectionObserverInit} what is within some screens of the window, or of its box */
function near() {
  // A root margin counts at the window alone; for a box that scrolls, there is the scroll margin.
  const margin = "600px 0px";
  return /** @type {IntersectionObserverInit} */ ({ rootMargin: margin, scrollMargin: margin });
}

/**
 * @param {number} end
 * @returns {Row}
 */
function wholeRow(end) {
  return { start: 0, end, className: "", label: phrase("tokens") };
}

/**
 * The last of `count` places that `holds`, where it holds up to some place; 0 where for none.
 *
 * @param {number} count
 * @param {(at: number) => boolean} holds
 */
function lastBefore(count, holds) {
  let low = 0;
  let high = count;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (holds(middle)) low = middle;
    else high = middle;
  }
  return low;
}
