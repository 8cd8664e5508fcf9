"""The date that the model reads as today's: one default for servers, commands and training data.

This is the only module of the room that reads a clock.
"""

from __future__ import annotations

from datetime import datetime, timezone

__all__ = ["TODAY", "current_date"]

TODAY = "today"
"""The default wherever a date can be chosen: the current date in UTC."""


def current_date(choice: str | None = TODAY) -> str | None:
    """Return the date for a choice: that of today for `TODAY`, any other as it is.

    >>> current_date("2025-06-28")
    '2025-06-28'
    """
    return datetime.now(timezone.utc).date().isoformat() if choice == TODAY else choice
