"""The built-in tools: those that models were trained with, each described once.

`BUILT_IN_TOOLS` is the only list of their names. The parts of the library that treat these tools
in a special way look them up when they need them: past reasoning in prompts, names in damaged
headers, the tools of requests, the items and events of the Responses API, containers, the
inspector. `tools.call_items` adds what only the server needs: it reads results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from .tool_namespaces import ToolNamespaceConfig, namespace_of


@dataclass(frozen=True)
class CallItem:
    """The item of a call of a server's tool in the Responses API.

    - `type`: its type. `id_prefix`: the beginning of its id.
    - `states`: the last words of the events about its states, in order. A second state beside
      ``completed`` says that the call runs.
    - `text`: its field with the model's text: ``arguments``, which is JSON, or ``code``, which
      clients get without anything that models put around code. Its events are called
      ``TYPE_TEXT.delta``. Empty for an item that begins when the model has written the whole call.
    - `fields`: its own fields, with the values that they have at first.
    """

    type: str
    id_prefix: str
    states: tuple[str, ...] = ("in_progress", "completed")
    text: Literal["arguments", "code", ""] = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> str:
        """The state while the call runs; empty if no event has it."""
        others = (state for state in self.states if state not in _USUAL_STATES)
        return next(others, "")

    @property
    def text_events(self) -> str:
        """The name of the events of its text; empty if it has none."""
        return f"{self.type}_{self.text}" if self.text else ""


_USUAL_STATES = ("in_progress", "completed", "failed")


@dataclass(frozen=True)
class BuiltInTool:
    """A built-in tool.

    - `namespace`: its declaration in the prompt.
    - `requested_as`: the types of tools in requests of the Responses API that mean it.
    - `item`: the item of a call.
    - `has_files`: whether its calls may make files for clients.
    - `has_container`: whether its session is a container, which requests may name.
    - `option`: the option of the command that gives the tool to a server.
    """

    namespace: ToolNamespaceConfig
    requested_as: tuple[str, ...]
    item: CallItem
    has_files: bool = False
    has_container: bool = False
    option: str = ""

    @cached_property
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
            option="--browser",
            item=CallItem(
                "web_search_call",
                "ws",
                states=("in_progress", "searching", "completed"),
                fields={"action": {"type": "search", "query": "", "queries": []}},
            ),
        ),
        BuiltInTool(
            ToolNamespaceConfig.python(),
            requested_as=("code_interpreter",),
            option="--python",
            item=CallItem(
                "code_interpreter_call",
                "ci",
                states=("in_progress", "interpreting", "completed"),
                text="code",
                fields={"code": "", "container_id": "", "outputs": None},
            ),
            has_files=True,
            has_container=True,
        ),
    )
}
"""The built-in tools, by the names of their namespaces."""

MCP_CALL = CallItem(
    "mcp_call",
    "mcp",
    states=("in_progress", "completed", "failed"),
    text="arguments",
    fields={
        "server_label": "",
        "name": "",
        "arguments": "",
        "approval_request_id": None,
        "output": None,
        "error": None,
    },
)
"""The item of a call of a server's tool that is not built in, which is one of an MCP server."""


def is_built_in(recipient: str) -> bool:
    """Return whether a recipient, or the name of an author, is of a built-in tool.

    >>> is_built_in("browser.search"), is_built_in("functions.search")
    (True, False)
    """
    return namespace_of(recipient) in BUILT_IN_TOOLS


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


def call_item(recipient: str) -> CallItem:
    """Return the item of a call of a server's tool.

    >>> call_item("browser.open").type, call_item("files.list").type
    ('web_search_call', 'mcp_call')
    """
    tool = BUILT_IN_TOOLS.get(namespace_of(recipient))
    return MCP_CALL if tool is None else tool.item


def is_call_item(type_: str) -> bool:
    """Return whether a type of items is that of calls of a server's tool.

    >>> is_call_item("web_search_call"), is_call_item("function_call")
    (True, False)
    """
    return type_ in {MCP_CALL.type, *(tool.item.type for tool in BUILT_IN_TOOLS.values())}


def has_files(tool: str) -> bool:
    """Return whether calls of a server's tool may make files; those of MCP servers may.

    >>> has_files("browser"), has_files("python"), has_files("files")
    (False, True, True)
    """
    return tool not in BUILT_IN_TOOLS or BUILT_IN_TOOLS[tool].has_files


def tools_with_container() -> list[str]:
    """Return the tools whose sessions are containers.

    >>> tools_with_container()
    ['python']
    """
    return [name for name, tool in BUILT_IN_TOOLS.items() if tool.has_container]


# The code of the tool `python`

_FENCE = re.compile(r"\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*", re.DOTALL | re.IGNORECASE)


def read_code(text: str) -> str:
    r"""Return the code of a call; models write it as it is, in a fence, or in a JSON object.

    >>> [read_code(text) for text in ("1 + 1", '{"code": "1 + 1"}', "```python\n1 + 1\n```")]
    ['1 + 1', '1 + 1', '1 + 1']
    """
    if text.lstrip().startswith("{"):
        try:
            given = json.loads(text, strict=False)  # models do not escape line breaks
        except (ValueError, RecursionError):
            given = None  # Python code: a set or a dictionary
        if isinstance(given, dict):
            codes = (given.get(key) for key in ("code", "input"))
            text = next((code for code in codes if isinstance(code, str)), text)
    fenced = _FENCE.fullmatch(text)
    # With a fence inside, it may be several pieces of code with text between them.
    return fenced[1] if fenced is not None and "```" not in fenced[1] else text
