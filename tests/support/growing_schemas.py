"""Schemas of N parts, whose price may grow with N or its square; `SHAPES` has all by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["SHAPES"]


def numbered_patterns(count: int) -> Any:
    return {
        "type": "object",
        "properties": {
            f"p{n}": {"type": "string", "pattern": f"^{n}.*z.{{5}}$"} for n in range(count)
        },
    }


def counted_patterns(count: int) -> Any:
    return {
        "type": "object",
        "properties": {
            f"p{n}": {"type": "string", "pattern": f"^{n}.*[^a].{{15}}$"} for n in range(count)
        },
    }


def open_objects(count: int) -> Any:
    return {
        "oneOf": [
            {"type": "object", "properties": {f"a{n}": {"type": "integer"}}} for n in range(count)
        ]
    }


def tagged_objects(count: int) -> Any:
    return {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": n}}, "required": ["kind"]}
            for n in range(count)
        ]
    }


def listed_values(count: int) -> Any:
    return {"enum": [f"w{n}" for n in range(count)], "pattern": "^(a|b|w)*[0-9]+$"}


def choices_beside_each_other(count: int) -> Any:
    return {
        "allOf": [
            {"anyOf": [{"properties": {f"a{n}": {"const": 1}}}, {"required": [f"b{n}"]}]}
            for n in range(count)
        ]
    }


def excluded_patterns(count: int) -> Any:
    return {"type": "string", "allOf": [{"not": {"pattern": f"^a{n}b"}} for n in range(count)]}


def patterns_of_names(count: int) -> Any:
    return {"type": "object", "patternProperties": {f"a{n}": {"minimum": n} for n in range(count)}}


SHAPES: dict[str, Callable[[int], Any]] = {
    "texts with a pattern each": numbered_patterns,
    "texts with a counted pattern each": counted_patterns,
    "oneOf of open objects": open_objects,
    "oneOf of objects with a constant": tagged_objects,
    "listed values beside a pattern": listed_values,
    "anyOf side by side": choices_beside_each_other,
    "excluded patterns": excluded_patterns,
    "patterns of names": patterns_of_names,
}
"""By what they consist of."""
