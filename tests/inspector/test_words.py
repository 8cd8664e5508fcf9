"""The page's words in four languages: each sentence stands in one table, and nowhere else.

The scripts are read as tokens, so that comments and the code around a sentence do not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from support.inspector_client import client

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "gpt_oss_harmony" / "inspector" / "page"
SCRIPTS = {
    path.name: path.read_text(encoding="utf-8")
    for path in [*PAGE.glob("*.js"), ROOT / "scripts" / "playground" / "worker.js"]
}
Translations: TypeAlias = "Mapping[str, str | Mapping[str, str]]"
WORDS: Mapping[str, Translations] = json.loads((PAGE / "words.json").read_text(encoding="utf-8"))

PLURALS = {"ja": {"other"}, "ko": {"other"}, "ru": {"one", "few", "many"}}
"""The languages, and the categories of whole numbers in `Intl.PluralRules`."""


class Token(NamedTuple):
    """A token of JavaScript: a sign, a name, a `string`, or the text of a `template`."""

    kind: str
    text: str


_TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<string> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<name> [\w$\#]+ )
  | (?P<space> \s+ )
  | (?P<template> ` )
  | (?P<sign> => | [!=]==? | \+= | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*")
_BEFORE_A_REGEX = {"(", ",", "=", ":", "[", "!", "&", "|", "?", "{", "}", ";", "return"}


def read_script(text: str, start: int = 0, *, inside: bool = False) -> tuple[list[Token], int]:
    """Cut a script into tokens; `inside` a template, up to the brace that ends an expression."""
    tokens: list[Token] = []
    depth = 0
    while start < len(text):
        is_operand = not tokens or tokens[-1].text in _BEFORE_A_REGEX
        if is_operand and (regex := _REGEX.match(text, start)):
            tokens.append(Token("regex", regex[0]))
            start = regex.end()
            continue
        match = _TOKEN.match(text, start)
        assert match is not None
        start = match.end()
        kind = str(match.lastgroup)
        if kind == "template":
            made, start = read_template(text, start)
            tokens += made
        elif kind == "string":
            tokens.append(Token("string", _unescaped(match[0][1:-1])))
        elif kind not in ("comment", "space"):
            depth += {"{": 1, "}": -1}.get(match[0], 0)
            if inside and depth < 0:
                return tokens, start
            tokens.append(Token(kind, match[0]))
    return tokens, start


def read_template(text: str, start: int) -> tuple[list[Token], int]:
    """Read a template from behind its first quote: its texts, and the tokens between them."""
    tokens: list[Token] = []
    written = ""
    while text[start] != "`":
        if text.startswith("${", start):
            tokens.append(Token("template", _unescaped(written)))
            written = ""
            inner, start = read_script(text, start + 2, inside=True)
            # In brackets, so that the commas in it separate no arguments of the call around it.
            tokens += [Token("sign", "("), *inner, Token("sign", ")")]
            continue
        length = 2 if text[start] == "\\" else 1
        written += text[start : start + length]
        start += length
    return [*tokens, Token("template", _unescaped(written))], start + 1


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text, flags=re.DOTALL)


class Call(NamedTuple):
    """A call: what is called, the place of its name, and those of each argument."""

    name: str
    start: int
    arguments: list[list[int]]


def calls_in(tokens: list[Token], names: set[str]) -> Iterator[Call]:
    """Find the calls of functions, not of methods, with these names."""
    for start in range(1, len(tokens) - 1):
        before, name, sign = (token.text for token in tokens[start - 1 : start + 2])
        if name not in names or sign != "(" or before in (".", "function", "?."):
            continue
        arguments: list[list[int]] = [[]]
        depth = 1
        for at in range(start + 2, len(tokens)):
            token = tokens[at]
            if token.kind == "sign":
                depth += (token.text in "([{") - (token.text in ")]}")
            if depth == 0:
                break
            if token == Token("sign", ",") and depth == 1:
                arguments.append([])
            else:
                arguments[-1].append(at)
        yield Call(name, start, [one for one in arguments if one])


def literal(argument: list[Token]) -> str:
    """Return the text of strings that are added up; fails for whatever else."""
    assert all(token.kind == "string" or token.text == "+" for token in argument), argument
    return "".join(token.text for token in argument if token.kind == "string")


class Script(NamedTuple):
    """What a script says: the sentences that it looks up, and all other strings."""

    sentences: dict[str, set[str]]
    """The names of the values that each of them gets."""
    others: list[Token]


def read_words(name: str) -> Script:
    """Read what a script says; only `counted`, in words.js, looks up what it was given."""
    tokens, _ = read_script(SCRIPTS[name])
    sentences: dict[str, set[str]] = {}
    inside: set[int] = set()
    for call in calls_in(tokens, {"phrase", "counted"}):
        arguments = [[tokens[at] for at in places] for places in call.arguments]
        if call.name == "counted":
            _, one, many = arguments
            assert values_in(literal(one)) <= values_in(literal(many)) == {"count"}, many
            sentences[literal(many)] = {"count"}
            inside.update({call.start}, *call.arguments[1:])
        elif name != "words.js" or arguments[0] != [Token("name", "english")]:
            words = literal(arguments[0])
            sentences[words] = values_in(words)
            inside.update({call.start}, call.arguments[0])
            assert len(arguments) == 1 + bool(sentences[words]), words
            # A variable with the values has one name; an object has all of them.
            given = {token.text for one in arguments[1:] for token in one if token.kind == "name"}
            assert len(given) == 1 or sentences[words] <= given, words
    return Script(sentences, [token for at, token in enumerate(tokens) if at not in inside])


def values_in(words: str) -> set[str]:
    """The names in braces."""
    return set(re.findall(r"\{(\w+)\}", words))


READ = {name: read_words(name) for name in SCRIPTS}
SENTENCES = {words: values for one in READ.values() for words, values in one.sentences.items()}


def test_the_table_has_each_sentence_of_the_page_and_no_other() -> None:
    assert SENTENCES.keys() == WORDS.keys()
    assert len(WORDS) > 400
    sent = client.get("/inspector/words.json")
    assert sent.headers["content-type"] == "application/json"
    assert sent.json() == WORDS


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_class_is_a_word_of_a_language(name: str) -> None:
    assert not re.search(r"classList\.\w+\(phrase|class: phrase", SCRIPTS[name]), name


@pytest.mark.parametrize("language", PLURALS)
def test_each_sentence_is_translated_with_its_values(language: str) -> None:
    for english, translations in WORDS.items():
        assert translations.keys() == PLURALS.keys(), english
        found = translations[language]
        if not isinstance(found, str):
            assert found.keys() == PLURALS[language], english
            assert "count" in SENTENCES[english], english
        for words in [found] if isinstance(found, str) else found.values():
            assert sorted(re.findall(r"\{\w+\}", words)) == sorted(
                re.findall(r"\{\w+\}", english)
            ), words
            special = r"<\|\w+\|>"
            assert sorted(re.findall(special, words)) == sorted(re.findall(special, english)), words
            assert words.strip(), english


UNTRANSLATED = {"harmony JSON"}
"""Translations in letters of the English alphabet alone, which have words of two letters."""
OF_LANGUAGE = {"ja": r"[\u3040-\u30ff\u4e00-\u9fff]", "ko": r"[\uac00-\ud7a3]", "ru": r"[А-яё]"}


@pytest.mark.parametrize("language", PLURALS)
def test_each_translation_is_in_its_language(language: str) -> None:
    for translations in WORDS.values():
        found = translations[language]
        for words in [found] if isinstance(found, str) else found.values():
            bare = re.sub(r"\{\w+\}", "", words)
            has_letters = re.search("[A-Za-z]{3}", bare) or re.search(OF_LANGUAGE[language], bare)
            if has_letters and bare not in UNTRANSLATED:
                assert re.search(OF_LANGUAGE[language], bare), words


TEXT_ARGUMENTS = {"element": 2, "fill": 1, "button": 0, "labelled": 0, "lesson": 0, "announce": 0}
"""The functions that put text on the page, and the first of their arguments that may be text."""
TEXT_FIELDS = {"title", "placeholder", "label", "keys", "aria-label", "textContent", "words"}
"""The fields and attributes that people read."""
SHOWN = {
    *("JSON", "Python", "harmony ", "inspect", "playground"),  # names
    *('{"temperature": 20, "sunny": true}', "YYYY-MM-DD"),  # what to write in a field
    '[{"name": "now", "description": "Tells the time.", "parameters": {…}}]',
    '{"name": "list", "json_schema": {…}}',
    "git clone https://github.com/gpt-oss-harmony/gpt-oss-harmony && cd gpt-oss-harmony\n"
    "pip install '.[inspect]'\nharmony inspect",
    *("harmony inspect demo       # ", "harmony inspect MODEL      # "),
}
"""What is shown in every language."""


def has_words(token: Token) -> bool:
    return token.kind in ("string", "template") and re.search("[A-Za-z]{2}", token.text) is not None


def texts_on_the_page(tokens: list[Token]) -> Iterator[str]:
    """The literals where text of the page stands: arguments, fields, properties."""
    for call in calls_in(tokens, set(TEXT_ARGUMENTS)):
        for argument in call.arguments[TEXT_ARGUMENTS[call.name] :]:
            yield from texts_in([tokens[at] for at in argument])
    for at in range(len(tokens) - 2):
        if tokens[at].text in TEXT_FIELDS and tokens[at + 1].text in (":", "=", "+="):
            yield from texts_in(tokens[at + 2 :], until=",;}")


def texts_in(tokens: list[Token], until: str = "") -> Iterator[str]:
    """The literals that an expression may be; what is deeper belongs to another expression."""
    depth = 0
    before = ""
    for token in tokens:
        if token.kind == "sign":
            if depth == 0 and token.text in until:
                return
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and has_words(token) and before not in ("===", "!=="):
            yield token.text
        before = token.text


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_text_of_the_page_stands_outside_the_table(name: str) -> None:
    assert set(texts_on_the_page(READ[name].others)) <= SHOWN


DATA = {
    "api.js": {"ApiError", "Content-Type", "AbortError", "Bearer "},
    "content-fields.js": {
        *("Low", "Medium", "High"),
        "You are ChatGPT, a large language model trained by OpenAI.",
    },
    "editor.js": {"Chat Completions", "Responses"},
    "fragment.js": {"it holds more than 16 MiB"},  # not shown: the link holds no conversation
    "live.js": {"broken off"},
    "problems.js": {"Unexpected EOS while waiting for message header to complete"},
    "python.js": {"The page is not kept for use without a network:"},  # for the console
    "reading-panel.js": {"Content", "Header"},
    "reading.js": {"Content"},
    "sampling-form.js": {"Low", "Medium", "High"},
    "state.js": {"expected an object", "expected objects in it", "expected texts in it"}
    | {"unknown form: "},  # not shown either
    "token-view.js": {"there is no token "},  # an error of the page itself
    "turn-figures.js": {"broken off"},
    "words.js": {"English"},
    "worker.js": {
        "Content-Type",
        "not a file of the playground: ",  # an error of Pyodide's
        "The browser has no place for this file, and loads it again next time:",  # for the console
    },
}
"""Literals that look like sentences, and are names, data or words for the console."""
KEYS = {"Enter", "Escape", "Files", "Home", "End", "PageUp", "PageDown"} | {
    f"Arrow{side}" for side in ("Left", "Right", "Up", "Down")
}


def looks_like_words(text: str) -> bool:
    """Whether a text begins with a capital letter, or has two words of two letters or more."""
    is_code = re.search(r"(^|\s)[.#:]\w|[>\[\]=]|^--|^\W*$", text) or text in KEYS
    return not is_code and re.search(r"^[A-Z][a-z]|\b[a-z]{2,} [a-z]{2,}\b", text) is not None


def without_names(tokens: list[Token]) -> Iterator[Token]:
    """Leave out the names of modules, classes of elements and selectors."""
    for at, token in enumerate(tokens):
        before = [other.text for other in tokens[max(at - 8, 0) : at]]
        is_class = "class" in before or "className" in before
        is_selector = "querySelector" in before or "closest" in before
        if not is_class and not is_selector and "from" not in before[-1:]:
            yield token


@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - {"examples.js"}))
def test_no_sentence_stands_outside_the_table(name: str) -> None:
    found = {
        token.text
        for token in without_names(READ[name].others)
        if has_words(token) and looks_like_words(token.text)
    }
    assert found - SHOWN == DATA.get(name, set())


def test_the_document_and_its_style_have_no_words() -> None:
    texts = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            texts.append(data.strip())

    Reader().feed((PAGE / "index.html").read_text(encoding="utf-8"))
    # A name, and the one sentence for those without the scripts that could translate it.
    assert set(texts) - {""} == {"harmony inspect", "The inspector needs JavaScript."}
    for path in PAGE.glob("*.css"):
        for content in re.findall(r"content: ([^;]*);", path.read_text(encoding="utf-8")):
            written = re.findall(r'"([^"]*)"', content)
            assert not any(re.search("[A-Za-z]{2}", text) for text in written), path.name
