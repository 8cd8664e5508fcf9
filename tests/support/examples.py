"""How many examples property tests draw: all, or the share HARMONY_TEST_SHARE of them."""

from __future__ import annotations

import os

_SHARE = float(os.environ.get("HARMONY_TEST_SHARE", "1"))
_LEAST = 10


def examples(count: int) -> int:
    """Return how many of `count` examples this run draws."""
    return min(count, max(_LEAST, round(count * _SHARE)))
