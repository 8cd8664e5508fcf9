"""The public names and their signatures, one a line: a change of them is a change of the list.

A name is public if the API reference describes it. griffe reads the source, so no extra is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference" / "api"
SOURCES = tuple(ROOT / folder for folder in ("src", "packages/vllm", "packages/conformance"))

_DESCRIBED = re.compile(r"^::: ([\w.]+)\n    options:\n      members: \[(.*)\]$", re.MULTILINE)


def directives() -> list[tuple[str, list[str]]]:
    """Return the module and the names of each directive of the API reference."""
    return [
        (module, names.split(", "))
        for page in sorted(PAGES.glob("*.md"))
        for module, names in _DESCRIBED.findall(page.read_text(encoding="utf-8"))
    ]


def public_api() -> str:
    """Return the list."""
    modules = griffe.ModulesCollection()
    loader = griffe.GriffeLoader(search_paths=SOURCES, modules_collection=modules)
    described = directives()
    for package in sorted({module.partition(".")[0] for module, _ in described}):
        loader.load(package)
    loader.resolve_aliases(implicit=True, external=False)
    lines = [
        line
        for module, names in described
        for name in names
        for line in _lines(f"{module}.{name}", modules[f"{module}.{name}"])
    ]
    return "\n".join(sorted(lines)) + "\n"


def _lines(path: str, found: Any) -> Iterator[str]:
    if found.is_function:
        yield found.signature(name=path)
    elif found.is_class:
        yield f"class {path}({', '.join(map(str, found.bases))})"
        for name, member in found.members.items():
            if name == "__init__" or not name.startswith("_"):
                yield from _lines(f"{path}.{name}", member)
    elif found.is_attribute and found.annotation:
        yield f"{path}: {found.annotation}"
    else:
        yield f"{path} = {found.value}" if found.is_attribute else path
