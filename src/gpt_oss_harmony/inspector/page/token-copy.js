/** Copying from a view of tokens. */

/**
 * Copy the text of the selected tokens alone: no heading, and no line break between blocks.
 *
 * @param {ClipboardEvent} event
 */
export function copyTokens(event) {
  const selection = getSelection();
  if (selection === null || selection.rangeCount === 0 || event.clipboardData === null) return;
  const copy = selection.getRangeAt(0).cloneContents();
  const blocks = [...copy.querySelectorAll(".block")];
  const text = blocks.length > 0 ? blocks.map((block) => block.textContent).join("") : copy.textContent;
  event.clipboardData.setData("text/plain", text ?? "");
  event.preventDefault();
}
