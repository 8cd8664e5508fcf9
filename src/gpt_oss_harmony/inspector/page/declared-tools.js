/** The tools that a conversation declares, as the recipients of their calls. */

/** @import { HarmonyConversation, ToolNamespace } from "./wire.js" */

/**
 * Find the recipients: `functions.get_weather`, or `python` for a namespace without functions.
 *
 * @param {HarmonyConversation} conversation
 * @returns {string[]}
 */
export function declaredTools(conversation) {
  const recipients = conversation.messages
    .flatMap((message) => message.content)
    .flatMap((item) => (typeof item === "object" && "tools" in item ? [item.tools ?? {}] : []))
    .flatMap((namespaces) => Object.values(namespaces).flatMap(recipientsOf));
  return [...new Set(recipients)];
}

/** @param {ToolNamespace} namespace */
function recipientsOf({ name, tools }) {
  return tools.length === 0 ? [name] : tools.map((tool) => `${name}.${tool.name}`);
}
