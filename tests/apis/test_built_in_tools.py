"""One table of built-in tools: a tool that is added to it is known wherever it matters."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gpt_oss_harmony
from gpt_oss_harmony import Message, Role, ToolDescription, ToolNamespaceConfig
from gpt_oss_harmony.apis import ItemKind, ResponsesRequest, item_kind, turn_of_response
from gpt_oss_harmony.apis.requested_tools import RequestedTools, read_tools
from gpt_oss_harmony.conversation.built_in_tools import (
    BUILT_IN_TOOLS,
    BuiltInTool,
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
    item="code_interpreter_call",  # an item of its own is a kind in `apis.items`
    item_prefix="ci",
    running="interpreting",
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
    kind = item_kind("analysis", "image_gen.draw", built_in_tools=["image_gen"])
    assert (kind, kind.is_built_in) == (ItemKind.CODE_INTERPRETER_CALL, True)


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


def test_the_core_and_the_apis_name_built_in_tools_only_in_the_table() -> None:
    """A name in the code of another module would be a second list."""
    package = Path(gpt_oss_harmony.__file__).parent
    names = {*BUILT_IN_TOOLS, *built_in_recipients()}
    rooms = ("conversation", "rendering", "parsing", "apis", "inspector")
    own = {"tool_namespaces.py", "built_in_tools.py"}
    for path in (path for room in rooms for path in (package / room).rglob("*.py")):
        if path.name in own:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        literal = {name for name in found if isinstance(name, str)} & names
        # Python is also the language in which the inspector writes code.
        assert literal <= ({"python"} if "inspector" in path.parts else set()), path
