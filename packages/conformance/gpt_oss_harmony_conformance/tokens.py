"""Tokens as text, and dates as tokens, without a tokenizer.

``tokens.json`` has the bytes of the tokens in the cases, of the tokens that spell dates, and the
names of the special tokens. Any other token is shown as its id, such as ``<1234>``.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["FIRST_SPECIAL", "text_of", "with_date"]

FIRST_SPECIAL = 199998
"""The ids from here on are special tokens."""

_DATE = re.compile(rb"\nCurrent date: (\d{4}-\d\d-\d\d)\n")


def text_of(tokens: Sequence[int]) -> str:
    """Return the text of tokens; bytes that are no UTF-8 become U+FFFD."""
    return b"".join(map(_spelled, tokens)).decode("utf-8", errors="replace")


def with_date(tokens: Sequence[int], date: str) -> list[int]:
    """Return a prompt with this date in place of its own, if it has one."""
    spelled = [_spelled(token) for token in tokens]
    found = _DATE.search(b"".join(spelled))
    starts = list(itertools.accumulate(map(len, spelled), initial=0))
    if found is None or not {*found.span(1)} <= {*starts}:
        return list(tokens)
    first, end = map(starts.index, found.span(1))
    # The tokenizer splits digits from the left, into groups of at most three.
    ids = {spelling: token for token, spelling in _table().items()}
    ours = [ids[group.encode()] for group in re.findall(r"\d{1,3}|-", date)]
    return [*tokens[:first], *ours, *tokens[end:]]


def _spelled(token: int) -> bytes:
    return _table().get(token, b"<%d>" % token)


@functools.cache
def _table() -> Mapping[int, bytes]:
    table = json.loads(Path(__file__).with_name("tokens.json").read_text(encoding="utf-8"))
    return {
        **{int(token): text.encode() for token, text in table["text"].items()},
        **{int(token): bytes.fromhex(digits) for token, digits in table["bytes"].items()},
    }
