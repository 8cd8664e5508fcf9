"""The cases of the conformance kit, for the tests of the code that they are about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["case", "cases"]

CASES = (
    Path(__file__).parents[2] / "packages" / "conformance" / "gpt_oss_harmony_conformance" / "cases"
)
_READ: dict[str, list[dict[str, Any]]] = {}


def cases(level: str, operation: str) -> list[dict[str, Any]]:
    """The cases of a level with an operation."""
    if level not in _READ:
        file = json.loads((CASES / f"{level}.json").read_text(encoding="utf-8"))
        _READ[level] = file["cases"]
    return [case for case in _READ[level] if case["operation"] == operation]


def case(id: str, operation: str = "render") -> dict[str, Any]:
    """The case of an id."""
    level = id.partition("/")[0]
    return next(case for case in cases(level, operation) if case["id"] == id)
