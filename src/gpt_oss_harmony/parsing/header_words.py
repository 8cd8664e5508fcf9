"""The words of damaged headers: header tokens in; words, and what each of them may mean, out.

A word does not decide anything here. `least_cost` weighs the meanings against each other.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher
from itertools import chain, pairwise
from typing import NamedTuple

from ..conversation.built_in_tools import BUILT_IN_TOOLS, built_in_recipients
from ..conversation.content import CHANNELS
from ..conversation.messages import INVISIBLE, INVISIBLE_RUN, ROLES, Role
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT, FIRST_SPECIAL
from ..tokens.tokenizer import Tokenizer

TYPES = ("json", "code")
KNOWN_TYPES = frozenset((*TYPES, *(CONSTRAIN_TEXT + name for name in TYPES)))
_LATER_WORDS = ("to=", *TYPES, *CHANNELS)

LONGEST_NAME = 256
"""Characters: a longer word is not a tool's name."""

MOST_WORDS = 64
"""A header's later words are prose; so a header of any length is read in linear time."""

LONGEST_LOOP = 6
"""Words: longer parts of a header are not repeated as a whole."""

QUOTES = "\"'`:,"


def begins_later_word(text: str) -> bool:
    """Whether text begins a word that stands behind the role: where the tokens may be cut."""
    return text.startswith("to=") or any(word.startswith(text) for word in _LATER_WORDS)


class Piece(NamedTuple):
    """A special token of a header (None before the first) and the text that follows it."""

    marker: int | None
    text: str


def split_header(tokens: Sequence[int], tokenizer: Tokenizer) -> list[Piece]:
    """Cut header tokens at their special tokens."""
    cuts = [index for index, token in enumerate(tokens) if token >= FIRST_SPECIAL]
    texts = [
        tokenizer.decode(tokens[start + 1 : end])
        for start, end in pairwise([-1, *cuts, len(tokens)])
    ]
    pieces = [Piece(tokens[index], text) for index, text in zip(cuts, texts[1:], strict=True)]
    return [Piece(None, texts[0]), *pieces] if texts[0] else pieces


# Text to words


class Word(NamedTuple):
    """A word of a header, and its place."""

    text: str
    marker: int | None = None
    """The special token directly before the word."""
    following: str = ""
    """The next word of the piece; for the last word, an empty text."""
    run: str | None = None
    """On the first of several words without a space between them: all of them (`header_words`)."""
    piece: int = 0
    start: int = 0
    """The index of the piece, and the position in its text."""
    is_in_run: bool = False
    """Whether no space stands between the word before and this one (`body_words`)."""


_GLUE = "|".join(("assistant", *CHANNELS, *TYPES))
# Behind `tool:` any name may follow; behind the others, only a word of a header.
_GLUED = re.compile(rf"({_GLUE}|tool:(?=.))(?={_GLUE}|to=|functions\.|$|(?<=tool:))")
_LOOP = re.compile(rf"((?:{_GLUE}){{1,3}}?)\1{{2,}}")
_ADDRESS = re.compile(r"(?<=[\w.?!-])(?=to=)")
_FOREIGN_MARKER = re.compile(r"(<\|[^\s|<>]*\|>)")
_PLAIN_NAME = re.compile(r"[A-Za-z][\w+./-]*$", re.ASCII)


def plain_name(word: str) -> bool:
    """Return whether a word could be a name of any kind."""
    return _PLAIN_NAME.match(word) is not None


@functools.lru_cache(maxsize=64)
def _spaced_names(tools: frozenset[str]) -> str:
    """Return a pattern for the declared names that contain a space, the longest first."""
    bare = {_bare(tool) for tool in tools if len(tool.split()) > 1}
    names = [r"\s+".join(map(re.escape, name.split())) for name in sorted(bare, key=len)]
    return rf"(?:functions?\.)*(?:{'|'.join(reversed(names))})" if names else "(?!)"


@functools.lru_cache(maxsize=64)
def _whole_words(tools: frozenset[str]) -> re.Pattern[str]:
    quote = f"[{QUOTES}]?"
    glued = "(?:commentary|analysis|json|code)*"
    return re.compile(rf"(?:to=)?{quote}{_spaced_names(tools)}{quote}{glued}(?=\s|$)|\S+")


def split_words(text: str, tools: AbstractSet[str]) -> list[str]:
    """Split at white space, but not inside a declared tool's name."""
    return _whole_words(frozenset(tools)).findall(text)


def _unglued(run: str) -> list[str]:
    """Split glued words such as ``assistantcommentary``, and markers of other model families."""
    parts: list[str] = []
    run = _LOOP.sub(r"\1", run)
    for part in chain(*map(_ADDRESS.split, _FOREIGN_MARKER.split(run))):
        done = 0
        while match := _GLUED.match(part, done):
            parts.append(match[1].rstrip(":"))
            done = match.end()
        if done < len(part):
            parts.append(part[done:])
    return parts


def header_words(pieces: Sequence[Piece], tools: AbstractSet[str]) -> list[Word]:
    """Return the words of a header that ends in ``<|message|>``; no body is among them."""
    words: list[Word] = []
    for index, (marker, text) in enumerate(pieces):
        parts: list[tuple[str, str | None]] = []
        for run in split_words(text, tools):
            unglued = _unglued(run)
            is_glued = sum(not _FOREIGN_MARKER.fullmatch(part) for part in unglued) > 1
            parts.append((unglued[0], run if is_glued else None))
            parts += [(part, None) for part in unglued[1:]]
        if not parts and marker in (CHANNEL, CONSTRAIN):
            parts = [("", None)]
        for (word, whole), (following, _) in pairwise([*parts, ("", None)]):
            words.append(Word(word, marker, following, whole, index))
            marker = None
    return words


@functools.lru_cache(maxsize=64)
def _header_units(tools: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of a word that only a header has, with the white space before it."""
    names = (*ROLES, *CHANNELS, *TYPES, *map(re.escape, sorted(tools, key=len, reverse=True)))
    address = rf"to=(?:[^\W\d][\w.-]*?)?(?={_GLUE}|to=|functions\.|[\s\[{{]|$)"
    return re.compile(rf"\s*({address}|{'|'.join(names)}|functions\.[\w-]*|\?+)")


class Unlooped(NamedTuple):
    """Text without the loops of a header's words, and what the text is."""

    text: str
    is_words: bool
    """Whether it has nothing but words of a header."""
    is_header: bool
    """Whether they can be nothing else: they are in a loop, an address or a function's name."""


def without_loops(text: str, tools: AbstractSet[str], start: int = 0) -> Unlooped:
    """Read what a header's words repeat three times or more, from `start` on, only once.

    >>> without_loops("commentary to=f json to=f json to=f json {}", set()).text
    'commentary to=f json {}'
    """
    pattern = _header_units(frozenset(tools))
    units, end = [], start
    while match := pattern.match(text, end):
        units.append((match[0], match[1]))
        end = match.end()
    words = [word for _, word in units]
    kept: list[str] = []
    at = 0
    while at < len(units):
        period, times = next(
            (
                (period, times)
                for period in range(1, LONGEST_LOOP + 1)
                if (times := _repetitions(words, at, period)) > 2
            ),
            (1, 1),
        )
        kept += [unit for unit, _ in units[at : at + period]]
        at += period * times
    is_header = len(kept) < len(units) or any(word.startswith("to=") for word in words)
    is_header |= len(units) > 1 and any(word.startswith("functions.") for word in words)
    is_words = bool(units) and not text[end:].strip()
    return Unlooped(text[:start] + "".join(kept) + text[end:], is_words, is_words and is_header)


def _repetitions(words: Sequence[str], start: int, period: int) -> int:
    unit, times, end = words[start : start + period], 0, start
    while len(unit) == period and words[end : end + period] == unit:
        times, end = times + 1, end + period
    return times


@functools.lru_cache(maxsize=64)
def _run_parts(tools: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of a word in text where a body may begin at any place."""
    quote = f"[{QUOTES}]?"
    name = rf"{quote}(?:{_spaced_names(tools)}|(?:(?!to=)[\w.{INVISIBLE}-])+){quote}"
    channel = rf"{'|'.join(CHANNELS)}(?!ly\b|i[sz]e|ist)"  # `finally` is a word of an answer
    types = "|".join(TYPES)
    role = rf"(?:{'|'.join(ROLES)})(?={channel}|to=|[\s{INVISIBLE}]|$)"
    rest_of_name = rf"(?:{channel}|{types})*"
    return re.compile(
        rf"[\s{INVISIBLE}]*(?:(?P<data>[\[{{])|(?P<part>to=(?:to=)*(?:{name})?|(?:{role}|{channel})"
        rf"|(?:{types})(?=[\s\[{{\"{INVISIBLE}]|$)|{_spaced_names(tools)}{rest_of_name}"
        rf"|\?+|functions\.[\w.-]{{1,{LONGEST_NAME}}}?(?=to=)"
        rf"|[^\s\[{{{INVISIBLE}]+(?:[{INVISIBLE}]+[^\s\[{{{INVISIBLE}]+)*))"
    )


def body_words(pieces: Sequence[Piece], tools: AbstractSet[str]) -> Iterator[Word]:
    """Yield the words of a header without ``<|message|>``, up to the first ``{`` or ``[``.

    The body may begin at any of them. That of ``{`` is the last one.
    """
    pattern = _run_parts(frozenset(tools))
    for index, (marker, text) in enumerate(pieces):
        done = 0
        found = False
        match = pattern.match(text)
        while match:
            start, end = match.start("part"), match.end()
            if match["data"]:
                yield Word("{", marker, "", None, index, match.start("data"))
                return
            word = INVISIBLE_RUN.sub("", text[start:end])
            after = pattern.match(text, end)
            following = after["part"] or "{" if after else ""
            yield Word(word, marker, following, None, index, start, start == done and found)
            found, marker, done, match = True, None, end, after
        if not found and marker in (CHANNEL, CONSTRAIN):
            yield Word("", marker, "", None, index, len(text))


# Words to meanings

_NAMESPACE = re.compile(r"(?:functions?(?:\.|::?|/)|functions_)*")
_QUALIFIED_NAME = re.compile(r"(\w+)\.[\w.-]+$")
_GLUED_TYPE = re.compile(
    r"(?:<\|constrain\|>|assistant|commentary|analysis|response|json|code|to=[\w.-]*)+$"
)
_NAME_END = re.compile(r"[^\w.-]", re.ASCII)


class NamedTool(NamedTuple):
    """The tool that a word names, and what stands behind the name in the same word."""

    name: str
    behind: str = ""


def find_tool(word: str, tools: AbstractSet[str]) -> NamedTool | None:
    """Find the tool that a word names: a declared one, or a name that only a tool can have.

    >>> find_tool("shell", {"functions.shell"}), find_tool("shell", set())
    (NamedTool(name='functions.shell', behind=''), None)
    >>> find_tool("functions.shelljson", {"functions.shell"})
    NamedTool(name='functions.shell', behind='json')
    """
    # In its double, a word is found again behind its period; without one, behind its whole length.
    if (period := (word + word).find(word, 1)) > 2 and word not in tools:
        word = word[:period]  # models may repeat a name without end
    if len(word) > LONGEST_NAME:
        return None
    if (whole := _whole_name(word, tools)) is not None:
        return NamedTool(whole)
    match = _GLUED_TYPE.search(word)
    while match is not None:
        tool = _whole_name(word[: match.start()], tools)
        if tool in tools and tool is not None:
            return NamedTool(tool, match[0])
        # The tool's own name may end in such a word, so shorter ends are tried, too.
        match = _GLUED_TYPE.search(word, match.start() + 1)
    bare = word.lstrip(QUOTES)
    end = _NAME_END.search(bare)
    name = (bare[: end.start()] if end else bare).rstrip(".-")
    tool = _whole_name(name, tools) if name != bare else None
    if tool is not None and (tool in tools or not tools):
        return NamedTool(tool, bare[len(name) :])
    return None


def _whole_name(word: str, tools: AbstractSet[str]) -> str | None:
    """Find the tool that a whole word names, with or without quotes, a namespace, and twice."""
    name = " ".join(word.strip(QUOTES).split())
    bare = _bare(name)
    middle = len(bare) // 2
    first, second = bare[:middle], bare[-middle:]
    written_twice = first == second and bare[middle:-middle] in ("", ".")
    candidates = (name, bare, first) if written_twice else (name, bare)
    for candidate in candidates:
        for declared in (candidate, f"functions.{candidate}"):
            if declared in tools:
                return declared
    folded = _folded(frozenset(tools))
    alike = {tool for candidate in candidates for tool in folded.get(candidate.casefold(), ())}
    if len(alike) == 1:  # of several, any one would be a guess, and a wrong call may do harm
        return alike.pop()
    if name in built_in_recipients():
        return name
    qualified = None if tools else _QUALIFIED_NAME.match(name)
    if qualified is None:
        return None
    namespace = qualified[1]
    # A namespace without functions, such as python, has no qualified names.
    has_functions = namespace in BUILT_IN_TOOLS and bool(BUILT_IN_TOOLS[namespace].namespace.tools)
    return name if namespace == "functions" or has_functions else None


@functools.lru_cache(maxsize=64)
def _folded(tools: frozenset[str]) -> Mapping[str, AbstractSet[str]]:
    """Return the tools by their names without capitals, with and without a namespace."""
    named: dict[str, set[str]] = {}
    for tool in tools:
        for name in (tool, _bare(tool)):
            named.setdefault(name.casefold(), set()).add(tool)
    return named


def _bare(name: str) -> str:
    return _NAMESPACE.sub("", name, count=1)


def is_dirt(word: str) -> bool:
    """Whether a word is no word of a header: signs, another script, or ``to`` alone.

    >>> is_dirt("??"), is_dirt("天天"), is_dirt("response")
    (True, True, False)
    """
    has_letters = word.isascii() and any(map(str.isalnum, word))
    return not has_letters or word.casefold().rstrip("=:") == "to"


_CHANNEL_OF = {
    "analysis": "analysis",
    **dict.fromkeys(("分析", "思考", "推理", "анализ", "분석", "análise", "analyse"), "analysis"),
    "commentary": "commentary",
    **dict.fromkeys(("评论", "評論", "コメント", "комментарий", "해설", "kommentar"), "commentary"),
    "final": "final",
    **dict.fromkeys(("最终", "最終", "финал", "окончательный", "최종", "endgültig"), "final"),
    **dict.fromkeys(("回答", "ответ", "답변"), "final"),
}
"""The names of the channels, also in other languages. Reasoning is first: it is never shown."""

_LEAST_LIKENESS = 0.74


@functools.lru_cache(maxsize=1024)
def nearest_channel(word: str) -> str | None:
    """Find the channel that a damaged word resembles.

    >>> nearest_channel("Final"), nearest_channel("comment"), nearest_channel("最終回答")
    ('final', 'commentary', 'final')
    """
    if len(word) > LONGEST_NAME:
        return None
    word = unicodedata.normalize("NFKC", word).casefold()
    for name, channel in _CHANNEL_OF.items():
        if name in word:
            return channel
    if not 4 <= len(word) <= 16:
        return None
    names = (name for name in _CHANNEL_OF if name.isascii() == word.isascii())
    likeness = {name: SequenceMatcher(None, name, word).ratio() for name in names}
    nearest = max(likeness, key=likeness.__getitem__)
    return _CHANNEL_OF[nearest] if likeness[nearest] >= _LEAST_LIKENESS else None


@functools.lru_cache(maxsize=1024)
def nearest_role(word: str) -> Role | None:
    """Find the role that a word spells in another case or with punctuation.

    >>> nearest_role("Assistant"), nearest_role("assistant:"), nearest_role("assist")
    (<Role.ASSISTANT: 'assistant'>, <Role.ASSISTANT: 'assistant'>, None)
    """
    return ROLES.get(unicodedata.normalize("NFKC", word).casefold().strip("\"'`:,;.*#_-[]<>|"))


def answers_assistant(recipient: str, tools: AbstractSet[str]) -> bool:
    """Whether the recipient of a tool's message is the assistant, perhaps with letters behind it.

    >>> answers_assistant("assistantary", set()), answers_assistant("all", set())
    (True, False)
    """
    return recipient.startswith(Role.ASSISTANT.value) and recipient not in tools
