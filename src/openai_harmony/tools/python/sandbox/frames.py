"""The frames between the server and the attendant in a sandbox.

A frame is two lengths (big-endian, 4 bytes each), a JSON object and bytes. What comes out of a
sandbox may come from the model's code: nothing is larger than it may be, and all of it is checked.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
from typing import Any

__all__ = ["MAX_DATA", "MAX_TEXT", "FrameError", "pack_frame", "read_frame"]

MAX_TEXT = 4 << 20
"""Bytes of the JSON of a frame, at most."""
MAX_DATA = 32 << 20
"""Bytes that come with it, at most."""

_LENGTHS = struct.Struct(">II")


class FrameError(ValueError):
    """What was read is no frame."""


def pack_frame(request: Mapping[str, Any], data: bytes = b"") -> bytes:
    """Write a frame.

    >>> pack_frame({"op": "run"}).hex(" ", 4)
    '0000000c 00000000 7b226f70 223a2272 756e227d'
    """
    text = json.dumps(request, separators=(",", ":")).encode("ascii")
    return _LENGTHS.pack(len(text), len(data)) + text + data


async def read_frame(stream: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
    """Read a frame. Raises `FrameError`, and `EOFError` at the end of the stream."""
    text_size, data_size = _LENGTHS.unpack(await stream.readexactly(_LENGTHS.size))
    if text_size > MAX_TEXT or data_size > MAX_DATA:
        raise FrameError("the frame is too large")
    text = await stream.readexactly(text_size)
    data = await stream.readexactly(data_size)
    try:
        read = json.loads(text.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise FrameError("the frame holds no JSON") from error
    if not isinstance(read, dict):
        raise FrameError("the frame holds no object")
    return read, data
