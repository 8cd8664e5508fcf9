"""Which server this is, and what time it is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ServerClock"]


@dataclass(frozen=True)
class ServerClock:
    """The id of a running server, and its clock in seconds since 1970."""

    id: str
    now: Callable[[], float]
