"""Grammars of requests: what is strict is enforced or refused, the rest as far as possible."""

from __future__ import annotations

from typing import Any

import pytest

from openai_harmony import Conversation, DeveloperContent, Message, Role, ToolDescription
from openai_harmony.apis.turn_request import TurnRequest
from openai_harmony.grammar import GrammarError, Matcher, ToolChoice
from openai_harmony.server.generation.preparation import turn_constraint

UNIQUE = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
PLAIN = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
HEADER = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>"


def request(schema: dict[str, Any] | None, *, strict: bool = False, **fields: Any) -> TurnRequest:
    tools = [ToolDescription.new("f", "", schema), ToolDescription.new("g", "", PLAIN)]
    developer = DeveloperContent().with_function_tools(tools)
    conversation = Conversation.from_messages(
        [Message.from_role_and_content(Role.DEVELOPER, developer)]
    )
    names = frozenset(["functions.f"]) if strict else frozenset()
    return TurnRequest(conversation, strict_tools=names, **fields)


def answer(schema: dict[str, Any], *, strict: bool | None) -> dict[str, Any]:
    wanted = {"name": "tags", "schema": schema, "strict": strict}
    return {"type": "json_schema", "json_schema": wanted}


def accepts(grammar: str, text: str) -> bool:
    from openai_harmony import load_harmony_encoding

    matcher = Matcher(grammar)
    tokens = load_harmony_encoding("HarmonyGptOss").encode(text, allowed_special="all")
    return all(matcher.accept(token) for token in tokens)


def test_what_can_be_enforced_is() -> None:
    constraint = turn_constraint(request(PLAIN))
    assert constraint.unenforced == ()
    assert accepts(constraint.grammar, HEADER.format("f") + '{"n": 1}<|call|>')
    assert not accepts(constraint.grammar, HEADER.format("f") + '{"n": "1"}<|call|>')


def test_a_tool_that_cannot_be_enforced_takes_any_object_and_the_others_stay() -> None:
    constraint = turn_constraint(request(UNIQUE))
    (error,) = constraint.unenforced
    assert error.pointer == "tools/functions.f#/properties/tags/uniqueItems"
    assert accepts(constraint.grammar, HEADER.format("f") + '{"tags": [1, 1], "x": 2}<|call|>')
    assert not accepts(constraint.grammar, HEADER.format("f") + "[1]")
    assert not accepts(constraint.grammar, HEADER.format("g") + '{"n": "1"}')


def test_a_strict_tool_that_cannot_be_enforced_is_refused() -> None:
    with pytest.raises(GrammarError, match="uniqueItems"):
        turn_constraint(request(UNIQUE, strict=True))


@pytest.mark.parametrize("strict", [None, False])
def test_an_answer_that_cannot_be_enforced_is_any_object(strict: bool | None) -> None:
    constraint = turn_constraint(request(PLAIN, response_format=answer(UNIQUE, strict=strict)))
    assert [error.pointer for error in constraint.unenforced] == [
        "response_format#/properties/tags/uniqueItems"
    ]
    header = "<|channel|>final <|constrain|>json<|message|>"
    assert accepts(constraint.grammar, header + '{"tags": [1, 1]}<|return|>')
    assert not accepts(constraint.grammar, header + "tags")


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (None, True),
        ({"type": "text"}, True),
        ({"type": "json_object"}, False),
        (answer(PLAIN, strict=True), False),
        (answer(UNIQUE, strict=False), False),
    ],
)
def test_nothing_is_said_before_an_answer_in_json(wanted: Any, allowed: bool) -> None:
    constraint = turn_constraint(request(PLAIN, response_format=wanted))
    assert accepts(constraint.grammar, "<|channel|>commentary<|message|>Let me") is allowed
    assert accepts(constraint.grammar, HEADER.format("g") + '{"n": 1}<|call|>')


def test_a_strict_answer_that_cannot_be_enforced_is_refused() -> None:
    with pytest.raises(GrammarError, match="uniqueItems"):
        turn_constraint(request(PLAIN, response_format=answer(UNIQUE, strict=True)))


def test_an_error_that_no_schema_is_to_blame_for_is_raised() -> None:
    with pytest.raises(GrammarError, match="not declared"):
        turn_constraint(request(UNIQUE, tool_choice=ToolChoice("required", ("h",))))
