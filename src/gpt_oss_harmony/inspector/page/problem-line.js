/** The line of a tab for its last problem. One of the conversation leads to the tab that mends it. */

import { ApiError } from "./api.js";
import { button, element, fill } from "./element.js";
import { UnreadableError } from "./state.js";
import { phrase } from "./words.js";

export class ProblemLine {
  /** What to put into the page; hidden while there is no problem. */
  node = element("p", { class: "problem", role: "alert", hidden: true });

  /** @param {unknown} problem an error, or words; "" for none */
  say(problem) {
    const field = problem instanceof ApiError && problem.isOfSource ? `${problem.param}: ` : "";
    const words = problem instanceof Error ? problem.message : String(problem);
    const mend = button(phrase("To the conversation"), () => document.getElementById("tab-conversation")?.click());
    fill(this.node, field + words, " ", (field !== "" || problem instanceof UnreadableError) && mend);
    this.node.hidden = problem === "";
  }
}
