/** The line of a tab for its last problem. One of the conversation leads to the tab that mends it. */

import { ApiError } from "./api.js";
import { button, element, fill } from "./element.js";
import { UnreadableError } from "./state.js";
import { phrase } from "./words.js";

/**
 * Say what a problem is; one of the conversation with its field.
 *
 * @param {unknown} problem an error, or words
 */
export function problemWords(problem) {
  const field = problem instanceof ApiError && problem.isOfSource ? `${problem.param}: ` : "";
  return field + (problem instanceof Error ? problem.message : String(problem));
}

export class ProblemLine {
  /** What to put into the page; hidden while there is no problem. */
  node = element("p", { class: "problem", role: "alert", hidden: true });

  /** @param {unknown} problem an error, or words; "" for none */
  say(problem) {
    const isOfSource = problem instanceof ApiError && problem.isOfSource;
    const mend = button(phrase("To the conversation"), () => document.getElementById("tab-conversation")?.click());
    fill(this.node, problemWords(problem), " ", (isOfSource || problem instanceof UnreadableError) && mend);
    this.node.hidden = problem === "";
  }
}
