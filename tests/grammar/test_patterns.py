"""Patterns and formats of JSON Schema, as the grammar engine enforces them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from gpt_oss_harmony.grammar.errors import GrammarError
from gpt_oss_harmony.grammar.json_schema import enforceable_schema, loosened_schema
from gpt_oss_harmony.grammar.json_schema.formats import (
    ENGINE_PATTERNS,
    FORMATS,
    REFUSED_FORMATS,
    find_format,
)
from gpt_oss_harmony.grammar.json_schema.pattern_parser import read_pattern
from gpt_oss_harmony.grammar.json_schema.patterns import (
    lengths,
    pattern_accepts,
    rust_pattern,
    writable_pattern,
)
from support.examples import examples
from support.json_matcher import accepts_value, json_matcher


def matcher(schema: object) -> LLMatcher:
    return json_matcher(enforceable_schema(schema))


ACCEPTED: dict[str, tuple[list[str], list[str]]] = {
    # pattern: texts that it accepts, texts that it does not
    "": (["", "a\n"], []),
    "b": (["abc", "\nb"], ["", "a"]),
    "^b": (["b", "ba"], ["ab", "\nb"]),
    "b$": (["ab"], ["ba", "b\n"]),
    "^$": ([""], ["a", "\n"]),
    "^^a$$": (["a"], ["aa"]),
    "^a|b$": (["ac", "cb", "ab"], ["ca", "bc"]),
    "(^|,)a(,|$)": (["a", "b,a,c", "a,"], ["ba", "ab"]),
    "^a.c$": (["abc", 'a"c', "a\\c", "a\tc", "aéc", "a😀c"], ["a\nc", "a\rc", "a\u2028c", "ac"]),
    "^\\s$": ([" ", "\t", "\n", "\u00a0", "\ufeff", "\u3000"], ["\u0085", "\u200b", "a"]),
    "^\\S$": (["a", "\u0085", '"', "\\"], [" ", "\ufeff"]),
    "^\\d$": (["0", "9"], ["٣", "a"]),
    "^\\D$": (["٣", "a", '"'], ["0"]),
    "^\\w$": (["a", "Z", "_", "0"], ["é", "-"]),
    "^\\W$": (["é", "-", "\\"], ["a", "_"]),
    '^[^"]$': (["a", "\\", "\n", "é"], ['"', ""]),
    "^[^\\\\]$": (["a", '"', "\n"], ["\\"]),
    '^[^"\\\\]+$': (["abc", "\n"], ['"', "\\", 'a"', "\\n"]),
    '^(?:[^"]|x)+$': (["a\\x"], ['x"']),
    "^[!-#]+$": (['!"#'], ["$"]),
    "^[a&&b]$": (["a", "&", "b"], ["c", "&&"]),
    "^[^a&&b]$": (["c"], ["a", "&", "b"]),
    "^[a~~b]$": (["~"], ["c"]),
    "^[+--]$": (["+", ",", "-"], ["a"]),
    "^[[a]$": (["[", "a"], ["]", "[a"]),
    "^[[a]]$": (["[]", "a]"], ["a", "[a]"]),
    "^[[:alpha:]]$": (["a]", ":]"], ["b", "a"]),
    "^[\\w-.]$": (["a", "-", "."], ["/"]),
    "^[\\d-x]$": (["1", "-", "x"], ["y"]),
    "^[a-]$": (["a", "-"], ["b"]),
    "^[\\]\\\\^-]+$": (["]\\^-"], ["["]),
    "^[^]$": (["a", "\n"], ["", "ab"]),
    "^a(?:[]|b)$": (["ab"], ["a"]),
    "^[\\b]$": (["\b"], ["b"]),
    "^\\x41\\u0042\\u{43}\\t$": (["ABC\t"], ["abc\t"]),
    "^\\ud83d\\ude00$": (["😀"], ["\ufffd"]),
    "^[😀-😎]$": (["😃"], ["😏"]),
    "^\\cJ$": (["\n"], ["cJ"]),
    "^\\/\\-\\.\\#\\ \\@$": (["/-.# @"], ["\\/-.# @"]),
    "^a{2}b{1,2}c{2,}$": (["aabcc", "aabbccc"], ["abcc", "aabbbcc", "aabc"]),
    "^a??b+?c*?$": (["b", "abbc"], ["a"]),
    "^(?<year>\\d+)$": (["2024"], ["x"]),
    "^(a|ab)(c|bcd)$": (["abcd", "ac"], ["ab"]),
    "^}]$": (["}]"], ["}"]),
    "^\\p{Lu}\\p{L}*$": (["Éa", "A"], ["éa", "1"]),
    "^\\P{Letter}$": (["1", "_"], ["a"]),
    "^[\\p{L}\\d_-]+$": (["é1_-"], [" "]),
    "^[^\\p{L}a]$": (["1", '"', "\\"], ["b", "a"]),
    "^\\$\\d\\^$": (["$1^"], ["1"]),
}

WHITE = {*"\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"}
WHITE |= set(map(chr, range(0x2000, 0x200B)))
"""White space as ECMAScript has it, which defines the patterns of JSON Schema."""


@pytest.mark.parametrize(
    ("letter", "members"),
    [
        ("d", set("0123456789")),
        ("w", {c for c in map(chr, range(128)) if c.isalnum() or c == "_"}),
        ("s", WHITE),
    ],
)
def test_shorthands_have_the_characters_of_ecmascript(letter: str, members: set[str]) -> None:
    near = {chr(ord(c) + step) for c in WHITE for step in (-1, 1)}
    for character in {*map(chr, range(256)), *WHITE, *near}:
        inside = character in members
        assert pattern_accepts(f"^\\{letter}$", character) == inside, ascii(character)
        assert pattern_accepts(f"^\\{letter.upper()}$", character) != inside, ascii(character)


@pytest.mark.parametrize("pattern", ACCEPTED)
def test_a_pattern_accepts_what_ecma_262_says(pattern: str) -> None:
    made = matcher({"type": "string", "pattern": pattern})
    for expected, texts in zip((True, False), ACCEPTED[pattern], strict=True):
        for text in texts:
            assert accepts_value(made, text) is expected, text
            assert pattern_accepts(pattern, text) is expected, text


REFUSED = {
    "(?=a)": "look-around",
    "a(?!b)": "look-around",
    "(?<=a)b": "look-around",
    "(a)\\1": "back reference",
    "(?<n>a)\\k<n>": "back reference",
    "\\bcat\\b": "word boundary",
    "\\B": "word boundary",
    "(?i)a": "(?i",
    "(?i:a)": "(?i",
    "(?>a)": "(?>",
    "(?P<n>a)": "(?P",
    "\\Aa\\z": "not an escape of ECMA-262",
    "\\Qa\\E": "not an escape of ECMA-262",
    "\\h": "not an escape of ECMA-262",
    "a^b": "^ inside",
    "a$b": "$ inside",
    "c(^a)?b": "^ inside",
    "x(^a|b)": "^ inside",
    "^*a": "anchor is repeated",
    "a++": "quantifier follows",
    "*a": "nothing to repeat",
    "a{,3}": "not a quantifier",
    "a{3,1}": "larger than the second",
    "a{2000}": "more than 1,000",
    "^((a{1,500}){1,500}){1,500}$": "more than 20,000",
    "[z-a]": "larger than the second",
    "[a": "not closed",
    "(a": "not closed",
    "a)": "without an opening one",
    "a\\": "ends the pattern",
    "\\p{Script=Greek}": "general category",
    "\\pL": "general category",
    "[\\P{L}]": "\\P in a class",
    "\\ud83d": "not a character",
    "\\u{110000}": "not a character",
    "^\\u0001$": "every text",
    "^a\\v$": "every text",
    "(" * 60 + "a" + ")" * 60: "nested groups",
    "a" * 20_000: "characters",
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_would_mean_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(REFUSED[pattern])) as caught:
        rust_pattern(pattern, "#/properties/a/pattern")
    assert caught.value.pointer == "#/properties/a/pattern"
    assert caught.value.remedy
    assert str(caught.value).startswith('cannot enforce "pattern" at #/properties/a/pattern: ')


def test_lengths_of_texts_are_known_from_the_pattern() -> None:
    assert lengths("^a{2,3}(b|cd)?$") == (2, 5)
    assert lengths("^a*b$") == (1, None)
    assert lengths("ab") == (2, None)
    assert lengths("^a|bc$") == (1, None)
    assert lengths("^a$|^bcd$") == (1, 3)
    # What the grammar cannot write has no length.
    assert lengths("^(?:[]?)$") == lengths("^(?:[a-c]*){0}$") == (0, 0)
    assert lengths(r"\0\$|a+.{2}") == (3, None)
    assert lengths(r"^(?:(?:[a-c])*?\cA|\D)$") == (1, 1)


WORDS = ["a", "b", "c", "[^b]", "[a-b]", "\\w", "\\s", '"', "\\\\", '[^"]', ".", "\\n", "1", "-"]
PATTERNS = st.recursive(
    st.sampled_from(WORDS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150))
@given(
    PATTERNS,
    st.sampled_from(["", "^"]),
    st.sampled_from(["", "$"]),
    st.lists(st.text('aabc1- "\\\n\té', max_size=6), min_size=1, max_size=8),
)
def test_a_pattern_means_the_same_to_the_engine(
    body: str, start: str, end: str, texts: list[str]
) -> None:
    pattern = f"{start}(?:{body}){end}"
    made = matcher({"type": "string", "pattern": pattern})
    shortest, longest = lengths(pattern)
    # Python's own engine is the judge; its $ accepts a line end as well.
    judge = re.compile(pattern.replace("$", "\\Z"), re.ASCII)
    for text in texts:
        expected = judge.search(text) is not None
        assert accepts_value(made, text) is expected
        assert pattern_accepts(pattern, text) is expected
        if expected:
            assert shortest <= len(text) <= (len(text) if longest is None else longest)


ODD_WORDS = st.sampled_from(["a", "[ab]", "[]", "[]?", r"\x01", "(?:a{3}|b)", "(?:b{2}|a{5})"])
ODD_COUNTS = st.sampled_from(["", "*", "+", "{0}", "{2}", "{4}", "{1,3}"])
ODD_PATTERNS = st.lists(
    st.lists(st.tuples(ODD_WORDS, ODD_COUNTS).map("(?:{0[0]}){0[1]}".format), max_size=3).map(
        "".join
    ),
    min_size=1,
    max_size=3,
).map(lambda parts: f"^(?:{'|'.join(parts)})*$" if len(parts) == 3 else f"^(?:{'|'.join(parts)})$")
ODD_TEXTS = st.fixed_dictionaries(
    {"type": st.just("string"), "pattern": ODD_PATTERNS},
    optional={"minLength": st.integers(0, 5), "maxLength": st.integers(1, 6)},
)


@settings(max_examples=examples(200))
@given(ODD_TEXTS)
@example({"type": "string", "pattern": "^(?:[]?)$", "minLength": 1})
@example({"type": "string", "pattern": r"\0\$|a+.{2}", "maxLength": 2})
@example({"type": "string", "pattern": r"^(?:(?:[a-c])*?\cA|\D)$", "minLength": 2})
@example({"type": "string", "pattern": "^(?:a{2})*$", "minLength": 3, "maxLength": 3})
@example({"type": "string", "pattern": r"\s\p{L}$", "minLength": 5})
def test_a_text_that_cannot_be_is_refused_before_the_engine_sees_it(text: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": text}, "required": ["a"]}
    loosened = loosened_schema(schema)
    json_matcher(loosened.schema)
    left_out = [error.pointer for error in loosened.unenforced]
    if not left_out:
        json_matcher(enforceable_schema(schema))
        return
    with pytest.raises(GrammarError) as caught:
        enforceable_schema(schema)
    assert caught.value.pointer in left_out


def test_names_that_the_engine_cannot_tell_apart_are_refused() -> None:
    names = ["(?:\\p{L}.|[é](?:[^\\s\\d])+?|b)", "^(?:\\W)$"]
    schema = {"type": "object", "patternProperties": {name: {"type": "null"} for name in names}}
    with pytest.raises(GrammarError) as caught:
        enforceable_schema(schema)
    assert caught.value.pointer == "#/patternProperties"
    json_matcher(loosened_schema(schema).schema)


LABEL = "a" * 63
FORMAT_TEXTS: dict[str, tuple[list[str], list[str]]] = {
    "date": (
        ["2024-02-29", "2000-02-29", "0004-02-29", "1999-12-31", "2023-04-30", "2400-02-29"],
        [
            "2023-02-29",
            "1900-02-29",
            "2100-02-29",
            "2024-02-30",
            "2023-04-31",
            "2023-13-01",
            "2023-00-10",
            "2023-1-01",
            "2023-01-32",
            "23-01-01",
            "2023-01-01Z",
            "",
        ],
    ),
    "time": (
        ["00:00:00Z", "23:59:59.123Z", "12:30:00+05:30", "12:30:00-00:00"],
        [
            "24:00:00Z",
            "12:60:00Z",
            "23:59:60Z",
            "12:00:00",
            "12:00Z",
            "12:00:00.Z",
            "1:00:00Z",
            "12:00:00+24:00",
            "12:00:00+01",
        ],
    ),
    "date-time": (
        ["2024-02-29T12:00:00Z", "1985-04-12T23:20:50.52-08:00"],
        ["2023-02-29T12:00:00Z", "2024-01-01 12:00:00Z", "2024-01-01T12:00:00", "2024-01-01"],
    ),
    "duration": (
        ["P1D", "PT1H", "P1Y2M3DT4H5M6S", "P3W", "PT0S", "P1Y2M", "PT1M2S"],
        ["P", "PT", "P1DT", "P1Y1D", "PT1H1S", "P1W1D", "1D", "P-1D", "P1.5D", "p1d"],
    ),
    "email": (
        ["a@b", "first.last+tag@example.com", "x_y@sub.example.org", f"{'a' * 64}@b.c"],
        [
            "",
            "@",
            "a@",
            "@b.c",
            "a b@c.d",
            "a@b@c.d",
            ".a@b.c",
            "a..b@c.d",
            "a@-b.c",
            "a@b..c",
            f"{'a' * 65}@b.c",
            f"a@{LABEL}.{LABEL}.{LABEL}.{LABEL}",
        ],
    ),
    "hostname": (
        [
            "a",
            "example.com",
            "1.example",
            "abc--d",
            "x",
            "xn",
            "xn-a",
            LABEL,
            f"{LABEL}.{LABEL}.{LABEL}.b",
        ],
        [
            "",
            "xn--nxasmq6b",
            "a.XN--b",
            "-a.com",
            "a-.com",
            "a..com",
            ".a",
            "a.",
            "a_b.com",
            f"{LABEL}a",
            f"{LABEL}.{LABEL}.{LABEL}.{LABEL}",
        ],
    ),
    "ipv4": (
        ["0.0.0.0", "255.255.255.255", "1.20.99.199"],
        ["256.1.1.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.04", "a.b.c.d", "1.2.3.4 "],
    ),
    "ipv6": (
        [
            "::",
            "::1",
            "1::",
            "1:2:3:4:5:6:7:8",
            "1::8",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "::ffff:1.2.3.4",
            "64:ff9b::1.2.3.4",
            "1:2:3:4:5:6:1.2.3.4",
            "1::3:4:5:6:7:8",
        ],
        [
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "1::2::3",
            ":::",
            "12345::",
            "g::",
            "1:",
            "",
            "1::2:3:4:5:6:7:8",
            "1.2.3.4::",
            "1:2:3:4:5:6:7:1.2.3.4",
            "::1.2.3",
            "127.0.0.1",
        ],
    ),
    "uuid": (
        ["123e4567-e89b-12d3-a456-426614174000", "ABCDEFAB-CDEF-ABCD-EFAB-CDEFABCDEFAB"],
        ["123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g", ""],
    ),
    "uri": (
        [
            "http://example.com",
            "https://u:p@example.com:8080/a/b?c=d&e#f",
            "mailto:a@b.c",
            "a:",
            "urn:isbn:045",
            "file:///etc/hosts",
            "http://[::1]/",
            "http://[::ffff:1.2.3.4]:80",
        ],
        [
            "",
            "example.com",
            "/path",
            "//h/x",
            "http://a b",
            "http://a/%zz",
            "1http://x",
            ":",
            "http://a/<b>",
            "http://[::1",
            "http://é.com",
            "a:b#c#d",
        ],
    ),
    "uri-reference": (
        ["", "/path", "//h/x", "a/b?c#d", "#f", "../a", "http://a/b", "./a:b"],
        ["a b", "%", "1:b", "\\", "[a]"],
    ),
    "iri": (["http://é.com/日本?\ue000", "urn:ß"], ["é", "http://a b", "http://a/\ue000"]),
    "iri-reference": (["é", "#日本", "/ä?ö"], ["é ü", "\ue000", "<é>"]),
    "json-pointer": (["", "/", "/a/0", "/~0~1", '/"/\\'], ["a", "/~2", "/~", "#/a"]),
    "uri-template": (
        ["", "/a", "/{b}", "{+c,d*}{?e:3,f.g}", "a%20b", "é{%41}"],
        ["{", "}", "{}", "{a,}", "{a:0}", "{a:10000}", "a b", "%2", "{a..b}", "{=a=b}"],
    ),
    "relative-json-pointer": (["0", "1/a", "12#", "0/"], ["", "01", "a", "-1", "1#/a"]),
}


def test_each_format_has_texts() -> None:
    assert FORMAT_TEXTS.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FORMAT_TEXTS)
def test_a_format_accepts_what_its_rfc_says(name: str) -> None:
    made = matcher({"type": "string", "format": name})
    for expected, texts in zip((True, False), FORMAT_TEXTS[name], strict=True):
        for text in texts:
            assert accepts_value(made, text) is expected, text


@pytest.mark.parametrize("name", sorted(REFUSED_FORMATS))
def test_a_format_that_is_no_pattern_is_refused(name: str) -> None:
    with pytest.raises(GrammarError) as caught:
        enforceable_schema({"items": {"type": "string", "format": name}})
    assert caught.value.pointer == "#/items/format"


@pytest.mark.parametrize("name", ["int32", "int64", "double", "password", "binary", "byte", "x"])
def test_a_format_that_the_specification_does_not_know_asserts_nothing(name: str) -> None:
    assert find_format(name, "#/format") is None
    assert enforceable_schema({"type": "string", "format": name}) == {"type": "string"}


def test_a_format_of_texts_is_nothing_to_a_number() -> None:
    assert enforceable_schema({"type": "integer", "format": "regex"}) == {"type": "integer"}


def test_formats_are_written_for_the_engine_as_their_patterns_are() -> None:
    assert len(ENGINE_PATTERNS) > 15
    for pattern, written in ENGINE_PATTERNS.items():
        assert read_pattern(written) == writable_pattern(pattern)
