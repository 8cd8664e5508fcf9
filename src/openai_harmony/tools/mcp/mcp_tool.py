"""The tools of a server, called by the model as a namespace of harmony."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mcp import Client, MCPError
from pydantic import ValidationError

from ...conversation.messages import Message
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ..server_tool import ServerFunction, ServerTool
from ..tool import call_text
from ..tool_error import ToolError
from ..tool_message import ToolMessage, failure_message, tool_message
from .address import McpAddress
from .link import McpLink
from .listing import ListingError, McpListing, list_tools, make_listing
from .names import harmony_name
from .result import McpResult
from .server_error import McpServerError
from .session import McpSession

__all__ = ["McpSettings", "McpTool"]

_RESERVED = ("functions", "browser", "python")
_LISTING_ERRORS = (ListingError, MCPError, ValidationError, asyncio.TimeoutError)


@dataclass(frozen=True)
class McpSettings:
    """What can be set about servers; times in seconds."""

    connect_seconds: float = 30
    """For a server to start and to list its tools."""
    call_seconds: float = 120
    """For a call."""
    result_characters: int = 20_000
    """Of a call's text, at most; the rest is cut out of its middle."""
    attachment_bytes: int = 10 << 20
    """Of a call's files together; those beyond are left out, with a note."""


class McpTool(ServerTool[McpSession]):
    """A server's tools as they were listed when it was connected; `close` it.

    All conversations share the connection, and with it what the server remembers.

    ::

        tool = await McpTool.connect(McpAddress.parse("uvx mcp-server-time"))
        system = tool.declare(SystemContent())
    """

    def __init__(self, link: McpLink, listing: McpListing, settings: McpSettings) -> None:
        self._link = link
        self._listing = listing
        self._settings = settings

    @classmethod
    async def connect(
        cls,
        address: McpAddress,
        *,
        taken: Collection[str] = (),
        settings: McpSettings | None = None,
    ) -> McpTool:
        """Connect to a server, and ask for its tools.

        The namespace has the name of `address`, or else the server's, without what harmony cannot
        have in a name; where it is one of those `taken`, or that of a built-in tool, a number
        follows. Raises `McpServerError`, which names the server.
        """
        settings = settings or McpSettings()
        link = McpLink(address, settings.connect_seconds)
        try:
            client = await link.client()
            listing = await asyncio.wait_for(
                _listing(client, address, {*_RESERVED, *taken}), settings.connect_seconds
            )
        except _LISTING_ERRORS as error:
            await link.close()
            why = " ".join(str(error).split())[:500] or "there was no answer in time"
            raise McpServerError(
                f"cannot list the tools of the MCP server {address}: {why}"
            ) from error
        except BaseException:
            await link.close()
            raise
        return cls(link, listing, settings)

    @property
    def namespace(self) -> ToolNamespaceConfig:
        """What the server listed."""
        return self._listing.namespace

    @property
    def functions(self) -> Mapping[str, ServerFunction]:
        """What the server listed, by the names in the namespace."""
        return self._listing.functions

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as the server lists it, in words for the one who runs it."""
        return self._listing.notes

    def new_session(self) -> McpSession:
        """Begin a conversation."""
        return McpSession()

    def load_session(self, stored: str) -> McpSession:
        """Read the JSON of a session; raises `ValueError` where it is none."""
        return McpSession.from_json(stored)

    async def call(self, message: Message, session: McpSession) -> AsyncIterator[ToolMessage]:
        """Call the server's tool that a message names, and yield one message."""
        try:
            name, arguments = self._read(message)
            result = await self._link.call(
                self._listing.functions[name].name, arguments, self._settings.call_seconds
            )
            read = McpResult(name, session, self._settings.attachment_bytes)
            text = read.text(result, self._settings.result_characters)
            files = tuple(read.attachments)
            answer = tool_message(message, text, attachments=files, is_error=result.is_error)
        except (ToolError, McpServerError) as error:
            answer = failure_message(message, error)
        yield answer

    async def close(self) -> None:
        """End the connection, and a server that was started."""
        await self._link.close()

    def _read(self, message: Message) -> tuple[str, dict[str, Any]]:
        bare = (message.recipient or "").removeprefix("functions.")
        name = bare.removeprefix(f"{self.namespace.name}.")
        if name not in self.functions:
            known = ", ".join(f"`{self.namespace.name}.{tool}`" for tool in self.functions)
            raise ToolError(f"there is no function `{bare[:100]}`; there are {known}")
        return name, _arguments(call_text(message))


async def _listing(client: Client, address: McpAddress, taken: Collection[str]) -> McpListing:
    said = client.server_info
    name = address.name or (said.name if said else "") or address.short_name
    tools = await list_tools(client)
    return make_listing(harmony_name(name, taken, default="server"), client.instructions, tools)


def _arguments(text: str) -> dict[str, Any]:
    """Read the arguments of a call, which the server checks; raises `ToolError`."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except RecursionError:
        raise ToolError("the arguments are nested too deeply") from None
    except ValueError as error:
        raise ToolError(f"the arguments must be a JSON object: {error}") from error
    if not isinstance(found, dict):
        raise ToolError('the arguments must be a JSON object, such as {"key": "value"}')
    return found
