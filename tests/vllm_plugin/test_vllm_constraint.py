"""What requests to vLLM ask for, as a grammar: tried with the tokens of whole turns."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.grammar import Matcher
from gpt_oss_harmony.installation import requirement
from gpt_oss_harmony_vllm.constraint import constrain
from gpt_oss_harmony_vllm.patches import patch_parser
from gpt_oss_harmony_vllm.settings import Settings
from support import vllm_stand_in as vllm
from support.vllm_stand_in import Function, Request, StructuredOutputsParams, Tool

ENCODING = load_harmony_encoding("HarmonyGptOss")
THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
ANSWER = "<|channel|>final<|message|>Yes.<|return|>"
JSON = '<|channel|>final <|constrain|>json<|message|>{"n":1}<|return|>'
CALL = '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"n":1}<|call|>'
LATER = CALL.replace("now", "later")
WRONG = CALL.replace("1", '"x"')
TURNS = {"answer": ANSWER, "json": JSON, "call": CALL, "later": LATER, "wrong": WRONG}

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [Tool(function=Function(name=name, parameters=SCHEMA)) for name in ("now", "later")]
STRICT = [Tool(function=Function(name="now", parameters=SCHEMA, strict=True))]
NAMED = {"type": "function", "function": {"name": "now"}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}

ASKED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "required": ({"tools": TOOLS, "tool_choice": "required"}, {"call", "later"}),
    "named": ({"tools": TOOLS, "tool_choice": NAMED}, {"call"}),
    "none": ({"tools": TOOLS, "tool_choice": "none"}, {"answer", "json"}),
    "strict": ({"tools": STRICT}, {"answer", "json", "call"}),
    "a format": ({"response_format": FORMAT}, {"json"}),
    "a format and tools": ({"response_format": FORMAT, "tools": STRICT}, {"json", "call"}),
    "any object": ({"response_format": {"type": "json_object"}}, {"json"}),
    "a schema as text": (
        {"structured_outputs": StructuredOutputsParams(json=json.dumps(SCHEMA))},
        {"json"},
    ),
    "choices": ({"structured_outputs": StructuredOutputsParams(choice=["Yes."])}, {"answer"}),
    "an expression": ({"structured_outputs": StructuredOutputsParams(regex="Y.s.")}, {"answer"}),
    "a grammar": (
        {"structured_outputs": StructuredOutputsParams(grammar='root ::= "Yes."')},
        {"answer"},
    ),
}


def allowed(grammar: str) -> set[str]:
    """The turns that a grammar lets the model write, with reasoning first and without."""
    names = set()
    for name, turn in TURNS.items():
        for start in ("", THOUGHT):
            matcher = Matcher(grammar)
            tokens = ENCODING.encode(start + turn, allowed_special="all")
            is_allowed = matcher.count_allowed(tokens) == len(tokens)
            assert is_allowed == (name in names) or not start, "reasoning changes nothing"
            names |= {name} if is_allowed else set()
    return names


@pytest.mark.parametrize("backend", ["guidance", "auto"])
@pytest.mark.parametrize("asked", ASKED)
def test_the_grammar_of_what_a_request_asks_for(asked: str, backend: str) -> None:
    fields, expected = ASKED[asked]
    constraint = constrain(Request(**fields), Settings(), backend)
    assert constraint is not None
    # `{"n": 1}` is text, too, where no JSON is asked for, but not under a content type.
    turns = allowed(constraint.fields["grammar"])
    assert turns - {"json"} == expected - {"json"}
    assert "json" in turns or "json" not in expected or "answer" in expected


@pytest.mark.parametrize("asked", [a for a in ASKED if "structured_outputs" not in ASKED[a][0]])
def test_the_tag_of_what_a_request_asks_for(asked: str) -> None:
    settings = Settings(grammar="structural-tag")
    constraint = constrain(Request(**ASKED[asked][0]), settings, "xgrammar")
    assert constraint is not None
    assert json.loads(constraint.fields["structural_tag"])["type"] == "structural_tag"


NOT_OURS: dict[str, tuple[dict[str, Any], Settings, str | None]] = {
    "nothing": ({}, Settings(), "guidance"),
    "tools that may be called": ({"tools": TOOLS}, Settings(), "guidance"),
    "a choice without tools": ({"tool_choice": "none"}, Settings(), "guidance"),
    "a tool of vLLM's": (
        {"tools": [*STRICT, Tool(type="web_search_preview")]},
        Settings(),
        "guidance",
    ),
    "the client's own tag": (
        {"structured_outputs": StructuredOutputsParams(structural_tag="{}")},
        Settings(),
        "guidance",
    ),
    "switched off": ({"tools": STRICT}, Settings(grammar="off"), "guidance"),
    "a backend without such grammars": ({"tools": STRICT}, Settings(), "xgrammar"),
    "a backend without such tags": (
        {"tools": STRICT},
        Settings(grammar="structural-tag"),
        "guidance",
    ),
    "an unknown backend": ({"tools": STRICT}, Settings(), None),
}


@pytest.mark.parametrize("case", NOT_OURS)
def test_what_vllm_constrains_itself(case: str) -> None:
    fields, settings, backend = NOT_OURS[case]
    assert constrain(Request(**fields), settings, backend) is None


# In vLLM's parser


@pytest.fixture
def parser_type(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = vllm.installed(monkeypatch)["vllm.parser.harmony"]
    patch_parser(module, Settings())
    module.HarmonyParser.backend = "guidance"
    return module.HarmonyParser


def test_an_adjusted_request_has_the_grammar_alone(parser_type: Any) -> None:
    request = Request(tools=STRICT, response_format=FORMAT)
    adjusted = parser_type(None, request.tools).adjust_request(request)
    assert adjusted is request
    outputs: Any = adjusted.structured_outputs
    assert outputs.grammar.startswith("start: ")
    assert adjusted.response_format is None
    assert adjusted._grammar_from_parser


@pytest.mark.parametrize("reason", ["one call at most", "--tool-strict-level"])
def test_calls_that_are_only_allowed_can_be_constrained(parser_type: Any, reason: str) -> None:
    request = Request(tools=TOOLS, parallel_tool_calls=reason != "one call at most")
    parser = parser_type(None, TOOLS)
    parser.tool_strict_level = 1 if reason == "--tool-strict-level" else 0
    adjusted = parser.adjust_request(request)
    assert {"answer", "call", "later"} <= allowed(adjusted.structured_outputs.grammar)
    assert "wrong" not in allowed(adjusted.structured_outputs.grammar)


def test_what_asks_for_nothing_is_left_to_vllm(parser_type: Any) -> None:
    request = parser_type(None).adjust_request(Request())
    assert request.structured_outputs.structural_tag == "vLLM's own"


def test_a_tool_that_no_header_can_name_is_left_to_vllm(
    parser_type: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [Tool(function=Function(name="two words", strict=True))]
    request = parser_type(None, tools).adjust_request(Request(tools=tools))
    assert request.structured_outputs.structural_tag == "vLLM's own"
    assert "vLLM's own constraint is used" in caplog.text
    assert "two words" in caplog.text


def test_a_missing_package_is_named(
    parser_type: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def without(*_: object, **__: object) -> None:
        raise ImportError("No module named 'llguidance'", name="llguidance")

    monkeypatch.setattr("gpt_oss_harmony_vllm.parser.constrain", without)
    request = parser_type(None, STRICT).adjust_request(Request(tools=STRICT))
    assert request.structured_outputs.structural_tag == "vLLM's own"
    assert f"pip install {requirement('grammar')}" in caplog.text


def test_keywords_that_are_not_enforced_are_logged_once(
    parser_type: Any, caplog: pytest.LogCaptureFixture
) -> None:
    unique = {"type": "array", "uniqueItems": True}
    parameters = {"type": "object", "properties": {"tags": unique}}
    tools = [Tool(function=Function(name="now", parameters=parameters, strict=True))]
    for _ in range(2):
        request = parser_type(None, tools).adjust_request(Request(tools=tools))
        assert request.structured_outputs.grammar is not None
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == 1
    assert logged[0].startswith("harmony: left out of the grammar: ")


@pytest.mark.parametrize(("is_cpu", "seed"), [(True, None), (False, 7), (True, 7)])
def test_a_seed_on_the_cpu_is_refused(
    parser_type: Any, monkeypatch: pytest.MonkeyPatch, is_cpu: bool, seed: int | None
) -> None:
    """Several of them at once end vLLM's engine ("CPU Generator does not use offset")."""
    platform = SimpleNamespace(is_cpu=lambda: is_cpu)
    platforms = SimpleNamespace(current_platform=platform)
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    request = Request()
    object.__setattr__(request, "seed", seed)
    if is_cpu and seed is not None:
        with pytest.raises(ValueError, match="leave the seed out"):
            parser_type(None).adjust_request(request)
    else:
        assert parser_type(None).adjust_request(request) is request
