"""The named differences from the reference, as predicates over the input of a case.

`explain` says which difference a mismatch falls under, or None: then it is a bug. The predicates
look at the input alone, never at our answer. `docs/divergences.md` has a sentence for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from openai_harmony import load_harmony_encoding
from openai_harmony.tokens.special_tokens import (
    CHANNEL,
    CONSTRAIN,
    FIRST_SPECIAL,
    MESSAGE,
    START,
    STOP_TOKENS,
    VOCABULARY_SIZE,
)

Header = list[int]

DECODE = load_harmony_encoding("HarmonyGptOss").decode
ROLES = {"user", "assistant", "system", "developer", "tool"}


def explain(case: dict[str, Any], mine: Any, other: Any) -> str | None:
    """Name the difference that a mismatch falls under."""
    if case["kind"] == "render":
        return "float-exponent" if _without_plus(mine) == _without_plus(other) else None
    if case["kind"] in ("parse", "stream"):
        return _explain_tokens(case["tokens"], case["role"])
    return None


def _without_plus(answer: Any) -> Any:
    """The fork prints floats as 1e+20, the reference as 1e20."""
    if answer and isinstance(answer, list) and isinstance(answer[0], int):
        return re.sub(r"(\d)e\+(\d)", r"\1e\2", DECODE(answer))
    return [_without_plus(item) for item in answer] if isinstance(answer, list) else answer


def _explain_tokens(tokens: list[int], role: str | None) -> str | None:
    if any(not 0 <= token < VOCABULARY_SIZE for token in tokens):
        return "unknown-token-id"
    if role is not None and tokens[:1] == [START]:
        return "leading-start"
    for is_first, header in _headers(tokens, role):
        given = role if is_first and role is not None else None
        for name, applies in _HEADER_DIVERGENCES.items():
            if applies(header, given):
                return name
    if _ends_in_bare_prompt(tokens, role):
        return "bare-prompt"
    if any(_is_invalid(body) for body in _bodies(tokens, role)):
        return "invalid-utf8"
    return None


def _headers(tokens: list[int], role: str | None) -> Iterator[tuple[bool, Header]]:
    for at, (header, _) in enumerate(_messages(tokens, role)):
        yield at == 0, header


def _bodies(tokens: list[int], role: str | None) -> Iterator[list[int]]:
    for _, body in _messages(tokens, role):
        yield body


def _messages(tokens: list[int], role: str | None) -> Iterator[tuple[Header, list[int]]]:
    """Cut a stream into headers and bodies, the simple way."""
    at = 0 if role is not None else 1
    while at <= len(tokens):
        try:
            body = tokens.index(MESSAGE, at) + 1
        except ValueError:
            yield tokens[at:], []
            return
        stops = (i for i in range(body, len(tokens)) if tokens[i] in STOP_TOKENS)
        end = next(stops, len(tokens))
        yield tokens[at : body - 1], tokens[body:end]
        at = end + 2


def _ends_in_bare_prompt(tokens: list[int], role: str | None) -> bool:
    *_, (header, body) = [*_messages(tokens, role), ([], [])][:-1] or [([], [])]
    return not body and DECODE(header) in ROLES


def _is_invalid(body: list[int]) -> bool:
    return "\ufffd" in DECODE(body)


def _words(header: Header, role: str | None) -> list[str]:
    """The words after the role, without the channel."""
    words: list[str] = []
    start = 0
    cuts = [i for i, token in enumerate(header) if token in (CHANNEL, CONSTRAIN)]
    for cut in [*cuts, len(header)]:
        marker = header[start - 1] if start else None
        found = re.findall(r"[^ \t\n\f\r]+", DECODE(header[start:cut]))
        if marker == CHANNEL:
            found = found[1:]
        if marker == CONSTRAIN:
            found = ["<|constrain|>" + "".join(found[:1]), *found[1:]]
        words += found
        start = cut + 1
    if role is None or words[:1] == [role]:
        words = words[1:]
    return words


def _has_special(header: Header, _role: str | None) -> bool:
    return any(token >= FIRST_SPECIAL and token not in (CHANNEL, CONSTRAIN) for token in header)


def _has_two_channels(header: Header, _role: str | None) -> bool:
    return header.count(CHANNEL) > 1


def _spells_marker(header: Header, _role: str | None) -> bool:
    return "<" in DECODE([token for token in header if token < FIRST_SPECIAL])


def _has_plain_word(header: Header, role: str | None) -> bool:
    """A word where the reference expects a recipient, though it has no to=."""
    words = _words(header, role)
    return bool(words) and not words[0].startswith("to=")


def _has_spaced_constraint(header: Header, _role: str | None) -> bool:
    after = (header[at + 1 :][:1] for at, token in enumerate(header) if token == CONSTRAIN)
    return any(not DECODE(tokens)[:1].strip() for tokens in after)


def _names_author(header: Header, role: str | None) -> bool:
    author, colon, _ = DECODE(header).lstrip().partition(":")
    return role is None and bool(colon) and author in ROLES


def _begins_with_recipient(header: Header, role: str | None) -> bool:
    first = (_words(header, "") or [""])[0]
    return role is None and first.startswith(("to=", "<|constrain|>"))


_HEADER_DIVERGENCES: dict[str, Callable[[Header, str | None], bool]] = {
    "special-token-in-header": _has_special,
    "second-channel": _has_two_channels,
    "text-marker": _spells_marker,
    "constraint-with-space": _has_spaced_constraint,
    "named-author": _names_author,
    "recipient-is-no-role": _begins_with_recipient,
    "content-type": _has_plain_word,
}
