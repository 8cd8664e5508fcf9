"""Built-in tools as an MCP server: prompts become descriptions, tool messages become content."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    INVALID_PARAMS,
    UNSUPPORTED_PROTOCOL_VERSION,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    DiscoverResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    TextContent,
)
from mcp.types import Tool as ListedTool
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from ... import __version__
from ...conversation.messages import Message, Role
from ..tool import Attachment, Tool, ToolSession

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

MOST_SESSIONS = 256
"""The most clients at a time; each may store some megabytes of pages."""

_CODE = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Python code, as for a notebook"}},
    "required": ["code"],
}


class KeyGate:
    """Lets requests through to `app` that have one of `keys` as their bearer token."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._expected = [f"Bearer {key}".encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request without a valid key; pass all others on."""
        if scope["type"] == "http":
            # As bytes, because `compare_digest` raises for texts that are not ASCII.
            key = Headers(scope=scope).get("authorization", "").encode("latin-1")
            if not any(hmac.compare_digest(key, expected) for expected in self._expected):
                refusal = JSONResponse(
                    {"error": "a key is needed: Authorization: Bearer KEY"},
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


@dataclass
class ClientSession:
    """The sessions of the tools for one client; a call holds the lock."""

    sessions: dict[str, ToolSession]
    """The tools' sessions, by the names of the tools."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ClientSessions:
    """Sessions of clients by their ids; beyond `most`, the least recently used are dropped."""

    def __init__(self, tools: Sequence[Tool[Any]], most: int) -> None:
        self._tools = tools
        self._most = most
        self._sessions: OrderedDict[str, ClientSession] = OrderedDict()

    def get(self, key: str) -> ClientSession:
        """Return the session of a client; begin one if there is none."""
        if key not in self._sessions:
            self._sessions[key] = ClientSession(
                {tool.namespace.name: tool.new_session() for tool in self._tools}
            )
        self._sessions.move_to_end(key)
        while len(self._sessions) > self._most:
            self._sessions.popitem(last=False)
        return self._sessions[key]


class _Offered(NamedTuple):
    """A function that clients can call; `recipient` is its recipient in harmony."""

    tool: Tool[Any]
    recipient: str
    listed: ListedTool


def make_server(tools: Sequence[Tool[Any]]) -> Server[Any]:
    """Make a server of the functions of `tools`, which the caller closes.

    Each client session has tool sessions of its own. The server is ready for standard input and
    output; `make_http_app` is for HTTP.
    """
    offered = {item.listed.name: item for tool in tools for item in _offered(tool)}

    sessions = ClientSessions(tools, MOST_SESSIONS)

    async def list_tools(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[item.listed for item in offered.values()])

    async def call_tool(
        context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        called = offered.get(params.name)
        if called is None:
            raise MCPError(
                INVALID_PARAMS,
                f"there is no tool {params.name!r:.100}; there are {', '.join(offered)}",
            )
        client = sessions.get(_session_id(context))
        call = Message.from_role_and_content(
            Role.ASSISTANT, json.dumps(params.arguments or {})
        ).with_recipient(called.recipient)
        async with client.lock:
            session = client.sessions[called.tool.namespace.name]
            messages = [message async for message in called.tool.call(call, session)]
        content: list[ContentBlock] = [
            TextContent(text="\n".join(message.text for message in messages))
        ]
        content += (_attached(file) for message in messages for file in message.attachments)
        return CallToolResult(content=content, is_error=any(item.is_error for item in messages))

    descriptions = [tool.namespace.description for tool in tools if tool.namespace.tools]
    return Server(
        "harmony",
        version=__version__,
        instructions="\n\n".join(text for text in descriptions if text) or None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def make_http_app(server: Server[Any], host: str) -> Starlette:
    """Return the application that answers at ``/mcp`` by streamable HTTP.

    If `host` is this machine, requests with another Host or Origin are refused, since pages of
    other sites can send them. The newest version of the protocol has no sessions over HTTP, but a
    browser and a notebook need them: the server offers only the older versions.
    """

    async def discover(
        context: ServerRequestContext[Any], params: RequestParams | None
    ) -> DiscoverResult:
        return DiscoverResult(
            supported_versions=list(HANDSHAKE_PROTOCOL_VERSIONS),
            capabilities=server.get_capabilities(),
            instructions=server.instructions,
        )

    server.add_request_handler("server/discover", RequestParams, discover)
    return server.streamable_http_app(host=host, max_sessions=MOST_SESSIONS)


def _offered(tool: Tool[Any]) -> list[_Offered]:
    namespace = tool.namespace
    if not namespace.tools:  # a tool that takes code
        listed = ListedTool(
            name=namespace.name, description=namespace.description, input_schema=_CODE
        )
        return [_Offered(tool, namespace.name, listed)]
    return [
        _Offered(
            tool,
            f"{namespace.name}.{function.name}",
            ListedTool(
                name=function.name,
                description=function.description,
                input_schema=function.parameters or {"type": "object"},
            ),
        )
        for function in namespace.tools
    ]


def _session_id(context: ServerRequestContext[Any]) -> str:
    """Return the id of the client's session; standard input and output have only one."""
    if context.request is None:
        return ""
    ident = context.request.headers.get("mcp-session-id")
    if ident is None:
        supported = list(HANDSHAKE_PROTOCOL_VERSIONS)
        raise MCPError(
            UNSUPPORTED_PROTOCOL_VERSION,
            f"these tools need a session; use version {supported[-1]} of the protocol",
            {"supported": supported, "requested": context.protocol_version},
        )
    return str(ident)


def _attached(file: Attachment) -> ContentBlock:
    data = base64.b64encode(file.data).decode("ascii")
    if file.mime_type.startswith("image/"):
        return ImageContent(data=data, mime_type=file.mime_type)
    uri = f"file:///mnt/data/{quote(file.name)}"
    return EmbeddedResource(
        resource=BlobResourceContents(uri=uri, blob=data, mime_type=file.mime_type)
    )
