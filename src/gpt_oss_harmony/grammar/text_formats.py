"""Formats of text: regular expressions, choices, structural tags, grammars in Lark or GBNF.

A client's grammar is nested in the grammar of the turn. It cannot name tokens, so it cannot change
the structure of the turn, and the names of its rules are separate.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from llguidance.gbnf_to_lark import gbnf_to_lark

from .errors import GrammarError
from .matcher import Matcher

# After a "<" comes text without "<" that cannot become <|word|>. The alternatives begin with a
# repetition if possible, because llguidance then uses the masks that it computed in advance.
_WORD = r"[a-z_0-9]+"
_AFTER_BAR = rf"([^<|]*|{_WORD}\|([^<>][^<]*)?|([a-z_0-9]*[^<|a-z_0-9][^<|]*)?\|[^<]*)"
_AFTER_LESS = rf"([^<|]*|[^<|]+\|[^<]*|\|{_AFTER_BAR})"
TEXT_PATTERN = rf"[^<]*(<{_AFTER_LESS})*"
"""A regular expression for text that spells neither a special token nor anything like one."""

_LONGEST = 64 * 1024
_DEEPEST = 100  # groups inside groups; the engine's own limit for Lark is lower
_OPAQUE = re.compile(r'(?://|#)[^\n]*|"(?:\\.|[^"\\\x00-\x1F\x7F])*"|/(?:\\.|[^/\\])+/')
"""Comments, strings and regular expressions of Lark; their text is not syntax."""
_GBNF_OPAQUE = re.compile(r'#[^\n]*|"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]')
"""Comments, strings and character classes of GBNF."""


class TextFormat(NamedTuple):
    """A format of text: ``regex`` (Rust's syntax, for the whole text), ``lark`` or ``gbnf``."""

    syntax: Literal["regex", "lark", "gbnf"]
    definition: str


def text_rule(text_format: TextFormat, pointer: str) -> str:
    """Write the text that a format allows, as a part of a rule.

    Raises `GrammarError` for what is not in the syntax, and for names of tokens.

    >>> print(text_rule(TextFormat("regex", "[0-9]+"), "#"))
    %lark {
    start: /[0-9]+/
    }
    """
    syntax, definition = text_format
    problem = ""
    if len(definition) > _LONGEST:
        problem = f"it has more than {_LONGEST:,} characters"
    elif not definition.strip():
        problem = "it is empty"
    elif syntax == "regex":
        definition = f"start: /{_in_slashes(definition)}/"
    elif syntax == "gbnf":
        problem = _too_deep(definition)
        try:
            definition = "" if problem else gbnf_to_lark(definition)
            # The translator begins with this line, which `_problem` refuses.
            definition = definition.replace("%llguidance {}", "", 1)
        except Exception as error:  # noqa: BLE001 - for an unknown rule it raises just that
            problem = f"it is not GBNF: {error}"
    if not problem:
        problem = _problem(definition)
    if problem:
        raise GrammarError(problem, remedy="send another definition", pointer=pointer)
    return f"%lark {{\n{definition.strip()}\n}}"


def _too_deep(gbnf: str) -> str:
    """Return the problem of groups that nest too deep for the translator, which is recursive."""
    syntax = _GBNF_OPAQUE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), gbnf)
    open_groups = 0
    for found in re.finditer(r"[()]", syntax):
        open_groups = max(0, open_groups + (1 if found[0] == "(" else -1))
        if open_groups > _DEEPEST:
            line = syntax.count("\n", 0, found.start()) + 1
            column = found.start() - syntax.rfind("\n", 0, found.start())
            return f"line {line}, column {column}: more than {_DEEPEST} groups are nested"
    return ""


def _in_slashes(pattern: str) -> str:
    """Escape the slashes and line breaks of a regular expression."""
    escaped = re.sub(r"\\.|/", lambda found: found[0] if found[0] != "/" else r"\/", pattern)
    return escaped.replace("\n", r"\n").replace("\r", r"\r")


def _problem(definition: str) -> str:
    """Return the problem of a grammar in Lark; empty if there is none."""
    syntax = _OPAQUE.sub(" ", definition)
    if "<" in syntax:
        return "a grammar of text cannot name tokens with '<'"
    if "%llguidance" in syntax:
        return "it cannot set options with %llguidance"
    try:
        Matcher(definition)
    except GrammarError as error:
        return error.problem
    return ""
