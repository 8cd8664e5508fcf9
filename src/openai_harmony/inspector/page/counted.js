/** Numbers of things in words. */

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
