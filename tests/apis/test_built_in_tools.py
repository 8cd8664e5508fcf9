"""One table of built-in tools: a tool that is added to it is known wherever it matters."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpt_oss_harmony
from gpt_oss_harmony import Message, Role, ToolDescription, ToolNamespaceConfig
from gpt_oss_harmony.apis import ItemKind, ItemRules, ResponsesRequest, turn_of_response
from gpt_oss_harmony.apis.requested_tools import RequestedTools, read_tools
from gpt_oss_harmony.apis.responses.output_items import server_call_item
from gpt_oss_harmony.conversation.built_in_tools import (
    BUILT_IN_TOOLS,
    BuiltInTool,
    CallItem,
    built_in_recipients,
)
from gpt_oss_harmony.conversation.json_field import JsonField
from gpt_oss_harmony.parsing.header_words import NamedTool, find_tool
from gpt_oss_harmony.rendering.history import past_reasoning

IMAGE_GEN = BuiltInTool(
    ToolNamespaceConfig(
        name="image_gen",
        description="Draws.",
        tools=[ToolDescription.new("draw", "Draws a picture.", None)],
    ),
    requested_as=("image_gen_2030",),
    item=CallItem(
        "image_gen_call",
        "ig",
        states=("in_progress", "drawing", "completed"),
        text="arguments",
        fields={"arguments": "", "picture": None},
    ),
)
ASKED = {"type": "image_gen_2030"}


@pytest.fixture
def image_gen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN_TOOLS, "image_gen", IMAGE_GEN)


@pytest.mark.usefixtures("image_gen")
def test_an_added_tool_is_declared_where_a_request_asks_for_it() -> None:
    built_in = {name: tool.namespace for name, tool in BUILT_IN_TOOLS.items()}
    turn = turn_of_response(ResponsesRequest(input="Draw!", tools=[ASKED]), built_in=built_in)
    assert turn.built_in_tools == {"image_gen"}
    assert "image_gen.draw" in turn.tools
    prompt = gpt_oss_harmony.load_harmony_encoding("HarmonyGptOss").decode(
        gpt_oss_harmony.load_harmony_encoding("HarmonyGptOss").render_conversation_for_completion(
            turn.conversation, Role.ASSISTANT
        )
    )
    assert "namespace image_gen {" in prompt


@pytest.mark.usefixtures("image_gen")
def test_an_added_tool_is_read_and_shown() -> None:
    assert "image_gen.draw" in built_in_recipients()
    assert find_tool("image_gen.draw", {"functions.now"}) == NamedTool("image_gen.draw")
    assert find_tool("image_gen.paint", set()) == NamedTool("image_gen.paint")
    assert RequestedTools().recipient("image_gen") == "image_gen"
    kind = ItemRules(server_tools=["image_gen"]).begin(0, "analysis", "image_gen.draw").kind
    assert (kind, kind.is_of_server) == (ItemKind.SERVER_CALL, True)
    item = server_call_item("image_gen.draw", id="ig_1", status="completed", picture="a cat")
    assert item == {
        "type": "image_gen_call",
        "id": "ig_1",
        "status": "completed",
        "arguments": "",
        "picture": "a cat",
    }


@pytest.mark.usefixtures("image_gen")
def test_calls_that_another_server_ran_are_skipped() -> None:
    call = {"type": "image_gen_call", "id": "ig_1", "status": "completed"}
    turn = turn_of_response(ResponsesRequest(input=[call, {"role": "user", "content": "Again!"}]))
    assert "image_gen" not in str(turn.conversation)


@pytest.mark.usefixtures("image_gen")
def test_calls_of_an_added_tool_are_reasoning() -> None:
    call = Message.from_role_and_content(Role.ASSISTANT, "{}").with_channel("analysis")
    call.with_recipient("image_gen.draw")
    answer = Message.from_role_and_content(Role.ASSISTANT, "Done.").with_channel("final")
    question = Message.from_role_and_content(Role.USER, "Draw!")
    assert past_reasoning([question, call, answer, question]) == {1}


def test_without_the_table_a_tool_is_unknown() -> None:
    with pytest.raises(gpt_oss_harmony.HarmonyError, match="image_gen_2030"):
        read_tools([JsonField(ASKED, "tools[0]")])
    assert find_tool("image_gen.paint", set()) is None


def words(path: Path) -> Iterator[str]:
    """The strings of a module that are not documentation, or the quoted words of a script."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        yield from re.findall(
            r"""["'`]([^"'`\n]+)["'`]""", re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        )
        return
    tree = ast.parse(text)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            yield node.value if isinstance(node.value, str) else ""


DESCRIPTIONS = {
    "conversation/tool_namespaces.py": "declares the tools",
    "conversation/built_in_tools.py": "the table",
    "tools/call_items.py": "reads the results of each tool",
    "cli/options.py": "opens the tools",
    "apis/chat/request.py": "lists what requests may include, as OpenAI's API does",
    "apis/responses/request.py": "lists what requests may include, as OpenAI's API does",
}
"""The modules that name built-in tools, with the reason."""
LANGUAGE = {"inspector/export.py", "inspector/wire.py", "inspector/page/share.js"}
"""Modules in which Python is the language that the inspector writes."""


def test_built_in_tools_are_named_only_where_they_are_described() -> None:
    """A name in another module would be a second list, which the next tool would miss."""
    package = Path(gpt_oss_harmony.__file__).parent
    plugin = package.parents[1] / "packages" / "vllm"
    parts = {tool.item.type for tool in BUILT_IN_TOOLS.values()}
    parts |= {type_ for tool in BUILT_IN_TOOLS.values() for type_ in tool.requested_as}
    parts |= {name for name in built_in_recipients() if "." in name}
    pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, parts))})(?!\w)")
    found = set[str]()
    for path in (*package.rglob("*.*"), *plugin.rglob("*.*")):
        place = path.relative_to(package).as_posix() if path.is_relative_to(package) else path.name
        own_package = place.startswith(tuple(f"tools/{name}/" for name in BUILT_IN_TOOLS))
        if path.suffix not in (".py", ".js") or own_package:
            continue  # the tools may name themselves
        named = {word for word in words(path) if word in BUILT_IN_TOOLS or pattern.search(word)}
        if named - ({"python"} if place in LANGUAGE else set()):
            found.add(place)
    assert found == DESCRIPTIONS.keys()


@pytest.mark.parametrize("name", BUILT_IN_TOOLS)
def test_a_tool_has_a_package_and_an_option(name: str) -> None:
    package = Path(gpt_oss_harmony.__file__).parent
    assert (package / "tools" / name / "__init__.py").is_file()
    options = (package / "cli" / "options.py").read_text(encoding="utf-8")
    option = name.replace("_", "-")
    assert f'"--{option}"' in options, "a tool that no option opens cannot be used"


@pytest.mark.parametrize("name", BUILT_IN_TOOLS)
def test_a_row_of_the_table_cannot_be_changed(name: str) -> None:
    tool = BUILT_IN_TOOLS[name]
    for field in dataclasses.fields(tool):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(tool, field.name, None)
