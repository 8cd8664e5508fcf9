"""Built-in tools as a server: what their prompts say as descriptions, their answers as content."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Sequence
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

from ... import __version__
from ...conversation.messages import Message, Role
from ...conversation.tool_namespaces import ToolDescription
from ..python.attachment import Attachment
from ..tool import Tool, call_text
from ..tool_message import ToolMessage
from .conversations import Conversations

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["MOST_SESSIONS", "make_http_app", "make_server"]

MOST_SESSIONS = 256
"""Clients at a time, at most; each may keep some megabytes of pages."""

_CODE = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Python code, as for a notebook"}},
    "required": ["code"],
}

_Handler = Callable[[ServerRequestContext[Any], CallToolRequestParams], Awaitable[CallToolResult]]


class _Offered(NamedTuple):
    """A tool as it is offered: `recipient` is what calls it in harmony."""

    tool: Tool[Any]
    recipient: str
    listed: ListedTool


def make_server(tools: Sequence[Tool[Any]]) -> Server[Any]:
    """Make a server of the functions of `tools`, which the caller closes.

    Each session of a client has sessions of the tools of its own. It is ready for standard input
    and output; `make_http_app` is for HTTP.
    """
    offered = {each.listed.name: each for tool in tools for each in _offered(tool)}

    async def list_tools(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[each.listed for each in offered.values()])

    about = [tool.namespace.description for tool in tools if tool.namespace.tools]
    return Server(
        "harmony",
        version=__version__,
        instructions="\n\n".join(text for text in about if text) or None,
        on_list_tools=list_tools,
        on_call_tool=_caller(offered, Conversations(tools, MOST_SESSIONS)),
    )


def make_http_app(server: Server[Any], host: str) -> Starlette:
    """Return the application that answers at ``/mcp`` by streamable HTTP.

    A `host` of this machine refuses requests whose Host or Origin is another, as a page in a
    browser may send them. The newest version of the protocol has no sessions over HTTP, but a
    browser and a notebook do: the server says that it speaks the older ones.
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


def _caller(offered: dict[str, _Offered], conversations: Conversations) -> _Handler:
    async def call_tool(
        context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        wanted = offered.get(params.name)
        if wanted is None:
            raise MCPError(
                INVALID_PARAMS,
                f"there is no tool {params.name!r:.100}; there are {', '.join(offered)}",
            )
        conversation = conversations.get(_session_id(context))
        name = wanted.tool.namespace.name
        call = Message.from_role_and_content(
            Role.ASSISTANT, json.dumps(params.arguments or {})
        ).with_recipient(wanted.recipient)
        async with conversation.lock:
            said = wanted.tool.call(call, conversation.sessions[name])
            return _result([message async for message in said])

    return call_tool


def _offered(tool: Tool[Any]) -> list[_Offered]:
    namespace = tool.namespace
    if not namespace.tools:  # a tool that takes code
        listed = ListedTool(
            name=namespace.name, description=namespace.description, input_schema=_CODE
        )
        return [_Offered(tool, namespace.name, listed)]
    return [
        _Offered(tool, f"{namespace.name}.{function.name}", _listed(function))
        for function in namespace.tools
    ]


def _listed(function: ToolDescription) -> ListedTool:
    schema = function.parameters or {"type": "object"}
    return ListedTool(name=function.name, description=function.description, input_schema=schema)


def _session_id(context: ServerRequestContext[Any]) -> str:
    """Return the client's session; with standard input and output, there is one."""
    if context.request is None:
        return ""
    found = context.request.headers.get("mcp-session-id")
    if found is None:
        supported = list(HANDSHAKE_PROTOCOL_VERSIONS)
        raise MCPError(
            UNSUPPORTED_PROTOCOL_VERSION,
            f"these tools need a session; use version {supported[-1]} of the protocol",
            {"supported": supported, "requested": context.protocol_version},
        )
    return str(found)


def _result(said: list[ToolMessage]) -> CallToolResult:
    content: list[ContentBlock] = [TextContent(text="\n".join(map(call_text, said)))]
    for message in said:
        content += map(_attached, message.attachments)
    return CallToolResult(content=content, is_error=any(message.is_error for message in said))


def _attached(file: Attachment) -> ContentBlock:
    data = base64.b64encode(file.data).decode("ascii")
    if file.mime_type.startswith("image/"):
        return ImageContent(data=data, mime_type=file.mime_type)
    uri = f"file:///mnt/data/{quote(file.name)}"
    return EmbeddedResource(
        resource=BlobResourceContents(uri=uri, blob=data, mime_type=file.mime_type)
    )
