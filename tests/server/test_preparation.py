"""Grammars of requests: what is strict is enforced or refused, the rest as far as possible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpt_oss_harmony import Conversation, DeveloperContent, Message, Role, ToolDescription
from gpt_oss_harmony.apis.constraint import compiled_constraint, constraint_options
from gpt_oss_harmony.apis.turn import TurnRequest
from gpt_oss_harmony.conversation.tool_choice import ToolMode
from gpt_oss_harmony.engines import Sampling
from gpt_oss_harmony.grammar import (
    GrammarError,
    Matcher,
    ToolChoice,
    TurnConstraint,
    turn_gbnf,
)
from gpt_oss_harmony.grammar import turn_constraint as write_constraint
from gpt_oss_harmony.server.preparation import PreparedTurn, constraint_headers

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


def turn_constraint(turn: TurnRequest) -> TurnConstraint:
    return write_constraint(turn.conversation, constraint_options(turn))


def accepts(grammar: str, text: str) -> bool:
    from gpt_oss_harmony import load_harmony_encoding

    matcher = Matcher(grammar)
    tokens = load_harmony_encoding("HarmonyGptOss").encode(text, allowed_special="all")
    return all(matcher.accept(token) for token in tokens)


@pytest.mark.parametrize(
    ("skips_forced", "mode", "text", "is_allowed"),
    [
        (True, "required", HEADER.format("f") + '{"n":1}<|call|>', True),
        (True, "required", HEADER.format("f") + '{"n": 1}<|call|>', False),
        (True, "auto", HEADER.format("f") + '{"n": 1}<|call|>', True),
        (False, "required", HEADER.format("f") + '{"n": 1}<|call|>', True),
    ],
)
def test_a_required_call_has_one_spelling_where_the_engine_skips_forced_tokens(
    skips_forced: bool, mode: ToolMode, text: str, is_allowed: bool
) -> None:
    asked = request(PLAIN, tool_choice=ToolChoice(mode))
    constraint = compiled_constraint(asked, 4096, skips_forced=skips_forced)
    assert accepts(constraint.grammar, text) == is_allowed


def test_an_engine_that_counts_no_tokens_gets_no_limits_by_default() -> None:
    asked = request(PLAIN, tool_choice=ToolChoice("required"))
    assert "root ::=" in turn_gbnf(compiled_constraint(asked, 4096, counts_tokens=False).grammar)
    for limited in (
        compiled_constraint(asked, 4096),
        compiled_constraint(replace(asked, reasoning_tokens=50), 4096, counts_tokens=False),
    ):
        with pytest.raises(GrammarError, match="limits on tokens"):
            turn_gbnf(limited.grammar)


def test_what_can_be_enforced_is() -> None:
    constraint = turn_constraint(request(PLAIN))
    assert constraint.unenforced == ()
    assert accepts(constraint.grammar, HEADER.format("f") + '{"n": 1}<|call|>')
    assert not accepts(constraint.grammar, HEADER.format("f") + '{"n": "1"}<|call|>')


def test_what_cannot_be_enforced_of_a_tool_is_left_out_and_the_rest_stays() -> None:
    constraint = turn_constraint(request(UNIQUE))
    (error,) = constraint.unenforced
    assert error.pointer == "tools/functions.f#/properties/tags/uniqueItems"
    assert accepts(constraint.grammar, HEADER.format("f") + '{"tags": [1, 1], "x": 2}<|call|>')
    assert not accepts(constraint.grammar, HEADER.format("f") + "[1]")
    assert not accepts(constraint.grammar, HEADER.format("f") + '{"tags": 1')
    assert not accepts(constraint.grammar, HEADER.format("g") + '{"n": "1"}')


def test_a_strict_tool_that_cannot_be_enforced_is_refused() -> None:
    with pytest.raises(GrammarError, match="uniqueItems"):
        turn_constraint(request(UNIQUE, strict=True))


@pytest.mark.parametrize("strict", [None, False])
def test_what_cannot_be_enforced_of_an_answer_is_left_out(strict: bool | None) -> None:
    constraint = turn_constraint(request(PLAIN, response_format=answer(UNIQUE, strict=strict)))
    assert [error.pointer for error in constraint.unenforced] == [
        "response_format#/properties/tags/uniqueItems"
    ]
    header = "<|channel|>final <|constrain|>json<|message|>"
    assert accepts(constraint.grammar, header + '{"tags": [1, 1]}<|return|>')
    assert not accepts(constraint.grammar, header + "tags")
    assert not accepts(constraint.grammar, header + '{"tags": 1')


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


def test_the_prepared_turn_says_what_is_left_out() -> None:
    constraint = compiled_constraint(request(UNIQUE), 1000)
    prepared = PreparedTurn([], Sampling(), constraint.unenforced, constraint.narrowed)
    assert constraint_headers(prepared) == {
        "Harmony-Unenforced": "tools/functions.f#/properties/tags/uniqueItems"
    }
    assert compiled_constraint(request(PLAIN), 1000).unenforced == ()
    assert constraint_headers(PreparedTurn([], Sampling())) == {}


def test_the_header_is_short_and_ascii() -> None:
    errors = [GrammarError("", pointer=f"#/properties/é,\r\n{index}/not") for index in range(500)]
    prepared = PreparedTurn([], Sampling(), tuple(errors))
    (value,) = constraint_headers(prepared).values()
    assert value.isascii()
    assert value.isprintable()
    assert len(value) <= 2_000
    assert value.endswith("480 more")
