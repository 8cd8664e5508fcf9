/** The token that each key goes to. */

/**
 * What `keyTarget` needs of a view.
 *
 * @typedef {object} Layout
 * @property {number} size how many tokens there are
 * @property {(index: number) => { start: number, end: number }} rowWith the row that has a token
 * @property {(index: number) => HTMLElement} elementOf makes it where it is missing
 */

/**
 * Return the token that a key goes to, which may be before the first or after the last; null for
 * any other key.
 *
 * @param {KeyboardEvent} event
 * @param {number} index the token that has the focus
 * @param {Layout} layout
 * @returns {number | null}
 */
export function keyTarget(event, index, layout) {
  const { size, rowWith } = layout;
  const all = event.ctrlKey;
  switch (event.key) {
    case "ArrowLeft":
      return index - 1;
    case "ArrowRight":
      return index + 1;
    case "ArrowUp":
      return inNextLine(index, -1, layout);
    case "ArrowDown":
      return inNextLine(index, 1, layout);
    case "Home":
      return all ? 0 : rowWith(index).start;
    case "End":
      return (all ? size : rowWith(index).end) - 1;
    case "PageUp":
      return rowWith(Math.max(0, rowWith(index).start - 1)).start;
    case "PageDown":
      return rowWith(index).end;
    default:
      return null;
  }
}

/**
 * The token above or below: the nearest in the next line, as the lines are drawn.
 *
 * @param {number} index
 * @param {-1 | 1} step
 * @param {Layout} layout
 */
function inNextLine(index, step, { size, elementOf }) {
  const from = placeOf(elementOf(index));
  let best = index;
  let bestDistance = Infinity;
  let line = NaN;
  for (let position = index + step; position >= 0 && position < size; position += step) {
    const place = placeOf(elementOf(position));
    if (Math.abs(place.top - from.top) < from.height / 2) continue;
    if (Number.isNaN(line)) line = place.top;
    if (Math.abs(place.top - line) > from.height / 2) break;
    const distance = Math.abs(place.left - from.left);
    if (distance < bestDistance) [best, bestDistance] = [position, distance];
  }
  return best;
}

/** @param {HTMLElement} token */
function placeOf(token) {
  // A token that breaks over two lines has a rectangle in each; it stands where it begins.
  return token.getClientRects()[0] ?? token.getBoundingClientRect();
}
