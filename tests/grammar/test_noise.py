"""Turns sampled from noise: each ends, is read strictly, and obeys what was asked for.

A model with random weights writes whatever the grammar leaves open. `make noise TURNS=1000` samples
more turns.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    SystemContent,
    TextContent,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.grammar import GrammarLogitsProcessor, TurnOptions, turn_grammar
from gpt_oss_harmony.tokens.special_tokens import CALL, END, MESSAGE, RETURN
from support.noise_model import PAD, GumbelNoise, noise_model, padded

ENCODING = load_harmony_encoding("HarmonyGptOss")
TURNS = int(os.environ.get("NOISE_TURNS", "40"))
ROWS = 4
PATIENCE = 2000
"""Tokens of a turn at most; noise ends most turns within a tenth of them."""


def closed(properties: dict[str, Any], *, required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


TREE = {"$ref": "#/$defs/tree"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "nothing": closed({}),
    "flat": closed({"place": {"type": "string"}, "days": {"type": "integer"}}, required=["place"]),
    "nested": closed(
        {"a": closed({"b": closed({"c": {"type": "boolean"}, "d": {"type": "null"}})})}
    ),
    "list": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 4},
    "pairs": closed(
        {"pairs": {"type": "array", "items": closed({"k": {"type": "string", "maxLength": 5}})}}
    ),
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "items": False,
        "minItems": 2,
    },
    "enums": closed({"unit": {"enum": ["°C", "°F", None, 3]}, "fixed": {"const": {"x": [1, ""]}}}),
    "either": closed({"v": {"anyOf": [{"type": "string"}, {"type": "integer"}, closed({})]}}),
    "kinds": {
        "oneOf": [
            closed({"kind": {"const": "circle"}, "radius": {"type": "number", "minimum": 0}}),
            closed({"kind": {"const": "label"}, "text": {"type": "string"}}),
        ]
    },
    "optional": closed({"a": {"type": ["string", "null"]}, "b": {"type": "boolean"}}, required=[]),
    "recursive": {
        "$defs": {
            "tree": closed(
                {
                    "name": {"type": "string", "maxLength": 4},
                    "left": {"anyOf": [{"type": "null"}, TREE]},
                }
            )
        },
        **TREE,
    },
    "patterns": closed(
        {
            "plate": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,4}$"},
            "word": {"type": "string", "pattern": "^(yes|no|maybe)!?$"},
        }
    ),
    "ranges": closed(
        {
            "percent": {"type": "integer", "minimum": 0, "maximum": 100},
            "degrees": {"type": "number", "exclusiveMinimum": -273.15, "maximum": 1e4},
            "name": {"type": "string", "minLength": 2, "maxLength": 6},
        }
    ),
    "formats": closed(
        {
            "day": {"type": "string", "format": "date"},
            "id": {"type": "string", "format": "uuid"},
            "host": {"type": "string", "format": "ipv4"},
        }
    ),
    "open": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "anything": {"type": "object"},
    "many": closed({f"field_{at}": {"type": "boolean"} for at in range(60)}, required=["field_7"]),
}

BROWSER = SystemContent.new().with_browser_tool()


class Case(NamedTuple):
    """What a turn is asked for, and what it may be."""

    conversation: Conversation
    options: TurnOptions
    calls: Mapping[str, Any]  # recipients, and the schemas of their arguments; None for code
    answers: list[Any] | None  # None where a call is required; [] for free text

    @property
    def grammar(self) -> str:
        return turn_grammar(self.conversation, self.options)


def conversation(
    tools: list[str], *, builtin: bool = False, formats: list[str] | None = None
) -> Conversation:
    system = SystemContent.new()
    if builtin:
        system.with_browser_tool().with_python_tool()
    developer = DeveloperContent.new()
    if tools:
        developer.with_function_tools(
            [ToolDescription.new(name, f"Does {name}.", SCHEMAS[name]) for name in tools]
        )
    for name in formats or []:
        developer.with_response_format(name, SCHEMAS[name])
    return Conversation.from_messages(
        [
            Message.from_role_and_content(Role.SYSTEM, system),
            Message.from_role_and_content(Role.DEVELOPER, developer),
            Message.from_role_and_content(Role.USER, "What do you say?"),
        ]
    )


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def functions(*names: str) -> dict[str, Any]:
    return {f"functions.{name}": SCHEMAS[name] for name in names}


def builtin_calls() -> dict[str, Any]:
    tools = (BROWSER.tools or {})["browser"].tools
    return {"python": None, **{f"browser.{tool.name}": tool.parameters for tool in tools}}


SHORT: dict[str, Any] = {"reasoning_tokens": 6, "text_tokens": 6}
SILENT: dict[str, Any] = {"reasoning": False, "preambles": False}


def cases() -> Iterator[Case]:
    names = [name for name, schema in SCHEMAS.items() if schema.get("type") != "array"]
    some = names[:6]
    for name, schema in SCHEMAS.items():  # an answer of each kind, asked for in both places
        wanted = {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
        options = TurnOptions(response_format=wanted, **SILENT)
        yield Case(conversation([]), options, {}, [schema])
        options = TurnOptions(reasoning_messages=1, preambles=False)
        yield Case(conversation([], formats=[name]), options, {}, [schema])
    for name in names:  # arguments of each kind
        options = TurnOptions(tool_choice=function(name), reasoning_messages=1, **SHORT)
        yield Case(conversation(names), options, functions(name), None)
    for free in ({}, SHORT, SILENT):
        yield Case(conversation([]), TurnOptions(**free), {}, [])
        yield Case(conversation(some), TurnOptions(tool_choice="none", **free), {}, [])
        yield Case(conversation(some), TurnOptions(**free), functions(*some), [])
        required = TurnOptions(tool_choice="required", **free)
        yield Case(conversation(some), required, functions(*some), None)
        both = {**functions(*some), **builtin_calls()}
        yield Case(conversation(some, builtin=True), TurnOptions(**free), both, [])
        builtin = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "python"}]}
        only = TurnOptions(tool_choice=builtin, **free)
        yield Case(conversation(some, builtin=True), only, {"python": None}, None)
        search = TurnOptions(tool_choice={"type": "browser"}, **free)
        browser = {name: schema for name, schema in builtin_calls().items() if "browser" in name}
        yield Case(conversation(some, builtin=True), search, browser, None)
        for mode in ("auto", "required"):
            subset = {
                "type": "allowed_tools",
                "allowed_tools": {"mode": mode, "tools": [function(name) for name in some[:2]]},
            }
            options = TurnOptions(tool_choice=subset, **free)
            answers: list[Any] | None = [] if mode == "auto" else None
            yield Case(conversation(some), options, functions(*some[:2]), answers)
        formats = ["flat", "either"]
        wanted_two = conversation(some, formats=formats)
        answers = [SCHEMAS[name] for name in formats]
        yield Case(wanted_two, TurnOptions(**free), functions(*some), answers)
        objects = TurnOptions(response_format={"type": "json_object"}, **free)
        yield Case(conversation([]), objects, {}, [{"type": "object"}])


CASES = list(cases())


def sample(batch: list[Case], seed: int) -> list[list[int]]:
    prompts = [
        ENCODING.render_conversation_for_completion(case.conversation, Role.ASSISTANT)
        for case in batch
    ]
    inputs = padded(prompts)
    length = inputs["input_ids"].shape[1]
    processor = GrammarLogitsProcessor([case.grammar for case in batch], length)
    processors = [processor, GumbelNoise(seed)]
    sequences = noise_model().generate(
        **inputs, logits_processor=processors, do_sample=False, max_new_tokens=PATIENCE
    )
    return [row[length:] for row in sequences.tolist()]


FIRST = [
    pytest.param(first, marks=[pytest.mark.slow] if first >= ROWS else [])
    for first in range(0, TURNS, ROWS)
]


@pytest.mark.parametrize("first", FIRST)
def test_noise_obeys(first: int) -> None:
    stride = 7  # so that a few turns show all kinds of cases
    batch = [CASES[at * stride % len(CASES)] for at in range(first, first + ROWS)]
    for case, tokens in zip(batch, sample(batch, seed=first), strict=True):
        check_turn(case, tokens)


def test_each_case_is_met_in_time() -> None:
    assert len(CASES) % 7, "the stride must meet all cases"


def check_turn(case: Case, tokens: list[int]) -> None:
    end = next((at for at, token in enumerate(tokens) if token in (RETURN, CALL)), None)
    assert end is not None, f"cut: {ENCODING.decode(tokens)[:2000]}"
    assert set(tokens[end + 1 :]) <= {PAD}
    turn = tokens[: end + 1]
    *before, last = ENCODING.parse_messages_from_completion_tokens(turn, Role.ASSISTANT)
    check_before(case.options, before)
    if turn[-1] == CALL:
        assert last.recipient is not None
        assert last.recipient in case.calls
        assert last.channel in ("analysis", "commentary")
        check_body(body(last), [case.calls[last.recipient]])
    else:
        assert case.answers is not None, "a call is required"
        assert last.recipient is None
        assert last.channel == "final"
        check_body(body(last), case.answers)
    is_text = last.recipient == "python" or (turn[-1] == RETURN and not case.answers)
    check_lengths(case.options, turn, [*before, last] if is_text else before)


def body(message: Message) -> str:
    return "".join(item.text for item in message.content if isinstance(item, TextContent))


def check_before(options: TurnOptions, before: list[Message]) -> None:
    assert all(message.recipient is None for message in before)
    channels = [message.channel for message in before]
    allowed = {"analysis"} if options.reasoning else set()
    assert set(channels) <= allowed | ({"commentary"} if options.preambles else set())
    if options.reasoning_messages is not None:
        assert channels.count("analysis") <= options.reasoning_messages
    for message in before:
        check_body(body(message), [])


def check_body(text: str, schemas: list[Any]) -> None:
    if not schemas or schemas == [None]:
        assert not re.search(r"<\|[a-z_0-9]+\|>", text)
        return
    value = json.loads(text)
    checker = Draft202012Validator.FORMAT_CHECKER
    problems = [
        [
            error.message
            for error in Draft202012Validator(one, format_checker=checker).iter_errors(value)
        ]
        for one in schemas
    ]
    assert not all(problems), (text, problems)


def check_lengths(options: TurnOptions, turn: list[int], texts: list[Message]) -> None:
    """Count the tokens of each text; JSON has no limit of its own, and comes last."""
    starts = [at + 1 for at, token in enumerate(turn) if token == MESSAGE]
    stops = [at for at, token in enumerate(turn) if token in (END, RETURN, CALL)]
    for message, start, stop in zip(texts, starts, stops, strict=False):
        is_reasoning = message.channel == "analysis" and message.recipient is None
        limit = options.reasoning_tokens if is_reasoning else options.text_tokens
        assert limit is None or stop - start <= limit
