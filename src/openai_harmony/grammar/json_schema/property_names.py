"""`propertyNames` as other keywords: the names that it lists, or the one pattern that it has."""

from __future__ import annotations

from ...typescript.json_text import JsonValue
from .instances import satisfies_text
from .keywords import Constraints
from .pattern_reader import REPEAT_LIMIT

__all__ = ["apply_property_names"]


def apply_property_names(rule: Constraints, names: Constraints) -> bool:
    """Say in other keywords of an object what its names must satisfy; whether that is possible."""
    if rule.named_by_pattern or names.refusals or "string" not in names.types:
        return False
    if names.values is not None:
        _list_names(rule, names)
    elif rule.properties and rule.additional not in (None, True, False):
        return False  # the schema for other names would hold for the listed ones as well
    else:
        pattern = _only_pattern(names)
        if pattern is None:
            return False
        allowed: JsonValue = True if rule.additional is None else rule.additional
        rule.properties = {
            name: schema if satisfies_text(name, names) else False
            for name, schema in rule.properties.items()
        }
        rule.named_by_pattern = {pattern: allowed}
    rule.additional = False
    rule.refusals = [one for one in rule.refusals if one.keyword != "propertyNames"]
    return True


def _list_names(rule: Constraints, names: Constraints) -> None:
    others: JsonValue = True if rule.additional is None else rule.additional
    rule.properties = {
        name: rule.properties.get(name, others)
        for name in names.values or ()
        if isinstance(name, str) and satisfies_text(name, names)
    }


def _only_pattern(names: Constraints) -> str | None:
    """Return the pattern of names, or one for their length; None if there are both, or neither."""
    has_length = names.shortest > 0 or names.longest is not None
    if len(names.patterns) == 1 and not has_length:
        return names.patterns[0]
    if names.patterns or not has_length or max(names.shortest, names.longest or 0) > REPEAT_LIMIT:
        return None
    return f"^[^]{{{names.shortest},{'' if names.longest is None else names.longest}}}$"
