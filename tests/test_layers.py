"""Imports point one way: each package on top of the core knows only those below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import openai_harmony

PACKAGE = Path(openai_harmony.__file__).parent

BELOW: dict[str, set[str]] = {
    "grammar": set(),
    "engines": {"grammar"},
    "apis": {"engines"},
    "tools": {"engines"},
    "training": set(),
    "inspector": {"apis", "grammar", "training"},
    "serving": {"apis", "engines", "grammar", "inspector", "tools"},
}
"""The packages, and those that each of them may import besides the core; the command may all."""


def imported_packages(path: Path) -> Iterator[str]:
    """The packages on top of the core that a module imports, at its start or later."""
    module = path.relative_to(PACKAGE.parent).with_suffix("").parts
    package = module[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = package[: len(package) + 1 - node.level] if node.level else ()
        full = (*base, *(node.module or "").split("."))
        names = [*full, ""] if node.module else [*base]
        if names[:1] != ["openai_harmony"]:
            continue
        targets = [names[1]] if len(names) > 1 and names[1] else [a.name for a in node.names]
        yield from (target for target in targets if target in {*BELOW, "cli"})


@pytest.mark.parametrize("package", BELOW)
def test_packages_import_only_what_is_below_them(package: str) -> None:
    allowed = {package, *BELOW[package]}
    for path in sorted((PACKAGE / package).rglob("*.py")):
        assert set(imported_packages(path)) <= allowed, path


def test_imports_are_seen() -> None:
    found = set(imported_packages(PACKAGE / "serving" / "turns" / "preparation.py"))
    assert found == {"apis", "engines", "serving"}
