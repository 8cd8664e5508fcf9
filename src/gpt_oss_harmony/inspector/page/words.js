/**
 * The page's own words, in the language of its reader.
 *
 * The code has them in English; `words.json` has each sentence in the other languages, under the
 * English one. What the library says, such as an error of a conversation, stays in English.
 */

/** @typedef {keyof typeof LANGUAGES} Language */
/** @typedef {Record<string, string>} Forms one for each category of `Intl.PluralRules` */
/** @typedef {Record<string, Record<string, string | Forms>>} Table */

/** The languages, as their readers call them. */
export const LANGUAGES = { en: "English", ja: "日本語", ko: "한국어", ru: "Русский" };

/** Where the browser keeps the language that was chosen. */
export const LANGUAGE_KEY = "harmony-inspector-language";

/** The language of the page: the one that was chosen here, else the first that the browser wants. */
export const language = readLanguage();

const plurals = new Intl.PluralRules(language);

const table = await readTable();

/**
 * Return a sentence of the page in its language.
 *
 * @param {string} english with places such as `{name}`
 * @param {Record<string, string | number>} [values] what stands there; numbers are written as the
 *   language does, and `count` decides the form of a plural
 */
export function phrase(english, values = {}) {
  const found = table[english]?.[language] ?? english;
  const words = typeof found === "string" ? found : (found[plurals.select(Number(values.count))] ?? english);
  return words.replace(/\{(\w+)\}/g, (place, name) => {
    const value = values[name] ?? place;
    return typeof value === "number" ? digits(value) : value;
  });
}

/**
 * Say how many there are: `1 token`, `1,024 tokens`.
 *
 * @param {number} count
 * @param {string} one with the place `{count}`
 * @param {string} many likewise; the other languages stand under this one
 */
export function counted(count, one, many) {
  const english = language === "en" && count === 1 ? one : many;
  return phrase(english, { count });
}

/** @param {number} count */
export function tokenCount(count) {
  return counted(count, "{count} token", "{count} tokens");
}

/** @param {number} count */
export function recoveryCount(count) {
  return counted(count, "{count} recovery", "{count} recoveries");
}

/**
 * Join what could stand in sentences of its own.
 *
 * @param {string[]} parts
 */
export function joined(parts) {
  return parts.reduce((first, second) => phrase("{first}; {second}", { first, second }));
}

/**
 * Join the members of a list.
 *
 * @param {string[]} members
 */
export function listed(members) {
  return members.reduce((first, second) => phrase("{first}, {second}", { first, second }));
}

/**
 * Make a sentence of what the library says.
 *
 * @param {string} words
 */
export function sentence(words) {
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}${words.endsWith("?") ? "" : "."}`;
}

/**
 * Write a number as the language does.
 *
 * @param {number} value
 * @param {Intl.NumberFormatOptions} [options]
 */
export function digits(value, options) {
  return value.toLocaleString(language, options);
}

/**
 * Load the table: nothing for English, and nothing where it cannot be had, since the code has that.
 *
 * @returns {Promise<Table>}
 */
async function readTable() {
  try {
    return language === "en" ? {} : await (await fetch(new URL("words.json", import.meta.url))).json();
  } catch (error) {
    console.error(error);
    return {};
  }
}

/** @returns {Language} */
function readLanguage() {
  const { localStorage: kept } =
    /** @type {{ localStorage?: { getItem: (key: string) => string | null } }} */ (/** @type {unknown} */ (globalThis));
  // A worker cannot read what was chosen: the page names it after its language.
  const chosen = kept === undefined ? self.name : kept.getItem(LANGUAGE_KEY);
  const wanted = [chosen ?? "", ...navigator.languages].map((tag) => tag.split("-")[0] ?? "");
  return /** @type {Language} */ (wanted.find((tag) => tag in LANGUAGES) ?? "en");
}
