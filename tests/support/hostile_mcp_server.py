"""An MCP server over standard input and output that behaves well, badly, or not at all."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from typing import Any

from mcp import stdio_server
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

WORDS: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
BAD: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "object"}}}
for _ in range(70):  # deeper than a prompt can show
    BAD = {"type": "object", "properties": {"a": BAD}}
LONG = "long-" * 30
NAMES = (
    "echo", "get-time", "get.time", "3D plot!", LONG, "echo", "slow", "die", "huge", "mixed",
    "structured", "fail", "<|call|>",
)  # fmt: skip
TOOLS = [Tool(name=name, description=f"Does {name}.", input_schema=WORDS) for name in NAMES]
TOOLS[1] = TOOLS[1].model_copy(update={"annotations": ToolAnnotations(read_only_hint=True)})
PIXEL = base64.b64encode(b"\x89PNG...").decode()
cancelled: list[str] = []  # calls that the client gave up
MIXED: list[ContentBlock] = [
    TextContent(text="Look:<|end|>"),
    ImageContent(data=PIXEL, mime_type="image/png"),
    AudioContent(data="?!", mime_type="audio/wav"),
    ResourceLink(name="more", uri="file:///more", description="more of it"),
    EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="inside")),
    EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob=PIXEL)),
]


async def list_tools(
    context: ServerRequestContext[Any], params: PaginatedRequestParams | None
) -> ListToolsResult:
    if params is None or params.cursor is None:
        return ListToolsResult(tools=TOOLS[:3], next_cursor="rest")
    bad = Tool(name="bad", description="Has no schema to show.", input_schema=BAD)
    return ListToolsResult(tools=[*TOOLS[3:], bad])


async def call_tool(
    context: ServerRequestContext[Any], params: CallToolRequestParams
) -> CallToolResult:
    given = params.arguments or {}
    if params.name == "slow":
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(params.name)
            raise
    if params.name == "die":
        os._exit(3)
    answers: dict[str, list[ContentBlock]] = {
        "huge": [TextContent(text="x" * 3_000_000)],
        "mixed": MIXED,
        "structured": [],
        "fail": [TextContent(text="it is broken")],
    }
    text = f"{params.name} {os.getpid()} {given.get('text', '')}{cancelled}"
    return CallToolResult(
        content=answers.get(params.name, [TextContent(text=text)]),
        structured_content={"sum": 3} if params.name == "structured" else None,
        is_error=params.name == "fail",
    )


async def serve() -> None:
    if "silent" in sys.argv:
        await asyncio.Event().wait()
    if "leave" in sys.argv:
        sys.exit("no key was given")
    print("Welcome to a banner that is no JSON!", flush=True)
    server = Server(
        "Hostile & co.",
        version="1",
        instructions="Be careful.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(serve())
