"""Built-in tools in requests of the Responses API: declared, chosen, and in the history."""

from __future__ import annotations

from typing import Any

import pytest

from gpt_oss_harmony import (
    Message,
    RenderConversationConfig,
    Role,
    SystemContent,
    ToolDescription,
    ToolNamespaceConfig,
    load_harmony_encoding,
)
from gpt_oss_harmony.apis import HistoryItem, ResponsesRequest, TurnRequest, turn_of_response
from gpt_oss_harmony.apis.items import ItemKind
from gpt_oss_harmony.apis.requested_tools import choice_without
from gpt_oss_harmony.grammar import ToolChoice, TurnOptions, turn_grammar
from gpt_oss_harmony.sampled_messages import prompt_tokens

ENCODING = load_harmony_encoding("HarmonyGptOss")
RENDERING = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
BUILT_IN = {
    namespace.name: namespace
    for namespace in (ToolNamespaceConfig.browser(), ToolNamespaceConfig.python())
}
BROWSER = ["browser.search", "browser.open", "browser.find"]
NOW = {"type": "function", "name": "now"}
SEARCH = {"type": "web_search"}
COMPUTE = {"type": "code_interpreter", "container": {"type": "auto"}}


def turn(history: list[HistoryItem] | None = None, **body: Any) -> TurnRequest:
    request = ResponsesRequest(**{"input": "hi", **body})
    return turn_of_response(request, history or [], built_in=BUILT_IN)


def system_of(made: TurnRequest) -> SystemContent:
    (content,) = made.conversation.messages[0].content
    assert isinstance(content, SystemContent)
    return content


DECLARED: list[tuple[list[dict[str, Any]], list[str]]] = [
    ([], []),
    ([NOW], []),
    ([SEARCH], ["browser"]),
    ([{"type": "web_search_preview"}], ["browser"]),
    ([{"type": "web_search_2025_08_26"}, SEARCH], ["browser"]),
    ([COMPUTE, NOW], ["python"]),
    ([COMPUTE, SEARCH], ["python", "browser"]),
    ([{"type": "mcp"}], []),
    ([SEARCH, {"type": "namespace", "name": "browser", "tools": [NOW]}], []),
]


@pytest.mark.parametrize(("tools", "names"), DECLARED)
def test_what_is_asked_for_is_declared(tools: list[dict[str, Any]], names: list[str]) -> None:
    made = turn(tools=tools)
    assert list(system_of(made).tools or {}) == names
    assert made.built_in_tools == set(names)
    assert all(made.tools.issuperset(BROWSER if name == "browser" else [name]) for name in names)


LABELS: list[tuple[dict[str, Any], set[str]]] = [
    ({"server_label": "time"}, {"time"}),
    ({"server_label": "other"}, set()),
    ({"server_label": "browser"}, set()),
    ({}, set()),
]


@pytest.mark.parametrize(("fields", "names"), LABELS)
def test_the_server_of_a_label_is_declared(fields: dict[str, Any], names: set[str]) -> None:
    time = ToolNamespaceConfig(name="time", tools=[ToolDescription.new("now", "Tells it.")])
    request = ResponsesRequest(input="hi", tools=[NOW, {"type": "mcp", **fields}])
    made = turn_of_response(request, built_in={**BUILT_IN, "time": time})
    assert made.built_in_tools == names
    assert set(system_of(made).tools or {}) == names
    kind = made.item_rules.begin(0, "commentary", "time.now").kind
    assert (kind is ItemKind.SERVER_CALL) == bool(names)


def test_nothing_is_declared_that_the_server_does_not_have() -> None:
    made = turn_of_response(ResponsesRequest(input="hi", tools=[SEARCH, COMPUTE]))
    assert system_of(made).tools is None
    assert not made.built_in_tools


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [*tools]}


ALL = {"browser", "python"}
# What a request says; what is enforced in its first turn, in those after a call, and when no more
# calls are allowed; and the tools that may be called.
AUTO, NONE, REQUIRED = ToolChoice("auto"), ToolChoice("none"), ToolChoice("required")
ONLY_NOW = ToolChoice("auto", ("functions.now",))
CHOICES: list[tuple[Any, ToolChoice, ToolChoice, ToolChoice, set[str]]] = [
    (None, AUTO, AUTO, ONLY_NOW, ALL),
    ("auto", AUTO, AUTO, ONLY_NOW, ALL),
    ("none", NONE, NONE, NONE, set()),
    ("required", REQUIRED, AUTO, ONLY_NOW, ALL),
    ({"type": "code_interpreter"}, ToolChoice("required", ("python",)), AUTO, NONE, {"python"}),
    (SEARCH, ToolChoice("required", tuple(BROWSER)), AUTO, NONE, {"browser"}),
    (NOW, ToolChoice("required", ("functions.now",)), AUTO, ONLY_NOW, set()),
    (
        allowed("required", NOW, {"type": "web_search_preview"}),
        ToolChoice("required", ("functions.now", *BROWSER)),
        ToolChoice("auto", ("functions.now", *BROWSER)),
        ONLY_NOW,
        {"browser"},
    ),
    (
        allowed("none", COMPUTE),
        ToolChoice("none", ("python",)),
        ToolChoice("none", ("python",)),
        NONE,
        set(),
    ),
]


@pytest.mark.parametrize(("requested", "first", "later", "last", "names"), CHOICES)
def test_choices(
    requested: Any, first: ToolChoice, later: ToolChoice, last: ToolChoice, names: set[str]
) -> None:
    made = turn(tools=[NOW, SEARCH, COMPUTE], tool_choice=requested)
    assert made.tool_choice == first
    assert made.later_tool_choice == later
    assert made.built_in_tools == names
    left = choice_without(BUILT_IN, first, sorted(made.tools))
    assert left == last
    for choice in (first, left):
        turn_grammar(made.conversation, TurnOptions(tool_choice=choice))


def message(text: str, **fields: Any) -> Message:
    return Message.from_role_and_content(Role.ASSISTANT, text).model_copy(update=fields)


def exchange(channel: str) -> list[HistoryItem]:
    call = message("1 + 1", channel=channel, recipient="python", content_type="code")
    answer = {
        "role": "tool",
        "name": "python",
        "content": [{"type": "text", "text": "2"}],
        "channel": channel,
        "recipient": "assistant",
    }
    text = f"<|channel|>{channel} to=python code<|message|>1 + 1<|call|>"
    tokens = tuple(ENCODING.encode(text, allowed_special="all"))
    item = {"type": "code_interpreter_call", "id": "ci_1", "code": "1 + 1"}
    return [HistoryItem(item, tokens, [call.to_dict(), answer])]


def test_a_call_and_its_answer_are_shown_again_token_for_token() -> None:
    made = turn([*exchange("analysis")])
    prompt = ENCODING.decode(prompt_tokens(ENCODING, made.conversation, RENDERING))
    assert (
        "<|start|>assistant<|channel|>analysis to=python code<|message|>1 + 1<|call|>"
        "<|start|>python to=assistant<|channel|>analysis<|message|>2<|end|><|start|>user"
    ) in prompt


def test_a_call_within_reasoning_is_dropped_with_it() -> None:
    answer = HistoryItem(
        {"type": "message", "role": "assistant", "phase": "final_answer", "content": "Two."}
    )
    made = turn([*exchange("analysis"), answer])
    assert [said.author.role for said in made.conversation.messages[1:]] == [
        Role.ASSISTANT,
        Role.USER,
    ]
    kept = turn([*exchange("commentary"), answer])
    assert len(kept.conversation.messages) == len(made.conversation.messages) + 2


def test_a_call_of_another_server_is_left_out() -> None:
    (item,) = exchange("analysis")
    made = turn([item._replace(messages=())])
    assert len(made.conversation.messages) == 2
