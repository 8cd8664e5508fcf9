/** The types of `built-in-tools.js`, which the inspector writes from the library's table of tools. */

import type { ToolNamespace } from "./wire.js";

/** The tools that are built into the model, as the system message declares them. */
export const BUILT_IN_TOOLS: Readonly<Record<string, ToolNamespace>>;
