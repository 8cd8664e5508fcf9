"""Arguments that are nearly JSON: mended where they have one meaning, else as they were written."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any

import pytest

from gpt_oss_harmony import Message, Role, StreamableParser, load_harmony_encoding
from gpt_oss_harmony.parsing.mended_json import Mend, mend_json
from gpt_oss_harmony.parsing.partial_json import JsonTextError, PartialJson
from support.examples import examples

ENCODING = load_harmony_encoding("HarmonyGptOss")

MENDED: list[tuple[str, Any, set[str]]] = [
    ('{"a":1}}', {"a": 1}, {"bracket"}),
    ('{"a":[1,2]]}', {"a": [1, 2]}, {"bracket"}),
    ('{"a":1]}', {"a": 1}, {"bracket"}),
    ('{"a":[1,2}', {"a": [1, 2]}, {"bracket"}),
    ('{"a":{"b":[1]}}}', {"a": {"b": [1]}}, {"bracket"}),
    ('{{"a":1}}', {"a": 1}, {"bracket"}),
    ('"a":1}', {"a": 1}, {"bracket"}),
    ('{"a":[1,2]],"b":1}', {"a": [1, 2], "b": 1}, {"bracket"}),
    ('{"a":1},"b":2}', {"a": 1, "b": 2}, {"bracket"}),
    ('{"a":{"b":1],"c":2}', {"a": {"b": 1}, "c": 2}, {"bracket"}),
    ('{"a":[{"b":1]}', {"a": [{"b": 1}]}, {"bracket"}),
    ('{"a":(1,2)}', {"a": [1, 2]}, {"bracket"}),
    ('{"a":"x\ny\tz"}', {"a": "x\ny\tz"}, {"control"}),
    ('{"a":1,}', {"a": 1}, {"comma"}),
    ('{"a":[1,2,],}', {"a": [1, 2]}, {"comma"}),
    ('{"a":1,,"b":2}', {"a": 1, "b": 2}, {"comma"}),
    ('{,"a":1}', {"a": 1}, {"comma"}),
    ('{"a":1\n"b":2}', {"a": 1, "b": 2}, {"comma"}),
    ('{"a":["x" "y"]}', {"a": ["x", "y"]}, {"comma"}),
    ('{"a":1;"b":2}', {"a": 1, "b": 2}, {"comma"}),
    ('{"a"="b"}', {"a": "b"}, {"colon"}),
    ('{"a"：1，"b"：2}', {"a": 1, "b": 2}, {"colon", "comma"}),
    ('{"a" 1}', {"a": 1}, {"colon"}),
    ('// c\n{"a":1}', {"a": 1}, {"around"}),
    ('{"a":1, /* c */ "b":2}', {"a": 1, "b": 2}, {"comment"}),
    ('```json\n{"a":1}\n```', {"a": 1}, {"around"}),
    ('Here it is: {"a":1}\n\nDone.', {"a": 1}, {"around"}),
    ('\ufeff{"a":1}', {"a": 1}, {"around"}),
    ('{"a":1}{"a":1}', {"a": 1}, {"around"}),
    ('{"a":1}</tool_call>', {"a": 1}, {"around"}),
    ("{'a':'b'}", {"a": "b"}, {"quotes"}),
    ("{'a':'it\\'s'}", {"a": "it's"}, {"quotes", "escape"}),
    ("{'a':'it's'}", {"a": "it's"}, {"quotes"}),
    ("{'a':'say \"hi\"'}", {"a": 'say "hi"'}, {"quotes"}),
    ('{"a":"say "hi" now"}', {"a": 'say "hi" now'}, {"quotes"}),
    ('{"a":"He said "hi", then left"}', {"a": 'He said "hi", then left'}, {"quotes"}),
    ('{"c":"print("hi")\nprint(2)"}', {"c": 'print("hi")\nprint(2)'}, {"quotes", "control"}),
    ("{\u201ca\u201d: \u201cb\u201d}", {"a": "b"}, {"quotes"}),
    ("{a:1}", {"a": 1}, {"quotes"}),
    ('{1:"x"}', {"1": "x"}, {"quotes"}),
    ('{a":New York","b":1}', {"a": "New York", "b": 1}, {"quotes"}),
    ('{"a":"x" + "y"}', {"a": "xy"}, {"quotes"}),
    ('{"a":"""x\n"y" z"""}', {"a": 'x\n"y" z'}, {"quotes"}),
    ('{"a":["say "x" now","b"]}', {"a": ['say "x" now', "b"]}, {"quotes"}),
    ('{"r":"\\d+"}', {"r": "\\d+"}, {"escape"}),
    ('{"p":"C:\\Users"}', {"p": "C:\\Users"}, {"escape"}),
    ('{\\"a\\": \\"x\\\\ny\\"}', {"a": "x\ny"}, {"escape"}),
    ("{&quot;a&quot;: 1,}", {"a": 1}, {"escape", "comma"}),
    ('{"a":True,"b":None,"c":FALSE}', {"a": True, "b": None, "c": False}, {"literal"}),
    ('{"a":.5,"b":+1,"c":5.}', {"a": 0.5, "b": 1, "c": 5}, {"literal"}),
    ('{"a":0x1F,"b":1_000}', {"a": 31, "b": 1000}, {"literal"}),
    ("get_weather({'a': 1});", {"a": 1}, {"around", "quotes"}),
]

CUT = [
    '{"a":"x"', '{"a":"x', '{"a":', '{"a":[1,2', '{"a"', "{", '{"a":1,', '{"a":tru', '{"a":"x","b',
    '{"a":{"b":1}', '{"a":["x","y"', '{"a":"x\\', '{"a":"x"\n```', "{'a':'b'", '[{"a":1},',
    '{"a":1.', '```json\n{"a":1', '{"a":"b\nc', "Here: {a: [",
    '{"a":"b, "c":"d"}', '{"a":"say "hi"}', '{"a":"x}', '{{"a":1}', '{"a":1},', '{"a":{"b":1]',
    '{"k":{"a":"x","q":1},"m":"\\\\","n":tr',
]  # fmt: skip

UNCLEAR = [
    "", "no_args", "x = 1", '{"a":b}', '{"a":NaN}', '{"a":undefined}', '{"a":007}', '{"a":1 2}',
    '{"a":1}{"b":2}', '{"a":"x" y}', '{"a"}', '{"a":1}[2]', '{"a":1}, "b"',
    '{"p":"C:\\Users\\new"}', '{"a":"\\x41"}', '{"a":2024-01-01}', '{"a":"x\ny": 1}',
    "x = {'a': 1}\nprint(x)", "print({'a': 1}, [2])", "{1, 2}",
]  # fmt: skip

WORDS = [
    *("a", "it's", 'say "x"', "x\ny", "{", "}", "[", "]", ",", ":", "\\", "é🙂", "//", "#", "True"),
    *("'", " ", "\t", "```", "1"),
]


@pytest.mark.parametrize(("written", "value", "mends"), MENDED)
def test_what_has_one_meaning_is_mended(written: str, value: Any, mends: set[str]) -> None:
    mended = mend_json(written)
    assert mended is not None
    assert json.loads(mended.text) == value
    assert {mend.value for mend in mended.mends} == mends
    assert mend_json(mended.text) is None


def test_every_mend_has_a_case() -> None:
    assert {mend for _, _, mends in MENDED for mend in mends} == {mend.value for mend in Mend}


@pytest.mark.parametrize("written", [*CUT, *UNCLEAR])
def test_what_was_cut_or_is_unclear_stays(written: str) -> None:
    assert mend_json(written) is None


@pytest.mark.parametrize(("written", "value", "_mends"), MENDED)
def test_a_part_of_broken_json_is_no_other_value(
    written: str, value: Any, _mends: set[str]
) -> None:
    for end in range(len(written)):
        mended = mend_json(written[:end])
        is_other = mended is not None and json.loads(mended.text) != value
        assert not is_other or written[:end] == '{"a":[1,2]]', written[:end]


def test_sound_json_stays_and_nothing_is_completed() -> None:
    chance = random.Random(46)

    def value(depth: int) -> Any:
        kind = chance.randrange(7 if depth else 4)
        if kind < 2:
            return chance.choice([1, -2.5, 1e30, 0, 10**20, True, False, None])
        if kind < 4:
            return "".join(chance.choices(WORDS, k=chance.randrange(6)))
        if kind == 4:
            return [value(depth - 1) for _ in range(chance.randrange(4))]
        names = ("".join(chance.choices(WORDS, k=chance.randrange(1, 3))) for _ in range(3))
        return {name: value(depth - 1) for name in names}

    for _ in range(examples(2_000)):
        meant = {"k": value(3), "m": value(2)}
        text = json.dumps(
            meant, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 2])
        )
        assert mend_json(text) is None
        cut = text[: chance.randrange(1, len(text))]
        assert mend_json(cut) is None, cut
        for damaged in (
            f"{text}}}",
            f"{text}]",
            f"Sure: {text}",
            f"{text[:-1]},}}",
            f"```\n{text}\n```",
        ):
            mended = mend_json(damaged)
            assert mended is not None, damaged
            assert json.loads(mended.text) == meant, damaged


def parsed(text: str, **options: Any) -> StreamableParser:
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False, **options)
    for token in ENCODING.encode(text, allowed_special="all"):
        parser.process(token)
    return parser.process_eos()


CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{'a': 1}<|call|>"


def test_a_parser_mends_on_request_and_records_it() -> None:
    assert parsed(CALL).messages[0].text == "{'a': 1}"
    parser = parsed(CALL, mend_arguments=True)
    assert parser.messages[0].text == '{"a": 1}'
    assert [(found.kind.value, found.text) for found in parser.recoveries] == [
        ("mended-arguments", "{'a': 1}")
    ]
    for copied in (copy.copy(parser), pickle.loads(pickle.dumps(parser))):
        assert copied.messages == parser.messages
    tokens = ENCODING.encode(CALL, allowed_special="all")
    read = ENCODING.parse_messages_from_completion_tokens(
        tokens, Role.ASSISTANT, strict=False, mend_arguments=True
    )
    assert read == parser.messages


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>final<|message|>{'a': 1}<|return|>",
        "<|channel|>analysis to=python code<|message|>{'a': 1}<|call|>",
        CALL.removesuffix("<|call|>"),
    ],
    ids=["answer", "code", "cut"],
)
def test_only_calls_that_have_ended_and_take_json_are_mended(text: str) -> None:
    assert parsed(text, mend_arguments=True).messages[0].text == "{'a': 1}"


def test_a_function_may_refuse_mended_arguments() -> None:
    seen: list[str] = []

    def check(message: Message) -> bool:
        seen.append(message.text)
        return False

    parser = parsed(CALL, mend_arguments=check)
    assert (parser.messages[0].text, seen) == ("{'a': 1}", ['{"a": 1}'])
    assert parser.recoveries == []


def test_strict_mode_mends_nothing() -> None:
    with pytest.raises(ValueError, match="strict=False"):
        StreamableParser(ENCODING, Role.ASSISTANT, mend_arguments=True)


def test_partial_json_mends_at_its_end() -> None:
    reader = PartialJson(mends=True)
    for piece in ('{"a": [1', ", 2]", "], 'b':", " None}"):
        reader.feed(piece)
    assert (reader.value, reader.is_complete) == ({"a": [1, 2]}, False)
    assert reader.finish() == reader.value == {"a": [1, 2], "b": None}
    assert [mend.value for mend in reader.mended] == ["bracket", "quotes", "literal"]
    cut = PartialJson(mends=True)
    cut.feed("{'a': 1")
    with pytest.raises(JsonTextError, match="character 1: expected a name in quotes"):
        cut.finish()


@pytest.mark.slow
def test_hostile_text_takes_linear_time() -> None:
    for unit in ("{'", "[", '{"a":', "/*", '"', "\\", "'a' ", "},", "{{", '"a" "b" '):
        mend_json("{" + unit * 50_000)
