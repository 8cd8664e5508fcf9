/**
 * How the site reads what is searched, and what it shows first. site_hooks.py puts this before the
 * theme's worker, which calls both functions; `lunr` is the worker's.
 */

/**
 * Write what was typed as the worker reads it. The worker finds the words that begin with a word; it
 * finds a word itself, too, where the word has a number, how much that counts.
 *
 * @param {string} typed
 */
function searchedWords(typed) {
  // A minus excludes the word after it, so that the name of an option would find every page but the
  // right one. An option is searched by its words and, for the sections that have it, as one word
  // that begins like no other.
  const text = typed.replace(
    /(^|\s)-*(\S+-\S+|(?<=-)\S+)/g,
    (_, space, name) => `${space}${name} zz${name.replace(/-/g, "")}`,
  );
  if (text.includes('"')) return text;
  const words = text.split(/[?!.,;:]*\s+|[?!.,;:]+$/).filter((word) => word !== "");
  const telling = words.filter((word) => lunr.stopWordFilter(word.toLowerCase()));
  const searched = telling.length > 0 ? telling : words;
  return searched.flatMap((word) => (searched.length > 1 ? twice(beginning(word)) : beginning(word))).join(" ");
}

/**
 * The part of a word that its other forms have, too: without the plural's s, or a Russian ending.
 *
 * @param {string} word
 */
function beginning(word) {
  if (/^[a-z]{3,}[^s\W]s$/i.test(word)) return word.slice(0, -1);
  return word.replace(/^(\p{Script=Cyrillic}{4,}?)[аеёийоуыьэюя]+$/iu, "$1");
}

/** @param {string} word */
function twice(word) {
  return /^\p{L}+$/u.test(word) ? [`${word}^1`, word] : [word];
}

/**
 * How much an entry of the index counts, a page or a section of one. What has all the words is before
 * what has one of them often, and a title that says just what was typed is before everything.
 *
 * @param {{title: string, parent?: {title: string}}} entry
 * @param {Record<string, boolean>} found whether the entry has each word
 */
function searchWeight(entry, found) {
  const words = Object.keys(found);
  if (words.length === 0) return 1;
  const title = titleWords(entry.title);
  const titleOfPage = entry.parent === undefined ? [] : titleWords(entry.parent.title);
  /** @param {string[]} texts @param {string} word */
  const has = (texts, word) => texts.some((text) => text.startsWith(word));
  /** @param {(word: string) => boolean} holds */
  const share = (holds) => words.filter(holds).length / words.length;

  const here = share((word) => found[word] || has(titleOfPage, word));
  const inTitle = share((word) => has(title, word));
  const searchedOfTitle = title.filter((text) => words.some((word) => text.startsWith(word))).length;
  const isTitle = inTitle * (searchedOfTitle / (title.length || 1));
  const isPage = entry.parent === undefined;
  return (isPage ? 3 : 1) * here ** 3 * (1 + 8 * isTitle ** 2) * (1 + share((word) => has(titleOfPage, word)));
}

/** @param {string} title */
function titleWords(title) {
  const words = title.replace(/<[^>]+>/g, "").toLowerCase().split(lunr.tokenizer.separator);
  return words.filter((word) => word !== "" && lunr.stopWordFilter(word));
}
