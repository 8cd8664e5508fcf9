"""The events of a stream as one compressed blob: a JSON array under zlib."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["pack_events", "unpack_events"]


def pack_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Write events.

    >>> unpack_events(pack_events([{"type": "response.created", "sequence_number": 0}]))
    [{'type': 'response.created', 'sequence_number': 0}]
    """
    return zlib.compress(json.dumps([*events], separators=(",", ":")).encode("ascii"))


def unpack_events(blob: bytes) -> list[dict[str, Any]]:
    """Read events, in their order."""
    events: list[dict[str, Any]] = json.loads(zlib.decompress(blob))
    return events
