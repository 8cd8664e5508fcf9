"""What a server lists, as a namespace of harmony."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mcp import Client
from mcp.types import Tool as ListedTool

from ...errors import HarmonyError
from ...prompt import tool_declaration
from ...tool_namespaces import ToolDescription, ToolNamespaceConfig
from .names import harmony_name

__all__ = ["ListingError", "McpListing", "list_tools", "make_listing"]

_MOST_PAGES = 100
_MOST_TOOLS = 500


class ListingError(ValueError):
    """What a server lists cannot be a namespace."""


@dataclass(frozen=True)
class McpListing:
    """A namespace, and what its tools are called by the server, by their names in harmony."""

    namespace: ToolNamespaceConfig
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """What is not as the server lists it, in words for the one who runs it."""


async def list_tools(client: Client) -> list[ListedTool]:
    """Ask for all tools, page by page; raises `ListingError` where there is no end of them."""
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
    """Make the namespace `name` of what was listed.

    Raises `ListingError` where there is no tool: harmony would read the namespace as one.
    """
    described: list[ToolDescription] = []
    names: dict[str, str] = {}
    notes: list[str] = []
    for tool in tools:
        if tool.name in names.values():
            notes.append(f"{tool.name!r:.100} is listed twice; the second is left out")
            continue
        clean = harmony_name(tool.name, names)
        if clean != tool.name:
            notes.append(f"{tool.name!r:.100} is called {name}.{clean}")
        names[clean] = tool.name
        described.append(_described(clean, tool, notes))
    if not described:
        raise ListingError("the server lists no tools")
    return McpListing(
        ToolNamespaceConfig(name=name, description=description, tools=described),
        names,
        tuple(notes),
    )


def _described(name: str, tool: ListedTool, notes: list[str]) -> ToolDescription:
    about = tool.description or tool.title or ""
    declared = ToolDescription.new(name, about, tool.input_schema)
    try:
        tool_declaration(declared)
    except HarmonyError as error:
        notes.append(f"the schema of {tool.name!r:.100} is left out: {error}")
        return ToolDescription.new(name, about, {"type": "object"})
    return declared
