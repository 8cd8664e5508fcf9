/**
 * A turn of the model while it is sampled: its tokens, coloured by channel as far as they are
 * parsed and shaded by their probabilities, and what was measured.
 */

import { element, fill, labelled } from "./element.js";
import { messageCard, messageText, openCard } from "./message-card.js";
import { cutMessage } from "./reading.js";
import { layoutOf } from "./reading-layout.js";
import { isTapped } from "./token-detail.js";
import { tokenLooks } from "./token-looks.js";
import { visible } from "./token-text.js";
import { TokenView } from "./token-view.js";
import { TurnFigures } from "./turn-figures.js";
import { digits, phrase } from "./words.js";

/** @import { SampledToken } from "./wire.js" */
/** @import { TurnState } from "./turn-figures.js" */
/** @import { Row, Span } from "./token-view.js" */
/** @import { Parsing, Tokens } from "./wire.js" */

/** @typedef {{ spans: Span[], rows: Row[], count: number }} Layout */

const HINT = isTapped
  ? phrase("Tap a token to see its probability and the likeliest tokens.")
  : phrase("Point at a token or use the arrow keys to see its probability and the likeliest tokens.");

/** Pixels: who has scrolled so near to the end wants to see what comes. */
const NEAR_END = 40;

export class TurnView {
  /** @type {SampledToken[]} */
  #sampled = [];
  /** @type {(number | null)[]} one for each sampled token */
  #shades = [];
  /** @type {Layout} */
  #shown = { spans: [], rows: [], count: 0 };
  /** @type {TurnFigures | null} */
  #figures = null;
  /** @type {number | null} the token whose details stay */
  #chosen = null;
  #numbers = element("dl", { class: "figures" });
  #cards;
  #box;
  #view;
  #shading;
  #detail = element("div", { class: "detail" });

  /**
   * @param {HTMLElement} cards where messages are shown while they grow
   * @param {HTMLElement} host for all the rest
   */
  constructor(cards, host) {
    this.#cards = cards;
    const view = element("div", { class: "tokens" });
    this.#view = new TokenView(view, {
      label: phrase("Answer"),
      onChoose: (index) => this.#choose(index),
      onPoint: (index) => this.#describe(index ?? this.#chosen),
    });
    this.#box = element("div", { class: "token-box" }, view);
    this.#shading = element("input", {
      type: "checkbox",
      checked: true,
      onchange: () => this.#shade(),
    });
    const legend = element(
      "span",
      { class: "shade-legend" },
      ...[100, 10, 1].map((value, position) => swatch(phrase("{value} %", { value }), position / 2)),
      phrase(" or less likely"),
    );
    const shading = labelled(phrase("Shade by probability"), this.#shading);
    const switches = element("div", { class: "switches" }, shading, legend, ...tokenLooks());
    host.append(
      element("div", { class: "pane-head" }, this.#numbers, switches),
      this.#box,
      this.#detail,
    );
    this.#describe(null);
  }

  /** Tokens that were sampled, in their order. */
  get sampled() {
    return this.#sampled;
  }

  /** @param {number} promptTokens */
  begin(promptTokens) {
    this.#sampled = [];
    this.#shades = [];
    this.#chosen = null;
    this.#shown = { spans: [], rows: [], count: 0 };
    this.#figures = new TurnFigures(this.#numbers, promptTokens);
    this.#view.show({ ids: [], texts: [], bytes: {} }, [], []);
    this.#shade();
    this.#describe(null);
    fill(this.#cards);
  }

  /** @param {SampledToken[]} tokens that have just arrived; they are shown when they are parsed */
  add(tokens) {
    this.#figures?.add(tokens.length);
    for (const token of tokens) {
      this.#sampled.push(token);
      this.#shades.push(shadeOf(token.logprob));
    }
  }

  /**
   * The turn is over: show all of it, and what was repaired where.
   *
   * @param {TurnState} how it has ended
   * @param {Parsing} parsing of all its tokens
   */
  end(how, parsing) {
    this.#figures?.end(how);
    this.read(parsing);
    for (const { kind, position } of parsing.lenient.recoveries) {
      if (position < this.#view.size) this.#view.decorate(position, "recovery", kind);
    }
  }

  /** @param {Parsing} parsing of the tokens so far */
  read({ tokens, lenient }) {
    const cut = cutMessage(lenient);
    this.#draw(tokens, layoutOf(lenient, tokens.ids.length));
    fill(
      this.#cards,
      ...lenient.messages.map((message, position) =>
        position === cut ? openCard(message, messageText(message)) : messageCard(message),
      ),
    );
  }

  /**
   * Append what is new; where that shows the tokens before in another light, show all again.
   *
   * @param {Tokens} tokens
   * @param {{ spans: Span[], rows: Row[] }} layout
   */
  #draw(tokens, { spans, rows }) {
    const before = this.#shown;
    this.#shown = { spans, rows, count: tokens.ids.length };
    // Read before the new tokens make the box higher.
    const { scrollTop, scrollHeight, clientHeight } = this.#box;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    if (rows.length === before.rows.length && goesOn(before, this.#shown)) {
      const added = spans
        .filter(({ end }) => end > before.count)
        .map((span) => ({ ...span, start: Math.max(span.start, before.count) }));
      this.#view.append(tail(tokens, before.count), added);
    } else {
      this.#view.show(tokens, spans, rows);
      this.#shade();
    }
    this.#box.scrollTop = isAtEnd ? this.#box.scrollHeight : scrollTop;
  }

  #shade() {
    this.#view.shade(this.#shading.checked ? this.#shades : null);
  }

  /** @param {number} index */
  #choose(index) {
    this.#chosen = index;
    this.#view.mark(index);
    this.#describe(index);
  }

  /** @param {number | null} index */
  #describe(index) {
    const token = index === null ? undefined : this.#sampled[index];
    if (index === null || token === undefined) {
      fill(this.#detail, element("span", { class: "hint" }, HINT));
      return;
    }
    const pairs = /** @type {const} */ ([
      [phrase("token"), digits(index)],
      [phrase("id"), String(token.id)],
      [phrase("text"), token.text === null ? phrase("bytes {bytes}", { bytes: token.bytes }) : visible(token.text)],
      [phrase("probability"), percent(token.logprob)],
      [phrase("likeliest"), likeliestOf(token)],
    ]);
    fill(
      this.#detail,
      element(
        "dl",
        {},
        ...pairs.map(([name, value]) =>
          element("div", {}, element("dt", {}, name), element("dd", {}, value)),
        ),
      ),
    );
  }
}

/**
 * Whether all that was shown looks the same now; only the last row and span may be longer.
 *
 * @param {Layout} before
 * @param {Layout} now
 */
function goesOn(before, now) {
  return (
    before.rows.every((row, position) => row.label === now.rows[position].label) &&
    before.spans.every(
      ({ start, end, className }, position) =>
        start === now.spans[position]?.start &&
        className === now.spans[position].className &&
        (end === now.spans[position].end || position === before.spans.length - 1),
    )
  );
}

/**
 * @param {Tokens} tokens
 * @param {number} from
 * @returns {Tokens}
 */
function tail({ ids, texts, bytes }, from) {
  const later = Object.entries(bytes).filter(([position]) => Number(position) >= from);
  return {
    ids: ids.slice(from),
    texts: texts.slice(from),
    bytes: Object.fromEntries(later.map(([position, hex]) => [String(Number(position) - from), hex])),
  };
}

/**
 * How a probability is shaded: not at all where it is 1, wholly from one in a hundred on.
 *
 * @param {number} logprob
 */
function shadeOf(logprob) {
  return Math.min(1, -logprob / Math.log(100));
}

/** @param {number} logprob */
function percent(logprob) {
  const value = Math.exp(logprob) * 100;
  // With three digits, everything from 99.95 on would read as 100.
  const places = value >= 99.95 ? 4 : 3;
  if (value < 0.001) return `< ${phrase("{value} %", { value: 0.001 })}`;
  return phrase("{value} %", { value: digits(value, { minimumSignificantDigits: places, maximumSignificantDigits: places }) });
}

/** @param {SampledToken} token */
function likeliestOf({ likeliest }) {
  return likeliest.map(({ text, logprob }) => `${visible(text)} ${percent(logprob)}`).join(", ");
}

/**
 * A word on the shade that it means.
 *
 * @param {string} words
 * @param {number} shade from 0 to 1
 */
function swatch(words, shade) {
  const shown = element("span", { class: "swatch" }, words);
  shown.style.setProperty("--shade", String(shade)); // as an attribute, the page's policy refuses it
  return shown;
}
