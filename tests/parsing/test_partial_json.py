"""JSON while it is written: what Python reads of the whole, and what jiter reads of each prefix."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterable
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpt_oss_harmony import Role, StreamableParser, load_harmony_encoding
from gpt_oss_harmony.parsing.partial_json import (
    LEVEL_LIMIT,
    JsonBodies,
    JsonDelta,
    JsonTextError,
    PartialJson,
)

ENCODING = load_harmony_encoding("HarmonyGptOss")
TEXTS = st.text(max_size=6) | st.sampled_from(['"\\\n', "🦜é", "\x00\x1f", "\ud83d", "{[,:"])
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
JSON_TEXTS = st.builds(
    lambda value, indent, separators, is_ascii: json.dumps(
        value, indent=indent, separators=separators, ensure_ascii=is_ascii
    ),
    VALUES,
    st.sampled_from([None, 1]),
    st.sampled_from([None, (",", ":"), (" ,", "\t:\r\n")]),
    st.booleans(),
)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(places)]


def read(pieces: Iterable[str]) -> Any:
    reader = PartialJson()
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()


@example('"\\ud83d\\ud83d\\udd9c"', [])
@given(JSON_TEXTS, st.lists(st.integers(min_value=0), max_size=8))
def test_the_whole_is_what_python_reads(text: str, cuts: list[int]) -> None:
    reader = PartialJson()
    for piece in pieces(text, cuts):
        reader.feed(piece)
    assert reader.finish() == json.loads(text)
    assert reader.open_path is None


def parsed_by_jiter(text: str) -> Any:
    """Parse a prefix from its beginning; numbers and words at its end may go on."""
    jiter = pytest.importorskip("jiter")  # which comes with OpenAI's SDK
    ending = text.rstrip("0123456789+-.eE")
    is_inside = ending.replace("\\\\", "").replace('\\"', "").count('"') % 2
    cut = text if is_inside else ending
    return jiter.from_json(cut.encode(), partial_mode="trailing-strings") if cut.strip() else None


PREFIXES = [
    '{"a": [1, -2.5e3, true, null], "b c": {"d": "e\\n\\u00e9\\ud83e\\udd9c", "f": ""}, "g": [[]]}',
    '[{"name": "Ada"}, {"name": "Grace", "tags": []}, "a\\"b", 12, {}]',
    '"only a text"',
    '{"a":1,"b":[1,2,"c"],"d":{"e":null,"f":"g"},"h":[[],{}]}',  # no white space
]


@pytest.mark.parametrize("text", PREFIXES)
def test_each_prefix_is_what_jiter_reads(text: str) -> None:
    reader = PartialJson()
    for end, character in enumerate(text, start=1):
        reader.feed(character)
        prefix = text[:end]
        if prefix[-1] in "0123456789.-+e\\u" or "\\u" in prefix[-12:]:
            continue  # jiter shows a number before it is complete, and no half of a pair
        assert reader.value == parsed_by_jiter(prefix), prefix


@given(JSON_TEXTS, st.lists(st.integers(min_value=0), max_size=8))
def test_deltas_build_the_value(text: str, cuts: list[int]) -> None:
    """Text that strings gained, and complete values, are all that a page needs."""
    reader, texts, complete = PartialJson(), dict[Any, str](), dict[Any, Any]()
    for piece in pieces(text, cuts):
        for path, value, is_complete in reader.feed(piece):
            assert path not in complete
            if isinstance(value, str):
                texts[path] = texts.get(path, "") + value
            if is_complete:
                complete[path] = texts.get(path, value)
    whole = reader.finish()
    if isinstance(whole, (int, float)) and not isinstance(whole, bool):
        complete[()] = whole  # a number alone has no end

    def check(value: Any, path: tuple[Any, ...]) -> None:
        assert complete.pop(path) == value
        for key, inner in value.items() if isinstance(value, dict) else ():
            check(inner, (*path, key))
        for index, inner in enumerate(value) if isinstance(value, list) else ():
            check(inner, (*path, index))

    check(whole, ())
    assert not complete


def test_paths_say_what_is_complete() -> None:
    reader = PartialJson()
    seen = []
    for piece in ('{"to', 'wn": ', '"Rome', '", "d', 'ays": [', "1,", " 2]", ', "on": tr', "ue}"):
        reader.feed(piece)
        seen.append((copy.deepcopy(reader.value), reader.open_path))
    assert seen == [
        ({}, ()),
        ({}, ("town",)),
        ({"town": "Rome"}, ("town",)),
        ({"town": "Rome"}, ()),
        ({"town": "Rome", "days": []}, ("days", 0)),
        ({"town": "Rome", "days": [1]}, ("days", 1)),
        ({"town": "Rome", "days": [1, 2]}, ()),
        ({"town": "Rome", "days": [1, 2]}, ("on",)),
        ({"town": "Rome", "days": [1, 2], "on": True}, None),
    ]


@given(
    st.text(alphabet='{}[]",:\\ntrue0-1.e u', max_size=12)
    | st.builds(
        lambda text, at, more: text[:at] + more + text[at:],
        JSON_TEXTS,
        st.integers(0, 9),
        st.sampled_from(["", ",", "]", "}", '"', "0", " ", "tru"]),
    )
)
def test_a_text_is_read_if_python_reads_it(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(JsonTextError):
            read(text)
    else:
        assert read([text]) == expected


WRONG = [
    ('{"a": 1,}', "character 8: expected a name in quotes, found '}'"),
    ('{"a" 1}', "character 5: expected a colon, found '1'"),
    ("[1 2]", "character 3: expected a comma or the end of the list or object, found '2'"),
    ("[01]", "character 3: '01' is no number"),
    ("[" + "0" * 50 + "]", f"character 51: '{'0' * 40}' is no number"),
    ("[nul]", "character 4: expected null, found ']'"),
    ('["\\x"]', "character 3: expected an escape such as \\n, found 'x'"),
    ('["a\nb"]', "character 3: expected a character, or an escape such as \\n, found '\\n'"),
    ('["\\u12g"]', "character 6: expected a hexadecimal digit, found 'g'"),
    ("[[],]", "character 4: expected a value, found ']'"),
    ('{"a": {},}', "character 9: expected a name in quotes, found '}'"),
    ("{} {}", "character 3: expected nothing after the value, found '{'"),
    ("[１]", "character 1: expected a value, found '１'"),
    ("[NaN]", "character 1: expected a value, found 'N'"),
    ("9" * 5000 + " ", "character 5000: the number has 5,000 digits"),
    (
        "[" * (LEVEL_LIMIT + 1),
        f"character {LEVEL_LIMIT}: values nest deeper than 500 levels",
    ),
]


@pytest.mark.parametrize(("text", "problem"), WRONG, ids=[text[:9] for text, _ in WRONG])
def test_errors_have_a_place(text: str, problem: str) -> None:
    for pieces in (text, [text]):
        with pytest.raises(JsonTextError) as raised:
            read(pieces)
        assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("sound", "wrong", "value"),
    [
        ('{"a":1}', "}", {"a": 1}),
        ('{"a":1,', "}", {"a": 1}),
        ("[1,", "]", [1]),
        ('{"a":"b', "\n", {"a": "b"}),
    ],
)
def test_an_error_changes_nothing_and_stays(sound: str, wrong: str, value: Any) -> None:
    reader = PartialJson()
    reader.feed(sound)
    for _ in range(2):
        for ended in (lambda: reader.feed(wrong), reader.finish):
            with pytest.raises(JsonTextError, match=f"^character {len(sound)}: "):
                ended()
    assert reader.problem is not None
    assert reader.problem.position == len(sound)
    assert (reader.value, reader.is_complete) == (value, False)


@pytest.mark.parametrize(("begun", "rest", "value"), [("-", "1", -1), ('{"a":1', "2}", {"a": 12})])
def test_an_end_too_early_changes_nothing(begun: str, rest: str, value: Any) -> None:
    reader = PartialJson()
    reader.feed(begun)
    before = copy.deepcopy(reader.value)
    with pytest.raises(JsonTextError):
        reader.finish()
    assert reader.value == before
    reader.feed(rest)
    assert reader.finish() == value


@pytest.mark.parametrize("text", ["", '{"a": ', '"a', "-", "tru", "[1"])
def test_a_value_must_be_complete(text: str) -> None:
    reader = PartialJson()
    reader.feed(text)
    with pytest.raises(JsonTextError):
        reader.finish()


def test_bodies_of_a_stream() -> None:
    text = (
        "<|channel|>analysis<|message|>{<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.f <|constrain|>json<|message|>{"a": "bc", "d": 1}<|call|>'
        "<|start|>assistant<|channel|>final<|message|>Not JSON.<|return|>"
    )
    parser, bodies = StreamableParser(ENCODING, Role.ASSISTANT), JsonBodies()
    deltas: list[JsonDelta] = []
    for token in ENCODING.encode(text, allowed_special="all"):
        for body in bodies.take(parser.process_many([token])):
            assert (body.message, body.recipient) == (1, "functions.f")
            deltas += body.deltas
    assert deltas == [(("a",), "bc", False), (("a",), "", True), (("d",), 1, True), ((), ANY, True)]
    assert list(bodies.bodies) == [1, 2]
    assert bodies.bodies[1].reader.finish() == {"a": "bc", "d": 1}
    assert str(bodies.bodies[2].problem) == "character 0: expected a value, found 'N'"
