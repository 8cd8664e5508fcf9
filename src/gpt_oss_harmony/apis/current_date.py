"""The current date in the prompt: one default for servers, commands and training data.

This is the only module of `gpt_oss_harmony.apis` that reads a clock.
"""

from __future__ import annotations

from datetime import datetime, timezone

TODAY = "today"
"""The default of every option for a date: the current date in UTC."""


def current_date(choice: str | None = TODAY) -> str | None:
    """Return the current date for `TODAY`, and any other choice unchanged.

    >>> current_date("2025-06-28")
    '2025-06-28'
    """
    return datetime.now(timezone.utc).date().isoformat() if choice == TODAY else choice


def rfc_3339(seconds: int) -> str:
    """Write a time in seconds since 1970 as Anthropic's API has it.

    >>> rfc_3339(0)
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
