"""Formats of text that is no JSON, in answers and in calls of custom tools."""

from __future__ import annotations

from typing import Any

import pytest

from gpt_oss_harmony import Message, Role
from gpt_oss_harmony.grammar import (
    GrammarError,
    Matcher,
    TextFormat,
    TurnOptions,
    find_violations,
    structural_tag,
    turn_grammar,
)
from support.strategies import tokens_of
from support.turns import FINAL, PLAIN, TOOLS

CALL = "<|channel|>commentary to=functions.now code<|message|>"
PATCH = """
start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: "*** Add File: " /(.+)/ LF ("+" /(.*)/ LF)+
%import common.LF
"""
GBNF = 'root ::= "yes" | "no" [!?]+'

DATE = r"[0-9]{4}-[0-9]{2}/[^/]\/"
FORMATS: dict[str, tuple[TextFormat, list[str], list[str]]] = {
    "regex": (TextFormat("regex", DATE), ["2026-11/é/"], ["2026-1/", "2026-11/a", " 2026-11/a/"]),
    "anchored": (TextFormat("regex", "^[ab]+$"), ["abba"], ["abc", "a\n"]),
    "line break": (TextFormat("regex", "a\nb"), ["a\nb"], ["a\\nb"]),
    "lark": (
        TextFormat("lark", PATCH),
        ["*** Begin Patch\n*** Add File: x\n+a < b\n*** End Patch"],
        ["*** Begin Patch\n*** End Patch", "Here is it:\n*** Begin Patch\n"],
    ),
    "white space": (
        TextFormat("lark", 'start: "a"+\n%ignore " "\n# "a comment <|call|>'),
        ["aa a"],
        ["a\n"],
    ),
    "gbnf": (TextFormat("gbnf", GBNF), ["yes", "no!?"], ["no", "yes!"]),
}
CASES = [
    pytest.param(text_format, text, accepted, id=f"{name}-{text[:9]!r}")
    for name, (text_format, right, wrong) in FORMATS.items()
    for text, accepted in [*((text, True) for text in right), *((text, False) for text in wrong)]
]


def accepts(grammar: str, completion: str) -> bool:
    tokens = tokens_of(completion)
    matcher = Matcher(grammar)
    return matcher.accept_all(tokens) == len(tokens) and matcher.is_finished


@pytest.mark.parametrize(("text_format", "text", "accepted"), CASES)
def test_calls_follow_the_format_of_their_tool(
    text_format: TextFormat, text: str, accepted: bool
) -> None:
    grammar = turn_grammar(TOOLS, TurnOptions(tool_texts={"functions.now": text_format}))
    assert accepts(grammar, f"{CALL}{text}<|call|>") is accepted
    canonical = TurnOptions(tool_texts={"functions.now": text_format}, canonical=True)
    assert accepts(turn_grammar(TOOLS, canonical), f"{CALL}{text}<|call|>") is accepted
    assert accepts(grammar, f"{FINAL}{text}<|return|>")


ANSWERS: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "regex", "pattern": r"\d+"}, "12", "a"),
    ({"type": "choice", "choices": ["yes", 'a "no" é', "ye"]}, 'a "no" é', "no"),
    ({"type": "grammar", "grammar": PATCH[1:].replace("*** ", "")}, "", "x"),
    ({"type": "grammar", "grammar": GBNF}, "no!", "no"),
]


@pytest.mark.parametrize(("requested", "right", "wrong"), ANSWERS)
def test_answers_follow_a_format(requested: dict[str, Any], right: str, wrong: str) -> None:
    grammar = turn_grammar(PLAIN, TurnOptions(response_format=requested))
    right = right or "Begin Patch\nAdd File: x\n+\nEnd Patch\n"
    assert accepts(grammar, f"{FINAL}{right}<|return|>")
    assert not accepts(grammar, f"{FINAL}{wrong}<|return|>")


@pytest.mark.parametrize("value", [None, 5, [], [5], {}, b"a"])
@pytest.mark.parametrize(
    ("kind", "field"), [("regex", "pattern"), ("choice", "choices"), ("grammar", "grammar")]
)
def test_a_format_without_its_text_is_refused(kind: str, field: str, value: Any) -> None:
    for requested in ({"type": kind}, {"type": kind, field: value}):
        with pytest.raises(GrammarError, match=f"response_format: {field}.*: expected a"):
            turn_grammar(PLAIN, TurnOptions(response_format=requested))


@pytest.mark.parametrize(
    ("text_format", "problem"),
    [
        (TextFormat("regex", "(?=a)b"), "regex"),
        (TextFormat("regex", "("), "regex"),
        (TextFormat("regex", ""), "empty"),
        (TextFormat("lark", "start: a"), "unknown name"),
        (TextFormat("lark", "begin: /a/"), "start"),
        (TextFormat("lark", 'start: "a" <|call|>'), "cannot name tokens"),
        (TextFormat("lark", 'start: "a" <[200012]>'), "cannot name tokens"),
        (TextFormat("lark", 'start: "a"\n}\nstart: <|call|>\nb: %lark {\nstart: "b"'), "tokens"),
        (TextFormat("lark", 'start: "a"\n}\nc: "c"\nb: %lark {\nstart: "b"'), "compile"),
        (TextFormat("lark", '%llguidance {"no_forcing": true}\nstart: "a"'), "options"),
        (TextFormat("gbnf", "root ::= ("), "not GBNF"),
        (TextFormat("gbnf", "root ::= missing"), "not GBNF: Rule 'missing' not found"),
        (TextFormat("gbnf", 'root ::= "\\'), "not GBNF"),
        (TextFormat("gbnf", f'root ::= {"(" * 1000}"a"{")" * 1000}'), "line 1, column 110: more"),
        (TextFormat("gbnf", f'root ::= "a"\n  {"(" * 9000}'), "line 2, column 103: more than 100"),
        (TextFormat("regex", "a" * 70_000), "65,536"),
    ],
)
def test_what_is_no_format_of_text_is_refused(text_format: TextFormat, problem: str) -> None:
    with pytest.raises(GrammarError, match=problem) as caught:
        turn_grammar(TOOLS, TurnOptions(tool_texts={"functions.now": text_format}))
    assert caught.value.pointer == "tools/functions.now#/format/definition"


@pytest.mark.parametrize(
    ("gbnf", "text"),
    [
        (f'root ::= {"(" * 100}"a"{")" * 100}', "a"),
        ('root ::= "' + "(" * 500 + '" # ' + "(" * 500, "(" * 500),
        ("root ::= [" + "(" * 500 + "]", "("),
    ],
)
def test_groups_of_gbnf_nest_up_to_a_limit(gbnf: str, text: str) -> None:
    grammar = turn_grammar(PLAIN, TurnOptions(response_format={"type": "grammar", "grammar": gbnf}))
    assert accepts(grammar, f"{FINAL}{text}<|return|>")


def test_a_structural_tag_has_none() -> None:
    with pytest.raises(GrammarError, match="use turn_grammar"):
        structural_tag(PLAIN, TurnOptions(response_format={"type": "choice", "choices": ["a"]}))


def test_texts_violate_no_schema() -> None:
    call = Message.from_role_and_content(Role.ASSISTANT, "2026-11").with_channel("commentary")
    call.with_recipient("functions.now")
    options = TurnOptions(tool_texts={"functions.now": TextFormat("regex", DATE)})
    assert find_violations([call], TOOLS, options) == []
    assert find_violations([call], TOOLS) != []


# Structural tags

_CALL = {"begin": "<f=now>", "content": {"type": "json_schema", "json_schema": {"type": "object"}}}
_NOW: dict[str, Any] = {**_CALL, "end": "</f>"}
_STOP: dict[str, Any] = {"begin": "<f=stop>", "content": {"type": "regex", "pattern": "[0-9]+"}}
_STOP["end"] = ["</f>", "</stop>"]
_QUOTE: dict[str, Any] = {"begin": "<q>", "content": {"type": "any_text"}, "end": "</q>"}


def _tagged(**fields: Any) -> dict[str, Any]:
    return {"type": "structural_tag", "format": fields}


TAGS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "structures": (
        {
            "type": "structural_tag",
            "structures": [{"begin": "<f=now>", "schema": {"type": "object"}, "end": "</f>"}],
            "triggers": ["<f="],
        },
        ["Hi.", 'Wait: <f=now>{"a": 1}</f>', "<f=now>{}</f>, then <f=now>{}</f>."],
        ["<f=now>[]</f>", "<f=later>", "<f=now>{}", "a <f="],
    ),
    "triggered tags": (
        _tagged(type="triggered_tags", triggers=["<f=", "<q"], tags=[_NOW, _STOP, _QUOTE]),
        ["a<b", "<f=stop>12</stop><q>no <b> end</q>.", "<f=now>{}</f>"],
        ["<f=stop>1a</f>", "<q>", "<qq></q>"],
    ),
    "one tag": (
        _tagged(
            type="triggered_tags",
            triggers=["<f="],
            tags=[_NOW],
            at_least_one=True,
            stop_after_first=True,
        ),
        ["so <f=now>{}</f>"],
        ["so", "<f=now>{}</f>!"],
    ),
    "a sequence": (
        _tagged(
            type="sequence",
            elements=[
                {"type": "const_string", "value": "Answer: "},
                {"type": "or", "elements": [_STOP | {"type": "tag"}, _QUOTE | {"type": "tag"}]},
                {"type": "any_text"},
            ],
        ),
        ["Answer: <f=stop>1</f> so", "Answer: <q></q>"],
        ["<q></q>", "Answer: "],
    ),
    "tags with a separator": (
        _tagged(type="tags_with_separator", separator=", ", tags=[_STOP, _NOW]),
        ["", "<f=now>{}</f>, <f=stop>1</f>"],
        ["<f=now>{}</f>, ", "<f=now>{}</f><f=stop>1</f>"],
    ),
    "a grammar": (_tagged(type="grammar", grammar='root ::= "a" | "b"'), ["a"], ["c"]),
    "json": (_tagged(type="json_schema", json_schema=True), ["[1]"], ["x"]),
}


@pytest.mark.parametrize("name", TAGS)
def test_answers_follow_structural_tags(name: str) -> None:
    wanted, right, wrong = TAGS[name]
    grammar = turn_grammar(PLAIN, TurnOptions(response_format=wanted))
    for text in right:
        assert accepts(grammar, f"{FINAL}{text}<|return|>"), text
    for text in wrong:
        assert not accepts(grammar, f"{FINAL}{text}<|return|>"), text


BAD_TAGS: list[tuple[dict[str, Any], str]] = [
    ({"type": "structural_tag"}, "response_format#: structures: expected a list"),
    (_tagged(type="song"), "format: 'song' is unknown; use one of const_string"),
    (_tagged(type="const_string", value="<|call|>"), "value: the text of an answer cannot contain"),
    (_tagged(type="regex"), "format: the regex is missing"),
    (_tagged(type="any_text", excludes=["a"]), "the end of the text cannot be found"),
    (_tagged(type="sequence", elements=[{"type": "any_text"}, _QUOTE]), "elements/0: the end of"),
    (_tagged(type="triggered_tags", triggers=["<g"], tags=[_NOW]), "begin: it starts with no"),
    (_tagged(**_STOP | {"end": 3}, type="tag"), "end: expected text, found 3"),
    (
        _tagged(type="json_schema", json_schema={"type": "array", "uniqueItems": True}),
        "response_format#/format/json_schema/uniqueItems",
    ),
]


@pytest.mark.parametrize(("wanted", "problem"), BAD_TAGS)
def test_wrong_structural_tags_have_a_place(wanted: dict[str, Any], problem: str) -> None:
    with pytest.raises(GrammarError) as raised:
        turn_grammar(PLAIN, TurnOptions(response_format=wanted))
    assert problem in str(raised.value)


def test_structural_tags_nest_to_a_depth() -> None:
    wanted: dict[str, Any] = {"type": "any_text"}
    for _ in range(22):
        wanted = {"type": "sequence", "elements": [wanted]}
    with pytest.raises(GrammarError, match="deeper than 20 levels"):
        turn_grammar(PLAIN, TurnOptions(response_format=_tagged(**wanted)))
