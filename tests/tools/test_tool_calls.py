"""Whatever a model writes becomes a message of the tool, never an exception."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import HarmonyEncodingName, Message, Role, TextContent, load_harmony_encoding
from gpt_oss_harmony.tools.browser import AddressRules, Browser, LocalIndex, WebPages
from gpt_oss_harmony.tools.mcp import McpAddress, McpTool
from gpt_oss_harmony.tools.python.python_tool import PythonTool
from gpt_oss_harmony.tools.tool import Tool, ToolError, ToolMessage
from gpt_oss_harmony.tools.tool_call import read_arguments
from support import hostile_mcp_server
from support.examples import examples
from support.notebooks import SETTINGS, needs_bubblewrap

HOSTILE = McpAddress(command=(sys.executable, str(Path(hostile_mcp_server.__file__))))

# Texts as a model may write them in JSON: lone surrogates, null characters, marks, addresses.
ODD_TEXTS = st.one_of(
    st.text(st.characters(), max_size=40),
    st.text("\ud800\udfff\x00\x1f【】†L0123<|>/:.@%[]\\ \n\u202e", max_size=40),
    st.sampled_from(
        [
            "\ud800",
            "a\udc00b",
            "\x00",
            "doc://guide/animals.md",
            "doc://guide/\ud800",
            "doc://[",
            "doc://guide/%ff%00",
            "view-source:doc://guide/animals.md",
            "view-source:view-source:",
            "https://example.com/\ud800",
            "https://[::1",
            "http://\ud800.example/",
            "http://xn--\ud800/",
            "http://a.example:99999999999/",
            "http://℀.example/",
            "http://" + "a." * 2000,
            "https://user:\ud800@example.com/",
            "x" * 100_000,
            '"' * 500,
        ]
    ),
)
ODD_NUMBERS = st.one_of(
    st.integers(),
    st.integers(-3, 30),
    st.floats(),
    st.sampled_from([10**400, -(10**400), 2**53, -(2**53), 2**53 - 1, 1e308, 1e-308]),
)
ODD_VALUES = st.recursive(
    st.none() | st.booleans() | ODD_NUMBERS | ODD_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_TEXTS, inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["query", "topn", "top_n", "source", "id", "cursor", "loc", "num_lines", "view_source",
     "pattern", "name", "arguments", "text", "code"]
)  # fmt: skip
ARGUMENTS = st.dictionaries(NAMES | ODD_TEXTS, ODD_VALUES, max_size=4)
WRITTEN = st.one_of(
    ARGUMENTS.map(json.dumps),
    ARGUMENTS.map(lambda arguments: json.dumps(arguments, ensure_ascii=False)),
    ODD_VALUES.map(json.dumps),
    ODD_TEXTS,
    st.sampled_from(["", "{", "[" * 100_000, '{"a":' * 100_000, '{"query": 1' + "0" * 5000 + "}"]),
)
# Few calls are well-formed by chance; these are but for one argument.
CALLS = st.one_of(
    st.tuples(st.sampled_from(["browser.search", "browser.open", "browser.find"]), WRITTEN),
    st.tuples(st.just("browser.search"), st.builds(lambda q: json.dumps({"query": q}), ODD_TEXTS)),
    st.tuples(st.just("browser.open"), st.builds(lambda i: json.dumps({"id": i}), ODD_VALUES)),
    st.tuples(
        st.just("browser.find"),
        st.builds(lambda p, c: json.dumps({"pattern": p, "cursor": c}), ODD_TEXTS, ODD_NUMBERS),
    ),
    st.tuples(
        st.just("browser.open"),
        st.builds(
            lambda i, c, first, lines: json.dumps(
                {"id": i, "cursor": c, "loc": first, "num_lines": lines}
            ),
            *[ODD_NUMBERS] * 4,
        ),
    ),
    st.tuples(
        st.just("browser"),
        st.builds(lambda n, a: json.dumps({"name": n, "arguments": a}), ODD_VALUES, ODD_VALUES),
    ),
)


class Calls:
    """A tool that is called again and again in one conversation."""

    def __init__(self, tool: Tool[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._tool = tool
        self._loop = loop
        self._session = tool.new_session()
        self._encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)

    def answer(self, recipient: str, text: str) -> ToolMessage:
        """Call the tool; check that the answer can be rendered, and the session stored."""
        message = Message.from_role_and_content(Role.ASSISTANT, "")
        content = message.content[0]
        assert isinstance(content, TextContent)
        content.text = text  # without validation, as the server's parser makes it
        message = message.with_recipient(recipient).with_channel("commentary")

        async def answers() -> list[ToolMessage]:
            return [answer async for answer in self._tool.call(message, self._session)]

        (answer,) = self._loop.run_until_complete(answers())
        self._encoding.render(answer)
        self._session = self._tool.load_session(self._session.to_json())
        return answer


async def nowhere(host: str, port: int) -> Sequence[str]:
    """Resolve no host: what a model makes up must not leave this machine."""
    raise OSError("no name servers in tests")


@pytest.fixture(scope="module")
def browser(
    loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Calls]:
    folder: Path = tmp_path_factory.mktemp("guide")
    (folder / "animals.md").write_text("# Animals\n\nArmadillos live in [America](places.md).\n")
    (folder / "places.md").write_text("# Places\n\n" + "A line of many.\n\n" * 100)
    index = LocalIndex(folder, name="guide")
    index.update()
    web = WebPages(rules=AddressRules(), resolve=nowhere)
    tool = Browser(index, [index, web])
    yield Calls(tool, loop)
    loop.run_until_complete(tool.close())


@settings(max_examples=examples(400))
@given(CALLS)
@example(("browser.search", '{"query": "\\ud800"}'))
@example(("browser.search", '{"query": "a\\u0000b", "source": "\\ud800"}'))
@example(("browser.open", '{"id": "doc://guide/\\ud800"}'))
@example(("browser.open", '{"id": "https://example.com/\\ud800"}'))
@example(("browser.find", '{"pattern": "\\ud800"}'))
def test_every_call_of_the_browser_gets_a_message(browser: Calls, call: tuple[str, str]) -> None:
    browser.answer(*call)


def test_most_odd_calls_reach_the_functions(browser: Calls) -> None:
    """Else the test above would try the reading of arguments alone."""
    assert not browser.answer("browser.search", '{"query": "\\ud800 armadillos"}').is_error
    assert not browser.answer("browser.find", '{"pattern": "armadillos\\ud800"}').is_error
    assert "\ufffd" in str(browser.answer("browser.open", '{"id": "doc://guide/\\ud800"}').content)


@pytest.fixture(scope="module")
def python(loop: asyncio.AbstractEventLoop) -> Iterator[Calls]:
    tool = PythonTool(SETTINGS)
    yield Calls(tool, loop)
    loop.run_until_complete(tool.close())


@needs_bubblewrap
@settings(max_examples=examples(60))
@given(st.sampled_from(["python", "python.run", "functions.python"]), WRITTEN)
@example("python", "print('\ud800')")
@example("python", '{"code": "print(\'\\ud800\\u0000\')"}')
@example("python", "'''" + "\x00" * 1000)
@example("python", "1" * 10_000)
def test_every_call_of_python_gets_a_message(python: Calls, recipient: str, text: str) -> None:
    python.answer(recipient, text)


@pytest.fixture(scope="module")
def mcp(loop: asyncio.AbstractEventLoop) -> Iterator[Calls]:
    tool = loop.run_until_complete(McpTool.connect(HOSTILE))
    yield Calls(tool, loop)
    loop.run_until_complete(tool.close())


@settings(max_examples=examples(150))
@given(
    st.sampled_from(["Hostile_co.echo", "Hostile_co.nothing", "Hostile_co", "functions.echo"]),
    st.one_of(WRITTEN, st.builds(lambda v: json.dumps({"text": v}), ODD_VALUES)),
)
@example("Hostile_co.echo", '{"text": "\\ud800"}')
@example("Hostile_co.echo", '{"\\ud800": "\\u0000"}')
@example("Hostile_co.echo", '{"text": NaN}')
@example("Hostile_co.echo", '{"text": -Infinity}')
@example("Hostile_co.echo", '{"text": 1' + "0" * 400 + "}")
def test_every_call_of_a_server_gets_a_message(mcp: Calls, recipient: str, text: str) -> None:
    mcp.answer(recipient, text)


@given(ARGUMENTS)
def test_arguments_that_are_read_can_be_encoded(arguments: dict[str, Any]) -> None:
    text = json.dumps(arguments)
    try:
        json.dumps(arguments, allow_nan=False)
    except ValueError:
        with pytest.raises(ToolError, match=r"is not JSON|is too large"):
            read_arguments(text)
        return
    json.dumps(read_arguments(text), ensure_ascii=False, allow_nan=False).encode()  # as UTF-8
