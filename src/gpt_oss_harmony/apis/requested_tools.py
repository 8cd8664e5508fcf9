"""The tools of a request to either API, as the namespaces that harmony declares, and their choice.

================  ==============================================================================
``function``      a function in `functions`; its fields flat or under ``function``
``custom``        a function with one text argument; its fields flat or under ``custom``. With a
                  grammar, its calls contain plain text instead of JSON
``namespace``     functions in a namespace of their own
a built-in tool   the tool that the model was trained with, if the server has it: `BUILT_IN_TOOLS`
``mcp``           the namespace of its ``server_label``, if the server has it
a client's tool   the function of that tool: `CLIENT_TOOLS`
a hosted tool     not declared: nobody runs it (`HOSTED_TOOLS`)
================  ==============================================================================

A `tool_choice` becomes a `ToolChoice` of the recipients that may be called.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..conversation.built_in_tools import BUILT_IN_TOOLS, is_built_in, requested_tool
from ..conversation.json_field import JsonField
from ..conversation.messages import INVISIBLE
from ..conversation.tool_choice import ToolChoice, named_tools
from ..conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig, namespace_of
from ..errors import ConversationError
from .client_tools import CLIENT_TOOLS

_FUNCTIONS = "functions"
_NO_IMAGES = "the model reads text; offer functions that describe the screen"

CUSTOM_TOOL_FIELD = "input"
"""The only argument of the function that represents a custom tool."""

HOSTED_TOOLS = {
    "computer": _NO_IMAGES,
    "computer_use_preview": _NO_IMAGES,
    "file_search": "attach the files as input_file, or start the server with --browser FOLDER",
    "image_generation": "the model writes text; offer a function that makes images",
    "mcp": "start the server with --mcp NAME=ADDRESS, and send NAME as server_label",
    "programmatic_tool_calling": "the model calls each tool itself",
    "tool_search": "send all tools in tools, or search yourself (execution: client)",
}
"""Tools of OpenAI's API that a server runs, beside the built-in ones, and what helps without."""

# What a header can contain, and UTF-8, in which the engine reads a grammar.
_NAME = re.compile(rf"[^\s=<|>{INVISIBLE}\ud800-\udfff]+")


@dataclass
class RequestedTools:
    """The tools that a request declares.

    - `namespaces`: functions of the client, by namespace, in order.
    - `built_in`: tools that the server runs, by name.
    - `custom`: recipients of custom tools.
    - `texts`: the syntax and definition of the grammars of custom tools, by recipient.
    - `strict`: recipients whose schemas must be enforced.
    - `client`: recipients of `CLIENT_TOOLS`.
    - `others`: types of tools that nobody runs, with an error that names what would help.
    """

    namespaces: dict[str, ToolNamespaceConfig] = field(default_factory=dict)
    custom: set[str] = field(default_factory=set)
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    strict: set[str] = field(default_factory=set)
    client: set[str] = field(default_factory=set)
    others: dict[str, ConversationError] = field(default_factory=dict)
    built_in: dict[str, ToolNamespaceConfig] = field(default_factory=dict)
    _places: dict[tuple[str, str], int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The places of functions, by namespace and name: items repeat tools and calls."""

    @property
    def recipients(self) -> list[str]:
        """The recipients of calls, in order."""
        namespaces = [*self.namespaces.values(), *self.built_in.values()]
        return [name for namespace in namespaces for name in _recipients(namespace)]

    def recipients_of(self, built_in: str) -> list[str]:
        """The recipients of a built-in tool's calls; none unless the tool is declared."""
        namespace = self.built_in.get(built_in)
        return [] if namespace is None else _recipients(namespace)

    def recipient(self, name: str, namespace: str | None = None) -> str:
        """Return the recipient of a call in harmony.

        >>> RequestedTools().recipient("now"), RequestedTools().recipient("browser.search")
        ('functions.now', 'browser.search')
        """
        if namespace:
            return f"{namespace}.{name}"
        function = f"{_FUNCTIONS}.{name}"
        # The client received the call of an undeclared tool under its whole name.
        is_whole = "." in name or is_built_in(name)
        return name if is_whole and (_FUNCTIONS, name) not in self._places else function

    def add(
        self, namespace: str, description: str | None, tool: ToolDescription, field: JsonField
    ) -> None:
        """Declare a function; one of an item replaces an earlier one with the same name.

        Raises `ConversationError` if the request itself declares two that differ.
        """
        new = ToolNamespaceConfig(name=namespace, description=description, tools=[])
        tools = self.namespaces.setdefault(namespace, new).tools
        place = self._places.setdefault((namespace, tool.name), len(tools))
        if field.path.startswith("tools[") and tools[place : place + 1] not in ([], [tool]):
            raise field.error(f"{tool.name!r:.60} is declared twice, and not alike; remove one")
        tools[place : place + 1] = [tool]


def read_tools(
    tools: Iterable[JsonField], built_in: Mapping[str, ToolNamespaceConfig] | None = None
) -> RequestedTools:
    """Read the tools of a request; `built_in` are the server's own tools, by name.

    Raises `ConversationError`.

    >>> read_tools([JsonField({"type": "function", "name": "now"})]).recipients
    ['functions.now']
    """
    requested, available = RequestedTools(), built_in or {}
    for tool in tools:
        if tool["type"].text() == "namespace":
            name = tool["name"]
            description = tool["description"].optional_text() or None
            for member in tool["tools"].optional_items():
                _read_tool(member, requested, read_tool_name(name), description)
        elif (server_name := _name_at_server(tool)) in available:
            requested.built_in[server_name] = available[server_name]
            _note_options(tool)
        else:
            _read_tool(tool, requested, _FUNCTIONS, None)
    for taken in requested.built_in.keys() & requested.namespaces.keys():
        # Two tools must not have the same name: the developer's own tools take precedence.
        del requested.built_in[taken]
    return requested


def read_function(tool: JsonField) -> ToolDescription:
    """Read a function; its fields may be nested under ``function``."""
    function = _fields(tool)
    parameters = function["parameters"]
    is_plain = parameters.is_null or isinstance(parameters.value, bool)
    return ToolDescription.new(
        read_tool_name(function["name"]),
        function["description"].optional_text() or "",
        parameters.value if is_plain else dict(parameters.object()),
    )


def _read_tool(
    tool: JsonField, requested: RequestedTools, namespace: str, description: str | None
) -> None:
    kind = tool["type"].text()
    tool.accept("defer_loading", False)
    tool.accept("allowed_callers", ["direct"])
    if kind == "function":
        function = read_function(tool)
        requested.add(namespace, description, function, tool)
        if _fields(tool).peek("strict").flag():
            requested.strict.add(f"{namespace}.{function.name}")
    elif kind == "custom":
        fields = tool if tool["custom"].is_null else tool["custom"]
        grammar = _read_grammar(fields["format"])
        custom = _read_custom(fields, grammar)
        requested.add(namespace, description, custom, tool)
        recipient = f"{namespace}.{custom.name}"
        requested.custom.add(recipient)
        if grammar is not None:
            requested.texts[recipient] = grammar
    elif kind in CLIENT_TOOLS and (kind not in HOSTED_TOOLS or tool["execution"].value == "client"):
        environment = tool["environment"]
        if not environment.is_null and environment["type"].text() != "local":
            raise environment["type"].error(
                "this server has no containers for commands; send local, and run them yourself"
            )
        function = CLIENT_TOOLS[kind].function
        if function.parameters is None:
            parameters = tool["parameters"]
            own = None if parameters.is_null else dict(parameters.object())
            given = tool["description"].optional_text()
            function = ToolDescription.new(kind, given or function.description, own)
        requested.add(namespace, description, function, tool)
        requested.client.add(f"{namespace}.{kind}")
    elif kind in HOSTED_TOOLS or requested_tool(kind):
        built_in = BUILT_IN_TOOLS.get(requested_tool(kind))
        remedy = (
            HOSTED_TOOLS[kind] if built_in is None else f"start the server with {built_in.option}"
        )
        requested.others[kind] = tool["type"].error(
            f"nobody runs tools of the type {kind!r} here: {remedy}; leave it out, or start the "
            "server with --missing-tools ignore"
        )
    else:
        types = {type_ for tool in BUILT_IN_TOOLS.values() for type_ in tool.requested_as}
        kinds = ("function", "custom", "namespace")
        known = ", ".join(sorted({*kinds, *CLIENT_TOOLS, *HOSTED_TOOLS, *types}))
        raise tool["type"].error(f"the tool type {kind!r:.80} is unknown; use one of {known}")


def _name_at_server(tool: JsonField) -> str:
    """Return the name that a built-in or MCP tool has at the server; empty for other tools."""
    if tool["type"].value == "mcp":
        label = tool["server_label"].optional_text() or ""
        # A label such as `python` must not turn an MCP server into the built-in tool.
        return "" if label in BUILT_IN_TOOLS else label
    return requested_tool(tool["type"].text())


def _note_options(tool: JsonField) -> None:
    """Note the options of a server's tool that the server reads when it opens the tool."""
    if not tool.path.startswith("tools["):
        return  # an item declares the tool, and the server reads no options there
    container = tool["container"]
    if isinstance(container.value, dict):
        container.accept("type")
        container.accept("file_ids")
    elif not (container.is_null or isinstance(container.value, str)):
        raise container.unexpected("the id of a container, or an object")
    tool.accept("allowed_tools")
    tool.accept("require_approval")


def _recipients(namespace: ToolNamespaceConfig) -> list[str]:
    """List the recipients of calls; the recipient of a tool without functions is its name."""
    return [f"{namespace.name}.{tool.name}" for tool in namespace.tools] or [namespace.name]


def _fields(tool: JsonField) -> JsonField:
    nested = tool["function"]
    if not nested.is_null:
        return nested
    if all(tool[name].is_null for name in ("name", "description", "parameters")):
        raise nested.unexpected("an object with a name (in Responses, the name alone)")
    return tool


def _read_grammar(text_format: JsonField) -> tuple[str, str] | None:
    """Read the format of a custom tool: the syntax and the definition of a grammar, or None."""
    if text_format.is_null or text_format["type"].text() == "text":
        return None
    if text_format["type"].value != "grammar":
        raise text_format["type"].unexpected("one of text, grammar")
    grammar = text_format if text_format["grammar"].is_null else text_format["grammar"]
    if grammar["syntax"].text() not in ("lark", "regex"):
        raise grammar["syntax"].unexpected("one of lark, regex")
    return grammar["syntax"].value, grammar["definition"].text()


def _read_custom(tool: JsonField, grammar: tuple[str, str] | None) -> ToolDescription:
    """Make a function with one text argument, or one whose description contains its grammar."""
    texts = [tool["description"].optional_text() or ""]
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {CUSTOM_TOOL_FIELD: {"type": "string"}},
        "required": [CUSTOM_TOOL_FIELD],
        "additionalProperties": False,
    }
    if grammar is not None:
        texts.append("The input follows this grammar ({}):\n{}".format(*grammar))
        parameters = {"type": "string"}
    return ToolDescription(
        name=read_tool_name(tool["name"]),
        description="\n\n".join(filter(None, texts)),
        parameters=parameters,
    )


def read_tool_name(name: JsonField) -> str:
    """Read the name of a tool; a message header must be able to contain it."""
    if not _NAME.fullmatch(name.text()):
        raise name.error(
            f"{name.value!r:.80} is not a valid tool name; use a name without white space, control "
            "characters, lone surrogates, '=', '<', '|' and '>'"
        )
    return name.text()


# The choice


def read_tool_choice(choice: JsonField, tools: RequestedTools) -> ToolChoice:
    """Read a choice; null restricts nothing.

    Raises `ConversationError` if it requires a call that is impossible.

    >>> tools = read_tools([JsonField({"type": "function", "name": "now"})])
    >>> read_tool_choice(JsonField({"type": "function", "name": "now"}), tools)
    ToolChoice(mode='required', names=('functions.now',))
    """
    mode, named, field = named_tools(choice)
    if named is None:
        if mode == "required" and not tools.recipients:
            raise choice.error("a call is required, but the model has no tool to call")
        return ToolChoice(mode)
    names = [
        name
        for tool in named
        # An allowed tool that the model cannot have was left out with its declaration.
        if tool is choice or tool["type"].text() not in tools.others
        for name in _named_recipients(tool, tools)
    ]
    if names:
        return ToolChoice(mode, tuple(names))
    if mode == "required":
        raise field.error("a call is required, but none of these tools can be called")
    return ToolChoice("none")


def read_later_choice(choice: JsonField, first: ToolChoice) -> ToolChoice:
    """Return the choice after a call of a built-in tool; `first` was read from `choice`.

    The required call is then done. The tools of a list are still allowed; without a list, all are.

    >>> read_later_choice(JsonField("required"), ToolChoice("required"))
    ToolChoice(mode='auto', names=None)
    """
    if first.mode == "none":
        return first
    is_list = named_tools(choice).field is not choice
    return ToolChoice("auto", first.names if is_list else None)


def chosen_built_in(choice: ToolChoice, tools: RequestedTools) -> frozenset[str]:
    """Return the built-in tools that a choice allows."""
    if choice.mode == "none":
        return frozenset()
    if choice.names is None:
        return frozenset(tools.built_in)
    return frozenset(
        name
        for name in tools.built_in
        if not set(choice.names).isdisjoint(tools.recipients_of(name))
    )


def choice_without(
    built_in: Collection[str], choice: ToolChoice, recipients: Iterable[str]
) -> ToolChoice:
    """Return a choice without the built-in tools; `recipients` are all declared ones.

    >>> choice_without({"python"}, ToolChoice(), ["python"])
    ToolChoice(mode='none', names=None)
    """
    names = recipients if choice.names is None else choice.names
    left = tuple(name for name in names if namespace_of(name) not in built_in)
    return ToolChoice("auto", left) if left and choice.mode != "none" else ToolChoice("none")


def _named_recipients(tool: JsonField, tools: RequestedTools) -> list[str]:
    """Return the recipients that a choice names: one tool, or all tools of a namespace."""
    kind = tool["type"].text()
    if built_in := tools.recipients_of(requested_tool(kind)):
        return built_in
    if kind in CLIENT_TOOLS and (recipient := f"{_FUNCTIONS}.{kind}") in tools.client:
        return [recipient]
    declared = f"declared tools: {', '.join(tools.recipients) or 'none'}"
    if kind not in ("function", "custom", "namespace"):
        raise tool["type"].error(
            f"a tool of the type {kind!r:.80} cannot be called here; {declared}"
        )
    named = tool if tool[kind].is_null else tool[kind]
    name = named["name"]
    if kind == "namespace":
        prefix = f"{name.text()}."
        recipients = [item for item in tools.recipients if item.startswith(prefix)]
    else:
        recipient = tools.recipient(name.text(), named["namespace"].optional_text())
        recipients = [recipient] if recipient in tools.recipients else []
    if not recipients:
        raise name.error(f"{name.value!r:.80} is not declared; {declared}")
    return recipients
