"""What llguidance before 1.8 reads in another way, as docs/reference/json-schema.md says."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

import llguidance

__all__ = ["BEFORE_1_8", "is_read_differently"]

_VERSION = tuple(map(int, importlib.metadata.version(llguidance.__name__).split(".")[:2]))

BEFORE_1_8 = _VERSION < (1, 8)


def is_read_differently(schema: Any, text: str) -> bool:
    """Return whether the installed version is known to read a text under a schema differently.

    It refuses negative numbers under `multipleOf`, and accepts escapes in names.
    """
    if not BEFORE_1_8:
        return False
    return "\\u" in text or ("-" in text and "multipleOf" in json.dumps(schema))
