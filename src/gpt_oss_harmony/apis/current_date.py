"""The current date in the prompt: one default for servers, commands and training data.

This is the only module of `gpt_oss_harmony.apis` that reads a clock.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, datetime, timezone

TODAY = "today"
"""The default of every option for a date: the current date in UTC."""


def current_date(choice: str | None = TODAY) -> str | None:
    """Return the current date for `TODAY`, and any other choice unchanged.

    >>> current_date("2025-06-28")
    '2025-06-28'
    """
    return datetime.now(timezone.utc).date().isoformat() if choice == TODAY else choice


def iso_date(text: str) -> str:
    """Return a date as the model was trained with it. Raises `ValueError` for another form.

    >>> iso_date("2025-06-28")
    '2025-06-28'
    """
    with suppress(ValueError):  # a day that no month has
        # Newer Pythons accept other ISO formats.
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return date.fromisoformat(text).isoformat()
    raise ValueError(f"{text!r:.40} is not a date; write it as YYYY-MM-DD")


def rfc_3339(seconds: int) -> str:
    """Write a time in seconds since 1970 as Anthropic's API has it.

    >>> rfc_3339(0)
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
