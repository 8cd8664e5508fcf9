"""The text of outputs, and the code of calls, as models and programs write them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony import ToolNamespaceConfig
from gpt_oss_harmony.conversation.built_in_tools import read_code
from gpt_oss_harmony.tools.python.output import (
    clean_text,
    joined_output,
    listed,
    output_with_notes,
)
from gpt_oss_harmony.tools.python.session import PythonSession, is_plain_path
from gpt_oss_harmony.tools.python.settings import PythonSettings
from gpt_oss_harmony.tools.tool import Attachment

CLEANED = {
    "plain": ("text\n", "text\n"),
    "colours": ("\x1b[0;31mred\x1b[0m", "red"),
    "8-bit sequences": ("\x9b31mred", "red"),
    "a title": ("\x1b]0;title\x07text", "text"),
    "a link": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"),
    "an unfinished sequence": ("text\x1b[31", "text"),
    "an unfinished title": ("text\x1b]0;title", "text"),
    "another character set": ("\x1b(Btext", "text"),
    "a lone escape": ("text\x1b", "text"),
    "Windows lines": ("a\r\nb\r\n", "a\nb\n"),
    "progress": ("\r 1 %\r50 %\r99 %\ndone", "99 %\ndone"),
    "progress that ends the line": ("1 %\r100 %\r\n", "100 %\n"),
    "backspaces": ("abc\b\bxy\n\b\b", "axy\n"),
    "control characters": ("a\0b\x07c\x0bd\x7fe\x85f", "abcdef"),
    "tabs stay": ("a\tb", "a\tb"),
    "lone surrogates": ("\ud800a\udfff", "\ufffda\ufffd"),
    "emoji stay": ("\N{GRINNING FACE}", "\N{GRINNING FACE}"),
}


def test_a_call_may_take_as_long_as_the_prompt_says() -> None:
    told = re.search(r"out after ([\d.]+) seconds", ToolNamespaceConfig.python().description or "")
    assert told is not None
    assert PythonSettings().seconds == float(told[1])


@pytest.mark.parametrize(("text", "clean"), CLEANED.values(), ids=CLEANED)
def test_text_is_cleaned(text: str, clean: str) -> None:
    assert clean_text(text) == clean


@given(st.text(st.sampled_from("ab\x1b\x9b[]0;mB\r\n\b\x07\\")))
def test_nothing_is_left_to_clean(text: str) -> None:
    clean = clean_text(text)
    assert clean_text(clean) == clean
    assert not set(clean) & set("\x1b\x9b\r\b\x07")


@pytest.mark.parametrize(
    "text", ["\x1b[", "\x1b]", "\r", "\b", "a\b", "\x1b]\x1b", "\x1b[0;", "a\r"]
)
def test_cleaning_takes_no_quadratic_time(text: str) -> None:
    clean_text(text * 200_000)


LETTERS = "abcdefghijklmnopqrstuvwxyz" * 3
JOINED = [
    # first, cut, last, characters, text
    ("abc", 0, "", 4, "abc"),
    ("abcd", 0, "", 4, "abcd"),
    ("abc", 0, "def", 6, "abcdef"),
    (LETTERS, 0, "", 40, "ab\n[74 characters are left out here]\nyz"),
    (LETTERS, 0, "", 39, "ab\n[74 characters are left out here]\nyz"),
    ("abc", 1000, "def", 44, "abc\n[1,000 characters are left out here]\ndef"),
    ("abc", 1000, "def", 42, "ab\n[1,002 characters are left out here]\nef"),
    ("\x1b[31mab", 5, "\x1b[0mcd", 40, "ab\n[5 characters are left out here]\ncd"),
    ("\x1b[31mab", 0, "\x1b[0mcd", 4, "abcd"),
    ("\x1b[3", 0, "1mab", 4, "ab"),
]


@pytest.mark.parametrize(("first", "cut", "last", "characters", "text"), JOINED)
def test_ends_are_joined(first: str, cut: int, last: str, characters: int, text: str) -> None:
    assert joined_output(first, cut, last, characters) == text


@given(st.text(max_size=400), st.integers(0, 1 << 62), st.text(), st.integers(100, 200))
def test_joined_output_is_never_long(first: str, cut: int, last: str, characters: int) -> None:
    assert len(joined_output(first, cut, last, characters)) <= characters


@given(
    st.lists(st.text(max_size=200), max_size=5),
    st.tuples(st.text(max_size=400), st.integers(0, 1 << 62), st.text(max_size=400)),
    st.lists(st.text(max_size=200), max_size=5),
    st.integers(100, 500),
)
def test_output_with_notes_is_never_long(
    before: list[str], output: tuple[str, int, str], after: list[str], characters: int
) -> None:
    assert 0 < len(output_with_notes(before, output, after, characters)) <= characters


def test_notes_stay_where_they_fit() -> None:
    text = output_with_notes(["[before]"], ("x" * 10_000, 0, ""), ["[after]", ""], 200)
    assert text.startswith("[before]\nxxx")
    assert text.endswith("xxx\n[after]")
    assert text.count("characters are left out here") == 1
    assert len(text) <= 200


NAMES: list[tuple[list[str], int, str]] = [
    ([], 0, ""),
    (["a"], 0, "a"),
    (["a", "b"], 1200, "a, b and 1,200 more"),
    ([str(number) for number in range(12)], 1, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more"),
    (["a" * 60 + "b" * 60], 0, "a" * 50 + "…" + "b" * 50),
]


@pytest.mark.parametrize(("names", "more", "text"), NAMES)
def test_names_are_listed(names: list[str], more: int, text: str) -> None:
    assert listed(names, more) == text


CODES = {
    "plain": ("print(1)\n", "print(1)\n"),
    "a fence": ("```python\nprint(1)\n```", "print(1)"),
    "a fence without a name": ("\n```\nprint(1)\n```\n", "print(1)"),
    "text with a fence": ("s = '''\n```python\nx\n```'''", "s = '''\n```python\nx\n```'''"),
    "two fences": ("```python\na\n```\n```python\nb\n```", "```python\na\n```\n```python\nb\n```"),
    "JSON": ('{"code": "print(1)"}', "print(1)"),
    "JSON with more": ('{"code": "print(1)", "timeout": 5}', "print(1)"),
    "JSON with line breaks": ('{"code": "a = 1\nb = 2"}', "a = 1\nb = 2"),
    "JSON of another tool": ('{"input": "print(1)"}', "print(1)"),
    "JSON with a fence": ('{"code": "```py\\nprint(1)\\n```"}', "print(1)"),
    "a dictionary": ("{'code': 'x'}", "{'code': 'x'}"),
    "a dictionary that is JSON": ('{"a": 1}', '{"a": 1}'),
    "code that is no text": ('{"code": 1}', '{"code": 1}'),
    "a set": ("{1, 2}", "{1, 2}"),
    "nested too deeply": ("{" * 100_000, "{" * 100_000),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("text", "code"), CODES.values(), ids=CODES)
def test_code_is_read(text: str, code: str) -> None:
    assert read_code(text) == code


PATHS = {
    "a.txt": True,
    "a/b c/ü.txt": True,
    "...": True,
    "": False,
    "/": False,
    "/etc/passwd": False,
    "..": False,
    "a/../b": False,
    "a//b": False,
    "a/": False,
    "./a": False,
    "a\nb": False,
    "a\\b": False,
    "a\x00b": False,
    "a\ud800": False,
    "a\u202eb": False,
    "x" * 1024: True,
    "x" * 1025: False,
}


@pytest.mark.parametrize(("path", "is_plain"), PATHS.items())
def test_paths_of_files(path: str, is_plain: bool) -> None:
    assert is_plain_path(path) is is_plain
    if not is_plain:
        with pytest.raises(ValueError, match="is not a path below a folder"):
            PythonSession().add_file(path, b"")


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("a.png", "image/png"),
        ("a.csv", "text/csv"),
        ("a.tar.gz", "application/octet-stream"),
        ("a", "application/octet-stream"),
    ],
)
def test_types_of_files(name: str, mime_type: str) -> None:
    assert Attachment.of_file(name, b"").mime_type == mime_type


@pytest.mark.parametrize(
    "wrong",
    [
        {"isolation": "perhaps"},
        {"output_characters": 10},
        {"output_characters": 1_000_000},
        {"attachment_bytes": 1 << 30},
        {"notebooks": 0},
    ],
)
def test_settings_have_limits(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"(?i){next(iter(wrong))}"):
        PythonSettings(**wrong)  # type: ignore[arg-type]
