"""The tools of an MCP server: as it lists them, and called as a namespace of harmony."""

from __future__ import annotations

import asyncio
import base64
import json
import mimetypes
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import anyio
from mcp import Client, MCPError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ResourceLink,
    TextContent,
)
from mcp.types import Tool as ListedTool
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...conversation.built_in_tools import BUILT_IN_TOOLS
from ...conversation.messages import Message
from ...conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from ...errors import HarmonyError
from ...rendering.system_prompt import tool_declaration
from ..python.output import joined_output
from ..tool import (
    Attachment,
    ServerFunction,
    ServerTool,
    ToolError,
    ToolMessage,
    failure_message,
    tool_message,
)
from ..tool_call import read_arguments
from .connection import McpAddress, McpConnection, McpServerError

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
            # Tried now, because a schema that cannot be written would make every prompt fail.
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


_RAW = 4  # characters read for each one shown: colours and overwritten lines are removed
_LISTING_ERRORS = (ListingError, MCPError, ValidationError, TimeoutError)


class McpSession(BaseModel):
    """Counts attachments, so that their names are unique; the server stores everything else.

    >>> McpSession.from_json(McpSession(attachments=2).to_json()).attachments
    2
    """

    model_config = ConfigDict(extra="forbid")

    attachments: int = Field(default=0, ge=0)

    def to_json(self) -> str:
        """Return the session as JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, stored: str) -> McpSession:
        """Read the JSON text of a session; raises `ValueError` if it is invalid."""
        return cls.model_validate_json(stored)


@dataclass
class McpResult:
    """Reads one result; the `session` numbers its files.

    The model reads only text: everything else becomes a file, and a note takes its place.
    """

    tool: str
    session: McpSession
    attachment_bytes: int
    attachments: list[Attachment] = field(default_factory=list)

    def text(self, result: CallToolResult, characters: int) -> str:
        """Return the text of a result, at most `characters` of it, and collect its files.

        Structured content is shown only if there is no text, because the text should be equivalent.
        """
        parts = [self._part(block) for block in result.content]
        has_text = any(isinstance(block, TextContent) for block in result.content)
        if result.structured_content is not None and not has_text:
            parts.append(json.dumps(result.structured_content, ensure_ascii=False))
        text = "\n".join(part for part in parts if part)
        if result.is_error:
            text = f"Error: {text or 'the tool does not say what is wrong'}"
        room = _RAW * characters
        cut = max(0, len(text) - 2 * room)
        ends = (text[:room], cut, text[-room:]) if cut else (text, 0, "")
        return joined_output(*ends, characters) or "[no output]"

    def _part(self, block: ContentBlock) -> str:
        if isinstance(block, TextContent):
            return block.text
        if isinstance(block, (ImageContent, AudioContent)):
            return self._file(block.type, block.data, block.mime_type)
        if isinstance(block, ResourceLink):
            about = f": {block.description}" if block.description else ""
            return f"[resource {block.name}, {block.uri}{about}]"
        resource = block.resource
        if isinstance(resource, BlobResourceContents):
            kind = resource.mime_type or "application/octet-stream"
            return self._file(f"resource {resource.uri}", resource.blob, kind)
        return f"[resource {resource.uri}]\n{resource.text}"

    def _file(self, source: str, encoded: str, mime_type: str) -> str:
        try:
            data = base64.b64decode(encoded, validate=True)
        except ValueError:
            return f"[{source}: cannot be read]"
        room = self.attachment_bytes - sum(len(file.data) for file in self.attachments)
        if len(data) > room:
            return f"[{source}: {len(data):,} bytes are too many, and left out]"
        self.session.attachments += 1
        end = mimetypes.guess_extension(mime_type) or ""
        name = f"{self.tool}-{self.session.attachments}{end}"
        self.attachments.append(Attachment(name, data, mime_type))
        return f"[{source}: not shown, this model reads text only; the user has it as {name}]"


@dataclass(frozen=True)
class McpSettings:
    """The settings of the tools of servers; times in seconds."""

    connect_seconds: float = 30
    """Time for a server to start and to list its tools."""
    call_seconds: float = 120
    """Time for a call."""
    result_characters: int = 20_000
    """The most characters of a call's text; the rest is cut out of its middle."""
    attachment_bytes: int = 10 << 20
    """The most bytes of a call's files together; the rest is left out, with a note."""


class McpTool(ServerTool[McpSession]):
    """The tools that a server listed when it was connected; `close` it.

    All conversations share the connection, and with it the state of the server.

    ::

        tool = await McpTool.connect(McpAddress.parse("uvx mcp-server-time"))
        system = tool.declare(SystemContent())
    """

    def __init__(
        self, connection: McpConnection, listing: McpListing, settings: McpSettings
    ) -> None:
        self._connection = connection
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
        """Connect to a server, and list its tools.

        The namespace has the name of `address`, or else of the server, made valid for harmony. A
        name that is in `taken`, or is that of a built-in tool, gets a number. Raises
        `McpServerError`, which names the server.
        """
        settings = settings or McpSettings()
        connection = McpConnection(address, settings.connect_seconds)
        try:
            client = await connection.client()
            info = client.server_info
            name = address.name or (info.name if info else "") or address.short_name
            with anyio.fail_after(settings.connect_seconds):
                tools = await list_tools(client)
            name = harmony_name(name, {"functions", *BUILT_IN_TOOLS, *taken}, default="server")
            listing = make_listing(name, client.instructions, tools)
        except _LISTING_ERRORS as error:
            await connection.close()
            why = " ".join(str(error).split())[:500] or "there was no answer in time"
            raise McpServerError(
                f"cannot list the tools of the MCP server {address}: {why}"
            ) from error
        except BaseException:
            # Also where the caller gives up: a server that was started would go on running.
            await connection.close()
            raise
        return cls(connection, listing, settings)

    @property
    def namespace(self) -> ToolNamespaceConfig:
        """The namespace of the listed tools."""
        return self._listing.namespace

    @property
    def functions(self) -> Mapping[str, ServerFunction]:
        """The listed functions, by their names in the namespace."""
        return self._listing.functions

    @property
    def notes(self) -> tuple[str, ...]:
        """Differences from the server's list, in words for the operator."""
        return self._listing.notes

    def new_session(self) -> McpSession:
        """Begin a conversation."""
        return McpSession()

    def load_session(self, stored: str) -> McpSession:
        """Read the JSON of a session; raises `ValueError` if it is invalid."""
        return McpSession.from_json(stored)

    async def call(self, message: Message, session: McpSession) -> AsyncIterator[ToolMessage]:
        """Call the server's tool that a message names, and yield one message."""
        try:
            # Models may write the namespace of the developer's functions before any name.
            bare = (message.recipient or "").removeprefix("functions.")
            name = bare.removeprefix(f"{self.namespace.name}.")
            if name not in self.functions:
                names = ", ".join(f"`{self.namespace.name}.{tool}`" for tool in self.functions)
                raise ToolError(f"there is no function `{bare[:100]}`; there are {names}")
            arguments = read_arguments(message.text)
            result = await self._connection.call(
                self._listing.functions[name].name, arguments, self._settings.call_seconds
            )
            reader = McpResult(name, session, self._settings.attachment_bytes)
            characters = self._settings.result_characters
            text = await asyncio.to_thread(reader.text, result, characters)
            files = tuple(reader.attachments)
            response = tool_message(message, text, attachments=files, is_error=result.is_error)
        except (ToolError, McpServerError) as error:
            response = failure_message(message, error)
        yield response

    async def close(self) -> None:
        """End the connection, and a server that was started."""
        await self._connection.close()
