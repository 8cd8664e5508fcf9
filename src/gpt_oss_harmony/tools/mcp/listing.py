"""The tools that a server lists, as a namespace of harmony."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from mcp import Client
from mcp.types import Tool as ListedTool

from ...conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from ...errors import HarmonyError
from ...rendering.system_prompt import tool_declaration
from ..tool import ServerFunction

_LONGEST = 64
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def harmony_name(name: str, taken: Collection[str] = (), *, default: str = "tool") -> str:
    """Return a name of at most 64 letters, digits and ``_`` that is not in `taken`.

    A valid name stays as it is. A taken name gets a number; a name that is too long ends in a part
    of its hash.

    >>> harmony_name("get-time"), harmony_name("get.time", {"get_time"}), harmony_name("3D plot!")
    ('get_time', 'get_time_2', '_3D_plot')
    """
    clean = name
    if not _PLAIN.fullmatch(name):
        clean = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or default
        if clean[0].isdigit():
            clean = f"_{clean}"
    if len(clean) > _LONGEST:
        end = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        clean = f"{clean[: _LONGEST - 9]}_{end}"
    free, number = clean, 1
    while free in taken:
        number += 1
        end = f"_{number}"
        free = clean[: _LONGEST - len(end)] + end
    return free


_MOST_PAGES = 100
_MOST_TOOLS = 500


class ListingError(ValueError):
    """The tools of a server cannot be a namespace."""


@dataclass(frozen=True)
class McpListing:
    """A namespace, and the functions that the server lists, by their names in it."""

    namespace: ToolNamespaceConfig
    functions: Mapping[str, ServerFunction]
    notes: tuple[str, ...] = ()
    """Differences from the server's list, in words for the operator."""


async def list_tools(client: Client) -> list[ListedTool]:
    """Fetch all tools, page by page; raises `ListingError` if the list does not end."""
    tools: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if page.next_cursor is None:
            return tools
        if page.next_cursor == cursor or len(tools) > _MOST_TOOLS:
            break
        cursor = page.next_cursor
    raise ListingError(f"the server's list of tools does not end after {len(tools)} of them")


def make_listing(name: str, description: str | None, tools: Iterable[ListedTool]) -> McpListing:
    """Make the namespace `name` of the listed tools.

    Raises `ListingError` if there is no tool: harmony reads an empty namespace as a tool.
    """
    described: list[ToolDescription] = []
    functions: dict[str, ServerFunction] = {}
    listed: set[str] = set()
    notes: list[str] = []
    for tool in tools:
        if tool.name in listed:
            notes.append(f"{tool.name!r:.100} is listed twice; the second is left out")
            continue
        listed.add(tool.name)
        clean = harmony_name(tool.name, functions)
        if clean != tool.name:
            notes.append(f"{tool.name!r:.100} is called {name}.{clean}")
        hints = tool.annotations
        functions[clean] = ServerFunction(
            name=tool.name,
            description=tool.description,
            input_schema=tool.input_schema,
            annotations=None
            if hints is None
            else hints.model_dump(by_alias=True, exclude_none=True),
        )
        about = tool.description or tool.title or ""
        declared = ToolDescription.new(clean, about, tool.input_schema)
        try:
            tool_declaration(declared)
        except HarmonyError as error:
            notes.append(f"the schema of {tool.name!r:.100} is left out: {error}")
            declared = ToolDescription.new(clean, about, {"type": "object"})
        described.append(declared)
    if not described:
        raise ListingError("the server lists no tools")
    return McpListing(
        ToolNamespaceConfig(name=name, description=description, tools=described),
        functions,
        tuple(notes),
    )
