"""Bounds of what an MCP server sends, checked before it is parsed.

A message comes in as bytes and leaves as bytes that any JSON reader takes quickly, or as a
`ReplyError`. The checks use a few passes over the bytes, none of which parses them.
"""

from __future__ import annotations

import json
import re

from ...errors import HarmonyError

MAX_BYTES = 16 << 20
"""The largest message: a call's files, at most 10 MiB, are larger in Base64."""
MAX_VALUES = 20_000
"""The most commas and brackets of a message, outside of its texts."""
MAX_DEPTH = 180
"""The most arrays and objects inside one another."""

PARSE_ERROR = -32700

# Escaped backslashes and pairs of surrogates stay; what is left of `\ud…` is half a pair.
_SURROGATES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_SMALL = 1 << 20
_HALF = 6  # bytes of the escape of half a pair
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")')
_ID_BYTES = 500  # of a message's start and end, in which its id is looked for


class ReplyError(HarmonyError):
    """A message of a server is not used; the text says why, without quoting it."""


def bounded(message: bytes) -> bytes:
    r"""Return a message that is quick to parse, with U+FFFD for halves of surrogate pairs.

    Raises `ReplyError`.

    >>> bounded(b'{"text": "\\ud83d"}')
    b'{"text": "\\ufffd"}'
    """
    if len(message) > MAX_BYTES:
        raise ReplyError(f"it is larger than {MAX_BYTES >> 20} MiB")
    _check_shape(message)
    if b"\\ud" in message or b"\\uD" in message:
        message = _SURROGATES.sub(_whole, message)
    try:
        message.decode("utf-8")
    except UnicodeDecodeError:
        if len(message) > _SMALL:  # replacing takes long, and makes it three times as large
            raise ReplyError("it is not UTF-8") from None
        message = message.decode("utf-8", "replace").encode("utf-8")
    return message


def _check_shape(message: bytes) -> None:
    if message.count(b",") + message.count(b"[") + message.count(b"{") <= MAX_DEPTH:
        return
    plain = message
    if b"\\" in message:
        plain = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * MAX_VALUES:
        raise ReplyError(f"it has more than {MAX_VALUES:,} values")
    outside = b"".join(plain.split(b'"')[::2])
    if outside.count(b",") + outside.count(b"[") + outside.count(b"{") > MAX_VALUES:
        raise ReplyError(f"it has more than {MAX_VALUES:,} values")
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", outside):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise ReplyError(f"it is nested more than {MAX_DEPTH} levels deep")


def _whole(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if len(escape[0]) == _HALF else escape[0]


def id_in(start: bytes, end: bytes) -> int | str | None:
    """Return the id of a message of which only the start and the end are known.

    >>> id_in(b'{"jsonrpc":"2.0","id":7,"result":{"content"', b"}}")
    7
    """
    for part in (_ID.search(start[:_ID_BYTES]), *list(_ID.finditer(end[-_ID_BYTES:]))[-1:]):
        if part is not None:
            found: int | str = json.loads(part[1])
            return found
    return None


def error_reply(id: int | str, problem: ReplyError) -> bytes:
    """Write the error that takes the place of the reply to a request."""
    error = {"code": PARSE_ERROR, "message": str(problem)}
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode("ascii")
