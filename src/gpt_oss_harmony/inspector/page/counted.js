/** Words: numbers of things, and sentences. */

/**
 * Say how many there are: `1 token`, `1,024 tokens`.
 *
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/**
 * Make a sentence of what the server says.
 *
 * @param {string} words
 */
export function sentence(words) {
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}.`;
}
