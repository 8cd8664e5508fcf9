"""The events of a stream as one compressed blob: JSON lines under zlib."""

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
    lines = (json.dumps(event, separators=(",", ":")) for event in events)
    return zlib.compress("\n".join(lines).encode("ascii"))


def unpack_events(blob: bytes) -> list[dict[str, Any]]:
    """Read events, in their order."""
    return [json.loads(line) for line in zlib.decompress(blob).splitlines()]
