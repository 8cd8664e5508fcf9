"""Input: a file or standard input as text or JSON, or an error that says what to do.

Text files end with a line break, which is not part of the text: one at the end is left out here,
as one is added where text is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["InputError", "named", "read_json", "read_text"]

STANDARD_INPUT = "-"


class InputError(Exception):
    """The input cannot be read, or is not what the command expects."""


def named(file: str | None) -> str:
    """Return what an error says before the problem: the file's name, if there is one."""
    return "" if file in (None, STANDARD_INPUT) else f"{file}: "


def read_text(file: str) -> str:
    """Read a file, or standard input for ``-``; without the line break at the end."""
    try:
        text = _read_bytes(file).decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror or error}); check the path, "
            "or pass - to read standard input"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 (at byte {error.start}); save it as UTF-8") from error
    return text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")


def read_json(file: str) -> tuple[Any, str]:
    """Read JSON; return it parsed and as text."""
    text = read_text(file)
    if not text.strip():
        raise InputError("there is no input; expected JSON")
    try:
        return json.loads(text), text
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error}") from error
    except RecursionError:
        raise InputError("the JSON is nested too deeply to be read") from None


def _read_bytes(file: str) -> bytes:
    if file != STANDARD_INPUT:
        return Path(file).read_bytes()
    if sys.stdin is None:
        raise InputError("standard input is closed; name a file")
    if sys.stdin.isatty():
        print("harmony: reading standard input; Ctrl-D ends it", file=sys.stderr)
    return sys.stdin.buffer.read()
