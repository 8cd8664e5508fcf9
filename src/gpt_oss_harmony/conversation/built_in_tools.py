"""The built-in tools: those that models were trained with, each described once.

`BUILT_IN_TOOLS` is the only list of their names. The parts of the library that treat these tools
in a special way look them up when they need them: past reasoning in prompts, names in damaged
headers, the tools of requests, the items and events of the Responses API, the inspector.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tool_namespaces import ToolNamespaceConfig

__all__ = ["BUILT_IN_TOOLS", "BuiltInTool", "built_in_recipients", "is_built_in", "requested_tool"]


@dataclass(frozen=True)
class BuiltInTool:
    """A built-in tool.

    - `namespace`: its declaration in the prompt.
    - `requested_as`: the types of tools in requests of the Responses API that mean it.
    - `item`: the type of the item of a call. `item_prefix`: the beginning of the item's id.
    - `running`: the last word of the event that says that a call runs.
    """

    namespace: ToolNamespaceConfig
    requested_as: tuple[str, ...]
    item: str
    item_prefix: str
    running: str

    @property
    def recipients(self) -> list[str]:
        """The recipients of its calls: its functions, or the tool itself if it has none."""
        name = self.namespace.name
        return [f"{name}.{tool.name}" for tool in self.namespace.tools] or [name]


BUILT_IN_TOOLS = {
    tool.namespace.name: tool
    for tool in (
        BuiltInTool(
            ToolNamespaceConfig.browser(),
            requested_as=(
                "web_search",
                "web_search_2025_08_26",
                "web_search_preview",
                "web_search_preview_2025_03_11",
            ),
            item="web_search_call",
            item_prefix="ws",
            running="searching",
        ),
        BuiltInTool(
            ToolNamespaceConfig.python(),
            requested_as=("code_interpreter",),
            item="code_interpreter_call",
            item_prefix="ci",
            running="interpreting",
        ),
    )
}
"""The built-in tools, by the names of their namespaces."""


def is_built_in(recipient: str) -> bool:
    """Return whether a recipient, or the name of an author, is of a built-in tool.

    >>> is_built_in("browser.search"), is_built_in("functions.search")
    (True, False)
    """
    return recipient.partition(".")[0] in BUILT_IN_TOOLS


def built_in_recipients() -> list[str]:
    """Return the recipients of all built-in tools.

    >>> built_in_recipients()
    ['browser.search', 'browser.open', 'browser.find', 'python']
    """
    return [recipient for tool in BUILT_IN_TOOLS.values() for recipient in tool.recipients]


def requested_tool(type_: str) -> str:
    """Return the name of the tool that a type in a request means; empty if it means none.

    >>> requested_tool("code_interpreter"), requested_tool("function")
    ('python', '')
    """
    return next((name for name, tool in BUILT_IN_TOOLS.items() if type_ in tool.requested_as), "")
