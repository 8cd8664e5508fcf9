"""What a server lists, as a namespace of harmony."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mcp import Client
from mcp.types import Tool as ListedTool

from ...conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from ...errors import HarmonyError
from ...rendering.system_prompt import tool_declaration
from ..server_tool import ServerFunction
from .names import harmony_name

__all__ = ["ListingError", "McpListing", "list_tools", "make_listing"]

_MOST_PAGES = 100
_MOST_TOOLS = 500


class ListingError(ValueError):
    """What a server lists cannot be a namespace."""


@dataclass(frozen=True)
class McpListing:
    """A namespace, and what the server lists, by the names in it."""

    namespace: ToolNamespaceConfig
    functions: Mapping[str, ServerFunction]
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
    functions: dict[str, ServerFunction] = {}
    known: set[str] = set()
    notes: list[str] = []
    for tool in tools:
        if tool.name in known:
            notes.append(f"{tool.name!r:.100} is listed twice; the second is left out")
            continue
        known.add(tool.name)
        clean = harmony_name(tool.name, functions)
        if clean != tool.name:
            notes.append(f"{tool.name!r:.100} is called {name}.{clean}")
        functions[clean] = _function(tool)
        described.append(_described(clean, tool, notes))
    if not described:
        raise ListingError("the server lists no tools")
    return McpListing(
        ToolNamespaceConfig(name=name, description=description, tools=described),
        functions,
        tuple(notes),
    )


def _function(tool: ListedTool) -> ServerFunction:
    said = tool.annotations
    return ServerFunction(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=None if said is None else said.model_dump(by_alias=True, exclude_none=True),
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
