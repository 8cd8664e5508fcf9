"""The built-in tools as an MCP server: over streams and HTTP, with the SDK's own client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import BlobResourceContents, EmbeddedResource, ImageContent, TextContent

from gpt_oss_harmony import Message, ToolNamespaceConfig
from gpt_oss_harmony.cli import main
from gpt_oss_harmony.installation import requirement
from gpt_oss_harmony.tools.browser import Browser, LocalIndex
from gpt_oss_harmony.tools.mcp import (
    KeyGate,
    McpAddress,
    McpTool,
    make_http_app,
    make_server,
)
from gpt_oss_harmony.tools.mcp.mcp_tool import McpSession
from gpt_oss_harmony.tools.mcp.tool_server import ClientSessions
from gpt_oss_harmony.tools.python.sandbox.limits import process_tree
from gpt_oss_harmony.tools.tool import Attachment, Tool, ToolMessage, tool_message
from support.mcp_calls import answer
from support.notebooks import needs_bubblewrap
from support.served import PATIENCE, PROGRAM_PATIENCE

FILES = (
    Attachment("image-1.png", b"PNG", "image/png"),
    Attachment("a b/table.csv", b"1,2", "text/csv"),
)
HARMONY = (sys.executable, "-m", "gpt_oss_harmony", "mcp")


class Notebook(Tool[McpSession]):
    """Stands in for the tool `python`; its session counts the calls."""

    @property
    def namespace(self) -> ToolNamespaceConfig:
        return ToolNamespaceConfig.python()

    def new_session(self) -> McpSession:
        return McpSession()

    def load_session(self, stored: str) -> McpSession:
        return McpSession.from_json(stored)

    async def call(self, message: Message, session: McpSession) -> AsyncIterator[ToolMessage]:
        before = session.attachments
        await asyncio.sleep(0)
        session.attachments = before + 1  # one call at a time, or one is lost
        refused = "fail" in message.text
        text = f"{session.attachments}: {message.text}"
        files = FILES if "plot" in text else ()
        yield tool_message(message, text, attachments=files, is_error=refused)

    async def close(self) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "birds"
    documents.mkdir()
    (documents / "kea.md").write_text("# Kea\n\nThe alpine parrot.\n")
    return documents


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


async def browse(client: Client) -> None:
    """Search, open, find, in the one session of the client; and do what cannot be done."""
    search = await client.call_tool("search", {"query": "parrot"})
    assert text_of(search).startswith("[0] parrot\n")
    opened = await client.call_tool("open", {"id": 0})
    assert text_of(opened).startswith("[1] Kea (doc://birds/kea.md)\n")
    found = await client.call_tool("find", {"pattern": "alpine"})
    assert text_of(found).startswith("[2] Find results for text: `alpine` in `Kea`")
    assert [search.is_error, opened.is_error, found.is_error] == [False] * 3
    problems: list[tuple[dict[str, Any], str]] = [
        ({"cursor": 9, "id": 0}, "Error: there is no page at cursor 9"),
        ({"colour": 1}, "Error: unknown argument `colour`"),
        ({"id": "file:///etc/passwd"}, "Error: cannot open `file:///etc/passwd`"),
    ]
    for arguments, problem in problems:
        failed = await client.call_tool("open", arguments)
        assert failed.is_error
        assert text_of(failed).startswith(problem)
    with pytest.raises(MCPError, match="there is no tool 'shell'; there are search, open, find"):
        await client.call_tool("shell", {})


# In this process


def test_tools_are_declared_as_in_the_prompt() -> None:
    async def flow() -> None:
        browser = ToolNamespaceConfig.browser()
        index = LocalIndex(Path(__file__).parents[1] / "data" / "chat")
        tools: list[Tool[Any]] = [Browser(index, [index]), Notebook()]
        async with Client(make_server(tools)) as client:
            assert client.instructions == browser.description
            listed = (await client.list_tools()).tools
            *functions, python = listed
            assert [(t.name, t.description, t.input_schema) for t in functions] == [
                (t.name, t.description, t.parameters) for t in browser.tools
            ]
            assert (python.name, python.description) == (
                "python",
                ToolNamespaceConfig.python().description,
            )
            assert python.input_schema["required"] == ["code"]
        await index.close()

    asyncio.run(flow())


def test_files_are_images_and_resources() -> None:
    async def flow() -> None:
        async with Client(make_server([Notebook()])) as client:
            text, image, file = (await client.call_tool("python", {"code": "plot"})).content
            assert text == TextContent(text='1: {"code": "plot"}')
            assert image == ImageContent(
                data=base64.b64encode(b"PNG").decode(), mime_type="image/png"
            )
            assert file == EmbeddedResource(
                resource=BlobResourceContents(
                    uri="file:///mnt/data/a%20b/table.csv",
                    blob=base64.b64encode(b"1,2").decode(),
                    mime_type="text/csv",
                )
            )
            failed = await client.call_tool("python", {"code": "fail"})
            assert failed.is_error
            assert text_of(failed) == '2: {"code": "fail"}'

    asyncio.run(flow())


def test_calls_of_a_session_wait_for_each_other() -> None:
    async def flow() -> None:
        async with Client(make_server([Notebook()])) as client:
            calls = [client.call_tool("python", {}) for _ in range(5)]
            texts = [text_of(result) for result in await asyncio.gather(*calls)]
            assert sorted(text[0] for text in texts) == list("12345")

    asyncio.run(flow())


def test_conversations_that_are_unused_longest_are_forgotten() -> None:
    known = ClientSessions([Notebook()], 2)
    first, second = known.get("a"), known.get("b")
    assert known.get("a") is first
    known.get("c")
    assert known.get("a") is first
    assert known.get("b") is not second


# Over HTTP


@asynccontextmanager
async def served(*tools: Tool[Any], port: int = 0, keys: tuple[str, ...] = ()) -> Any:
    """Answer on a socket of this process; yield the URL."""
    app: Any = make_http_app(make_server(tools), "127.0.0.1")
    config = uvicorn.Config(
        KeyGate(app, keys) if keys else app, log_level="critical", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port)) as listener:
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def connected(url: str, key: str = "", mode: str = "auto") -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def test_each_session_has_tools_of_its_own(folder: Path) -> None:
    async def flow() -> None:
        index = LocalIndex(folder)
        index.update()
        browser = Browser(index, [index])
        async with (
            served(browser, Notebook(), keys=("a secret", "two")) as url,
            connected(url, "two") as one,
            connected(url, "a secret") as other,
        ):
            assert one.protocol_version == "2025-11-25"  # the newest that has sessions
            await browse(one)
            await browse(other)
            assert text_of(await one.call_tool("python", {})).startswith("1: ")
            assert text_of(await one.call_tool("python", {})).startswith("2: ")
            assert text_of(await other.call_tool("python", {})).startswith("1: ")
        await browser.close()

    asyncio.run(flow())


def test_who_is_refused() -> None:
    async def flow() -> None:
        async with served(Notebook(), keys=("key",)) as url, httpx2.AsyncClient() as http:
            for headers, status in [
                ({}, 401),
                ({"Authorization": "Bearer kex"}, 401),
                ({"Authorization": "Bearer key", "Host": "evil.example"}, 421),
                ({"Authorization": "Bearer key", "Origin": "http://evil.example"}, 403),
            ]:
                body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                answered = await http.post(url, json=body, headers=headers)
                assert answered.status_code == status, headers
            async with connected(url, "key", mode="2026-07-28") as client:
                with pytest.raises(MCPError, match="need a session; use version 2025-11-25 of"):
                    await client.call_tool("python", {})

    asyncio.run(flow())


@pytest.mark.slow
def test_a_namespace_of_a_url_outlives_the_server() -> None:
    async def flow() -> None:
        async with served(Notebook()) as url:
            tool = await McpTool.connect(McpAddress.parse(f"notebook={url}"))
            assert (await answer(tool, "python", '{"code":"1"}')).text == '1: {"code": "1"}'
        gone = (await answer(tool, "python")).text
        assert gone.startswith("Error: the server ended during the call; what the call did is")
        assert "cannot use the MCP server http" in (await answer(tool, "python")).text
        port = int(url.split(":")[2].partition("/")[0])
        async with served(Notebook(), port=port):
            assert (await answer(tool, "python")).text == "1: {}"
        async with served(Notebook(), port=port):  # which does not know the session
            lost = (await answer(tool, "python")).text
            assert "session" in lost
            assert (await answer(tool, "python")).text == "1: {}"
            await tool.close()

    asyncio.run(flow())


# As a process


@needs_bubblewrap
def test_a_client_over_streams(folder: Path) -> None:
    async def flow() -> None:
        before = process_tree(os.getpid())
        program, *rest = HARMONY
        server = StdioServerParameters(
            command=program, args=[*rest, "--browser", str(folder), "--python"]
        )
        with Path(os.devnull).open("w") as nowhere:
            async with Client(stdio_client(server, errlog=nowhere)) as client:
                await browse(client)
                assert text_of(await client.call_tool("python", {"code": "n = 6"})) == "[no output]"
                assert text_of(await client.call_tool("python", {"code": "n * 7"})) == "42"
                started = [each for each in process_tree(os.getpid()) if each not in before]
                assert len(started) > 2
        # The client kills a server that takes longer than two seconds to end: what that one has
        # started ends after it.
        for each in started:
            while _runs(each):
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(flow(), PROGRAM_PATIENCE))


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_no_page_of_another_site_is_answered_without_keys(folder: Path, host: str) -> None:
    """127.0.0.2 is of this machine, too."""
    options = ["--browser", str(folder), "--port", "0", "--host", host]
    with subprocess.Popen([*HARMONY, *options], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            line = server.stderr.readline()
            assert line.startswith(f"serving tools at http://{host}:")
            url = line.split()[-1]
            with httpx2.Client(timeout=PATIENCE) as http:
                for headers in (
                    {},
                    {"Host": "evil.example"},
                    {"Origin": "http://evil.example"},
                    {"Origin": "null"},
                ):
                    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                    answered = http.post(url, json=body, headers=headers).text
                    assert ("no API keys" in answered) == bool(headers)
        finally:
            server.kill()


@pytest.mark.parametrize("over_http", [False, True])
def test_sigterm_ends_it(folder: Path, over_http: bool) -> None:
    options = ["--browser", str(folder), *(["--port", "0"] if over_http else [])]
    with subprocess.Popen(
        [*HARMONY, *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            if over_http:
                assert server.stderr.readline().startswith("serving tools at http://127.0.0.1:")
            else:
                server.stdin.write('{"jsonrpc": "2.0", "id": 7, "method": "ping"}\n')
                server.stdin.flush()
                assert '"id":7' in server.stdout.readline()
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0
            assert server.stderr.read() == ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                server.kill()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "name a tool to serve: --browser BACKEND, --python, or both"),
        (["--python", "--api-key", "k"], "--api-key is for HTTP; add --port"),
        (
            ["--python", "--port", "0", "--host", "0.0.0.0"],
            "everyone who reaches 0.0.0.0 could use the tools; add --api-key-file",
        ),
        (["--browser", "/no/folder"], "--browser: there is no folder '/no/folder'"),
    ],
)
def test_what_cannot_be_served(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", *options]) == 2
    assert capsys.readouterr().err.startswith(f"harmony: error: {problem}")


def test_an_occupied_port_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with socket.create_server(("127.0.0.1", 0)) as occupied:
            port = str(occupied.getsockname()[1])
            assert main(["mcp", "--browser", str(folder), "--port", port]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "choose another --port" in capsys.readouterr().err


def test_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "gpt_oss_harmony.tools.mcp", None)
    assert main(["mcp", "--python"]) == 1
    assert f"pip install {requirement('tools')}" in capsys.readouterr().err
