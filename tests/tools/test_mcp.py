"""The tools of an MCP server as a namespace: names, listings, results, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.server import Server, ServerRequestContext
from mcp.shared.message import SessionMessage
from mcp.types import (
    CallToolResult,
    ContentBlock,
    JSONRPCRequest,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp.types import Tool as ListedTool

import support.hostile_mcp_server as hostile
import support.raw_mcp_server as raw
from gpt_oss_harmony import Message, Role, SystemContent, load_harmony_encoding
from gpt_oss_harmony.tokens.python_encoder import without_surrogates
from gpt_oss_harmony.tools.mcp import McpAddress, McpServerError, McpSettings, McpTool, transports
from gpt_oss_harmony.tools.mcp.mcp_tool import (
    ListingError,
    McpResult,
    McpSession,
    harmony_name,
    list_tools,
    make_listing,
)
from gpt_oss_harmony.tools.mcp.transports import MAX_DEPTH, ReplyError, bounded, id_in
from support.mcp_calls import answer
from support.served import PATIENCE

HOSTILE = McpAddress(command=(sys.executable, str(Path(hostile.__file__))))


# Names and addresses

NAMES = [
    ("now", (), "now"),
    ("get_time", (), "get_time"),
    ("__init__", (), "__init__"),
    ("get-time", (), "get_time"),
    ("get.time", ("get_time",), "get_time_2"),
    ("get time", ("get_time", "get_time_2"), "get_time_3"),
    ("a.b/c", (), "a_b_c"),
    ("3D", (), "_3D"),
    ("été", (), "t"),
    ("🙂", (), "tool"),
    ("", (), "tool"),
    ("<|call|>", (), "call"),
    ("x" * 64, (), "x" * 64),
    ("x" * 64, ("x" * 64,), "x" * 62 + "_2"),
    ("x" * 65, (), "x" * 55 + "_9537c5fd"),
]


@pytest.mark.parametrize(("name", "taken", "expected"), NAMES)
def test_names(name: str, taken: tuple[str, ...], expected: str) -> None:
    assert harmony_name(name, taken) == expected


@given(st.lists(st.text(max_size=80), max_size=8))
def test_every_name_is_one_and_no_other(names: list[str]) -> None:
    given_names: list[str] = []
    for name in names:
        given_names.append(harmony_name(name, given_names))
    assert len(set(given_names)) == len(names)
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,63}", name) for name in given_names)


ADDRESSES = [
    ("uvx time", McpAddress(command=("uvx", "time")), "uvx"),
    ("/opt/my\\ server.py -x", McpAddress(command=("/opt/my server.py", "-x")), "my server"),
    ("t=uvx 'a b'", McpAddress(command=("uvx", "a b"), name="t"), "uvx"),
    ("http://[::1]:80/mcp?a=b", McpAddress(url="http://[::1]:80/mcp?a=b"), "::1"),
    ("docs=https://x.example", McpAddress(url="https://x.example", name="docs"), "x.example"),
]


@pytest.mark.parametrize(("text", "address", "short"), ADDRESSES)
def test_addresses(text: str, address: McpAddress, short: str) -> None:
    assert McpAddress.parse(text) == address
    assert address.short_name == short


@pytest.mark.parametrize("text", ["", "  ", "'", "http://", "x=https://:80"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"split|URL"):
        McpAddress.parse(text)


# Listings


def test_a_listing() -> None:
    tools = [*hostile.TOOLS, ListedTool(name="bad", input_schema=hostile.BAD, title="Bad")]
    listing = make_listing("h", "Be careful.", tools)
    assert listing.functions["get_time_2"].name == "get.time"
    assert [tool.name for tool in listing.namespace.tools][:5] == [
        "echo", "get_time", "get_time_2", "_3D_plot",
        "long_long_long_long_long_long_long_long_long_long_long__174aba72",
    ]  # fmt: skip
    echo, *_, bad = listing.namespace.tools
    assert (echo.description, echo.parameters) == ("Does echo.", hostile.WORDS)
    assert (bad.description, bad.parameters) == ("Bad", {"type": "object"})
    assert listing.notes[:2] == (
        "'get-time' is called h.get_time",
        "'get.time' is called h.get_time_2",
    )
    assert listing.notes[-3:-1] == (
        "'echo' is listed twice; the second is left out",
        "'<|call|>' is called h.call",
    )
    assert listing.notes[-1].startswith("the schema of 'bad' is left out: JSON is nested deeper")


def test_long_descriptions_are_kept() -> None:
    about = "word " * 5000
    tool = ListedTool(name="a", description=about, input_schema={"type": "object"})
    assert make_listing("h", about, [tool]).namespace.tools[0].description == about


def test_a_listing_of_nothing() -> None:
    with pytest.raises(ListingError, match="the server lists no tools"):
        make_listing("h", None, [])


@pytest.mark.parametrize("cursors", [["again", "again"], [str(n) for n in range(200)]])
def test_a_list_without_end(cursors: Sequence[str]) -> None:
    pages = iter(cursors)

    async def endless(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=hostile.TOOLS[:1], next_cursor=next(pages))

    async def flow() -> None:
        async with Client(Server("endless", on_list_tools=endless)) as client:
            with pytest.raises(ListingError, match="does not end after"):
                await list_tools(client)

    asyncio.run(flow())


# Results

TEXT = TextContent(text="five")
RESULTS: list[tuple[list[ContentBlock], Any, bool, str]] = [
    ([TEXT], None, False, "five"),
    ([TEXT, TextContent(text="six\r\n")], None, False, "five\nsix\n"),
    ([TEXT], {"result": 5}, False, "five"),
    ([], {"é": [1, None]}, False, '{"é": [1, null]}'),
    ([], None, False, "[no output]"),
    ([TEXT], None, True, "Error: five"),
    ([], None, True, "Error: the tool does not say what is wrong"),
    ([TextContent(text="\x1b[31mred\x1b[0m")], None, False, "red"),
    (
        hostile.MIXED,
        None,
        False,
        "Look:<|end|>\n"
        "[image: not shown, this model reads text only; the user has it as t-1.png]\n"
        "[audio: cannot be read]\n"
        "[resource more, file:///more: more of it]\n"
        "[resource file:///a.txt]\ninside\n"
        "[resource file:///b: not shown, this model reads text only; the user has it as t-2.bin]",
    ),
]


@pytest.mark.parametrize(("content", "structured", "is_error", "text"), RESULTS)
def test_results(content: list[ContentBlock], structured: Any, is_error: bool, text: str) -> None:
    result = CallToolResult(content=content, structured_content=structured, is_error=is_error)
    assert McpResult("t", McpSession(), 1000).text(result, 1000) == text


def test_what_is_too_large_is_left_out() -> None:
    session = McpSession(attachments=4)
    read = McpResult("t", session, 10)
    text = read.text(CallToolResult(content=hostile.MIXED), 1000)
    assert [(each.name, each.data) for each in read.attachments] == [("t-5.png", b"\x89PNG...")]
    assert session == McpSession(attachments=5)
    assert "[resource file:///b: 7 bytes are too many, and left out]" in text
    long = CallToolResult(content=[TextContent(text="x" * 5000)])
    for is_error in (False, True):
        long.is_error = is_error
        text = McpResult("t", session, 10).text(long, 1000)
        assert 900 < text.count("x") < len(text) <= 1000


def test_a_session_is_read_back() -> None:
    with pytest.raises(ValueError, match="extra"):
        McpSession.from_json('{"pages": []}')


# A server as a process


def test_a_server_that_behaves_and_one_that_does_not() -> None:
    async def flow() -> None:
        tool = await McpTool.connect(HOSTILE, taken=["Hostile_co"])
        try:
            assert tool.namespace.name == "Hostile_co_2"
            assert tool.namespace.description == "Be careful."
            said = await answer(tool, "echo", '{"text": "hi"}', prefix="functions.")
            _, process, word = said.text.split(" ")
            assert word == "hi[]"
            mixed = await answer(tool, "mixed")
            assert [each.name for each in mixed.attachments] == ["mixed-1.png", "mixed-2.bin"]
            assert "attachments" not in mixed.model_dump()
            assert (await answer(tool, "structured")).text == '{"sum": 3}'
            failed = await answer(tool, "fail")
            assert failed.text == "Error: it is broken"
            assert [said.is_error, mixed.is_error, failed.is_error] == [False, False, True]
            huge = (await answer(tool, "huge")).text
            assert re.search(r"\[2,980,\d{3} characters are left out here\]", huge)
            assert 19_900 < len(huge) <= 20_000
            # It dies: the model is told, and the next call finds another process.
            assert "the server ended during the call" in (await answer(tool, "die")).text
            _, other, *_ = (await answer(tool, "echo")).text.split(" ")
            assert int(other) != int(process)
        finally:
            await tool.close()

    asyncio.run(flow())


def test_late_answers_cancelled_calls_and_bad_ones() -> None:
    async def flow() -> None:
        settings = McpSettings(call_seconds=0.5)
        tool = await McpTool.connect(HOSTILE, settings=settings)
        try:
            late = await answer(tool, "slow")
            object.__setattr__(settings, "call_seconds", PATIENCE)  # the others are honest
            assert late.text == "Error: the tool did not answer in 0.5 seconds"
            assert late.is_error
            given_up = asyncio.ensure_future(answer(tool, "slow"))
            await asyncio.wait({given_up}, timeout=0.1)
            given_up.cancel()
            await asyncio.wait({given_up})
            assert given_up.cancelled()
            told = (await answer(tool, "echo")).text  # the server was told of both
            assert told.endswith("['slow', 'slow']")
            for name, text, problem in [
                ("nothing", "{}", "there is no function `Hostile_co.nothing`; there are `Hos"),
                ("get-time", "{}", "there is no function `Hostile_co.get-time`"),
                ("echo", "[1]", "the arguments must be a JSON object, such as"),
                ("echo", '{"a"', "the arguments must be a JSON object: "),
                ("echo", '{"a": ' + "[" * 100_000, "the arguments "),
            ]:
                said = await answer(tool, name, text)
                assert said.text.startswith(f"Error: {problem}")
                assert said.is_error
            assert (await answer(tool, "echo", " ")).text.startswith("echo ")
        finally:
            await tool.close()
        system = tool.declare(SystemContent())
        message = Message.from_role_and_content(Role.SYSTEM, system)
        encoding = load_harmony_encoding("HarmonyGptOss")
        prompt = encoding.decode(encoding.render(message))
        assert "## Hostile_co\n\n// Be careful.\nnamespace Hostile_co {" in prompt

    asyncio.run(flow())


def test_a_call_that_connects_anew_outlives_the_end_of_the_lost_connection() -> None:
    async def flow() -> None:
        tool = await McpTool.connect(HOSTILE)
        connection = tool._connection
        ending = asyncio.ensure_future(answer(tool, "die"))
        while connection._session is not None:
            await asyncio.sleep(0)
        assert not ending.done()  # it still closes what is lost
        assert (await answer(tool, "echo")).text.startswith("echo ")
        assert (await ending).is_error
        assert (await answer(tool, "echo")).text.startswith("echo ")
        await tool.close()

    asyncio.run(flow())


@pytest.mark.parametrize(
    ("code", "seconds", "problem"),
    [
        ("import sys; sys.stdin.read()", 0.5, "it did not answer in 0.5 seconds"),
        ("import sys; sys.exit('no key was given')", 30, "it said: no key was given"),
    ],
)
def test_servers_that_do_not_start(code: str, seconds: float, problem: str) -> None:
    address = McpAddress(command=(sys.executable, "-c", code))
    with pytest.raises(McpServerError, match=problem):
        asyncio.run(McpTool.connect(address, settings=McpSettings(connect_seconds=seconds)))


def test_a_url_where_nothing_is() -> None:
    with pytest.raises(McpServerError, match=r"MCP server http://127\.0\.0\.1:9/mcp: "):
        asyncio.run(McpTool.connect(McpAddress(url="http://127.0.0.1:9/mcp")))


# Replies that would stall everyone

UNUSED = {
    "parts": "it has more than 20,000 values",
    "numbers": "it has more than 20,000 values",
    "images": "it is larger than 16 MiB",
    "text": "it is larger than 16 MiB",
    "deep": "it is nested more than 180 levels deep",
}
WAYS = ("a command", "application/json", "text/event-stream")


@pytest.mark.parametrize("way", WAYS)
def test_replies_out_of_bounds_are_an_error_for_the_model_and_a_line_of_the_log(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def flow(address: McpAddress) -> None:
        tool = await McpTool.connect(address, settings=McpSettings(call_seconds=60))
        try:
            for name, problem in UNUSED.items():
                caplog.clear()
                said = await answer(tool, name)
                text = said.text
                assert text == f"Error: the server's answer cannot be used: {problem}"
                assert said.is_error
                logged = [record.getMessage() for record in caplog.records]
                assert logged == [f"a message of an MCP server is not used: {problem}"]
            half = (await answer(tool, "half")).text
            assert half == "a\ufffd b \\ud83d \U0001f600"
            assert (await answer(tool, "pair")).text == "fine"
        finally:
            await tool.close()

    caplog.set_level("WARNING")
    with ExitStack() as stack:
        if way == "a command":
            address = McpAddress(command=(sys.executable, str(Path(raw.__file__))))
        else:
            address = McpAddress(url=stack.enter_context(raw.serve_http(way)))
        asyncio.run(flow(address))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(json_values, st.booleans())
def test_what_is_within_bounds_stays_as_it_is(value: Any, ascii_only: bool) -> None:
    text = json.dumps({"value": value}, ensure_ascii=ascii_only)
    assert bounded(text.encode()) == text.encode()


@given(st.text(st.characters(codec=None, categories=["Cs", "Ll", "Po", "So"])))
def test_half_a_pair_is_replaced_and_pairs_stay(text: str) -> None:
    read = json.loads(bounded(json.dumps([text]).encode()))
    assert read == [without_surrogates(text)]


@given(st.integers(1, 300), st.sampled_from(["[", '{"[":', '{"a\\"":']), st.text('[{\\"'))
def test_depth_counts_brackets_outside_of_texts(depth: int, bracket: str, text: str) -> None:
    closing = "]" if bracket == "[" else "}"
    message = (bracket * depth + json.dumps(text) + closing * depth).encode()
    try:
        assert json.loads(bounded(message))
        assert depth <= MAX_DEPTH
    except ReplyError:
        assert depth > MAX_DEPTH


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ('{"jsonrpc":"2.0","id":0,"result":{}}', []),
        ('{"jsonrpc":"2.0","method":"notifications/progress","params":{}}', [0, 1]),
        ('{"jsonrpc":"2.0","id":0,"method":"ping"}', [0, 1]),
        ('{"level":30,"id":0,"msg":"a log"}', [0, 1]),
        ('{"jsonrpc":"2.0","id":0,"result":7}', [1]),
    ],
)
def test_each_request_of_ours_waits_for_its_own_reply(line: str, failed: list[int]) -> None:
    """What is too large next fails those that wait; a message that is no reply ends no waiting."""

    async def read() -> list[list[Any]]:
        requests = transports._Requests()
        for number in (0, 1):
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/call")
            requests.sent(SessionMessage(request))
        found = []
        for text in (line, '{"x": ' + "[" * 1000):
            written = transports._Line()
            written.add(text.encode())
            found.append([message.message for message in await requests.received(written)])
        return found

    first, last = asyncio.run(read())
    if '"result":7' in line:
        assert [(error.id, error.error.message) for error in first] == [(0, "it is no message")]
    assert sorted(error.id for error in last) == (failed or [1])


def test_an_id_is_found_at_either_end() -> None:
    message = b'{"id":"a b","result":{"content":[{"type":"text","text":"' + b"x" * 9000 + b'"}]}}'
    assert id_in(message[:500], message[-500:]) == "a b"
    other = b'{"result":{"content":' + b"y" * 9000 + b'},"jsonrpc":"2.0", "id" : 12}'
    assert id_in(other[:500], other[-500:]) == 12
    assert id_in(b"", b"") is None


ALONE = {
    "odd": "validation errors for CallToolResult",
    "short": "it broke off; what the call did is unknown",
    "packed": "it is compressed, although it must not be",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_that_cannot_be_used_is_an_error_of_its_call_alone(way: str) -> None:
    async def flow(address: McpAddress) -> None:
        tool = await McpTool.connect(address)
        try:
            before = (await answer(tool, "late")).text
            for name in ALONE if address.url else ("odd",):
                failed, *others = await asyncio.gather(
                    *(answer(tool, each) for each in (name, "late", "late"))
                )
                assert failed.is_error
                assert failed.text.startswith("Error: the server's answer cannot be used: ")
                assert ALONE[name] in failed.text
                assert [other.text for other in others] == [before] * 2
            assert (await answer(tool, "late")).text == before  # by the same process
        finally:
            await tool.close()

    with ExitStack() as serving:
        command = (sys.executable, str(Path(raw.__file__)))
        address = McpAddress(command=command)
        if way != "a command":
            address = McpAddress(url=serving.enter_context(raw.serve_http(way)))
        asyncio.run(flow(address))


def test_the_tool_of_the_guide(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/mcp.md").read_text("utf-8")
    program = tmp_path / "shop.py"
    program.write_text(guide.partition("```py\n# shop.py\n")[2].partition("```")[0], "utf-8")

    async def ask() -> list[str]:
        tool = await McpTool.connect(McpAddress(command=(sys.executable, str(program))))
        try:
            asked = [json.dumps({"article": name}) for name in ("bolt", "wing")]
            return [(await answer(tool, "stock", each)).text for each in asked]
        finally:
            await tool.close()

    assert asyncio.run(ask()) == ["40 pieces", "there is no article wing"]
