"""The tools of a request to either API: JSON comes in, what harmony declares comes out.

================  ==============================================================================
``function``      a function, in `functions`; its fields flat or under ``function``
``custom``        a function of one text, ``input``; its fields flat or under ``custom``
``namespace``     functions in a namespace of their own
a built-in tool   the tool that was trained, where the server has it: `BUILT_IN_TOOLS`
``mcp``           the namespace of its ``server_label``, where the server has it
anything else     nothing: the model cannot have it (``image_generation``, ...)
================  ==============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..conversation.json_field import JsonField
from ..conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig

__all__ = ["BUILT_IN_TOOLS", "CUSTOM_TOOL_FIELD", "RequestedTools", "read_function", "read_tools"]

CUSTOM_TOOL_FIELD = "input"
"""The one argument of the function that stands for a custom tool."""

BUILT_IN_TOOLS: Mapping[str, str] = {
    "web_search": "browser",
    "web_search_2025_08_26": "browser",
    "web_search_preview": "browser",
    "web_search_preview_2025_03_11": "browser",
    "code_interpreter": "python",
}
"""The types of tools that are built into the model, and their names there."""

_FUNCTIONS = "functions"
_NAME = re.compile(r"[^\s<|>]+")  # what a header can hold and the parser reads back


@dataclass
class RequestedTools:
    """What a request declares.

    - `namespaces`: by name, in their order.
    - `built_in`: the tools that the server runs, by name.
    - `custom`: the recipients of custom tools.
    - `strict`: the recipients whose schema has to be enforced.
    - `others`: the types of tools that the model cannot have.
    """

    namespaces: dict[str, ToolNamespaceConfig] = field(default_factory=dict)
    custom: set[str] = field(default_factory=set)
    strict: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    built_in: dict[str, ToolNamespaceConfig] = field(default_factory=dict)

    @property
    def recipients(self) -> list[str]:
        """The recipients of their calls, in their order."""
        namespaces = [*self.namespaces.values(), *self.built_in.values()]
        return [name for namespace in namespaces for name in _recipients(namespace)]

    def recipients_of(self, built_in: str) -> list[str]:
        """The recipients of calls of a built-in tool; none where it is not declared."""
        namespace = self.built_in.get(built_in)
        return [] if namespace is None else _recipients(namespace)

    def recipient(self, name: str, namespace: str | None = None) -> str:
        """Find the recipient of a call, as harmony writes it.

        >>> RequestedTools().recipient("now"), RequestedTools().recipient("browser.search")
        ('functions.now', 'browser.search')
        """
        if namespace:
            return f"{namespace}.{name}"
        function = f"{_FUNCTIONS}.{name}"
        # A call of a tool that is not declared was given the client under its whole name.
        is_whole = "." in name or name == "python"
        return name if is_whole and function not in self.recipients else function

    def add(self, namespace: str, description: str | None, tool: ToolDescription) -> None:
        """Declare one more function; it takes the place of one of its name."""
        known = self.namespaces.get(namespace)
        if known is None:
            known = ToolNamespaceConfig(name=namespace, description=description, tools=[])
            self.namespaces[namespace] = known
        # Items may declare the same tools turn after turn.
        names = [other.name for other in known.tools]
        if tool.name in names:
            known.tools[names.index(tool.name)] = tool
        else:
            known.tools.append(tool)


def read_tools(
    tools: Iterable[JsonField], built_in: Mapping[str, ToolNamespaceConfig] | None = None
) -> RequestedTools:
    """Read the tools of a request; `built_in` are those that the server has, by name.

    Raises `ConversationError` where one cannot be read.

    >>> read_tools([JsonField({"type": "function", "name": "now"})]).recipients
    ['functions.now']
    """
    found, known = RequestedTools(), built_in or {}
    for tool in tools:
        if tool["type"].text() == "namespace":
            name = tool["name"]
            description = tool["description"].optional_text() or None
            for member in tool["tools"].optional_items():
                _read_tool(member, found, _checked_name(name), description)
        elif (name_there := _name_at_server(tool)) in known:
            found.built_in[name_there] = known[name_there]
        else:
            _read_tool(tool, found, _FUNCTIONS, None)
    for taken in found.built_in.keys() & found.namespaces.keys():
        # The developer means tools of its own; the model must not find two under one name.
        del found.built_in[taken]
    return found


def read_function(tool: JsonField) -> ToolDescription:
    """Read a function, whose fields may stand under ``function``."""
    function = _fields(tool)
    parameters = function["parameters"]
    return ToolDescription(
        name=_checked_name(function["name"]),
        description=function["description"].optional_text() or "",
        parameters=None if parameters.is_null else dict(parameters.object()),
    )


def _read_tool(
    tool: JsonField, found: RequestedTools, namespace: str, description: str | None
) -> None:
    kind = tool["type"].text()
    if kind == "function":
        function = read_function(tool)
        found.add(namespace, description, function)
        if _fields(tool)["strict"].value is True:
            found.strict.add(f"{namespace}.{function.name}")
    elif kind == "custom":
        custom = _read_custom(tool if tool["custom"].is_null else tool["custom"])
        found.add(namespace, description, custom)
        found.custom.add(f"{namespace}.{custom.name}")
    else:
        found.others.add(kind)


def _name_at_server(tool: JsonField) -> str:
    """Return what the server calls a tool that it may have."""
    if tool["type"].value == "mcp":
        label = tool["server_label"].optional_text() or ""
        return "" if label in BUILT_IN_TOOLS.values() else label
    return BUILT_IN_TOOLS.get(tool["type"].text(), "")


def _recipients(namespace: ToolNamespaceConfig) -> list[str]:
    """List the recipients of calls; a tool without functions is called by its own name."""
    return [f"{namespace.name}.{tool.name}" for tool in namespace.tools] or [namespace.name]


def _fields(function: JsonField) -> JsonField:
    return function if function["function"].is_null else function["function"]


def _read_custom(tool: JsonField) -> ToolDescription:
    """Make a function of one text; the model reads the grammar of that text, if it has one."""
    texts = [tool["description"].optional_text() or ""]
    wanted = tool["format"]
    if not wanted.is_null and wanted["type"].text() == "grammar":
        grammar = wanted if wanted["grammar"].is_null else wanted["grammar"]
        syntax, definition = grammar["syntax"].text(), grammar["definition"].text()
        texts.append(f"The input follows this grammar ({syntax}):\n{definition}")
    return ToolDescription(
        name=_checked_name(tool["name"]),
        description="\n\n".join(filter(None, texts)),
        parameters={
            "type": "object",
            "properties": {CUSTOM_TOOL_FIELD: {"type": "string"}},
            "required": [CUSTOM_TOOL_FIELD],
            "additionalProperties": False,
        },
    )


def _checked_name(name: JsonField) -> str:
    if not _NAME.fullmatch(name.text()):
        raise name.error(
            f"{name.value!r:.80} cannot be called; name tools without white space, '<', '|' and '>'"
        )
    return name.text()
