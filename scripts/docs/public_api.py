"""The public names and their signatures, one a line: a change of them is a change of the list.

A name is public if the API reference describes it. griffe reads the source, so no extra is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    import griffe  # only here, as the tests of the documentation read `directives` without it

    modules = griffe.ModulesCollection()
    loader = griffe.GriffeLoader(search_paths=SOURCES, modules_collection=modules)
    described = directives()
    for package in sorted({module.partition(".")[0] for module, _ in described}):
        loader.load(package)
    loader.resolve_aliases(implicit=True, external=False)
    lines = sorted(
        named
        for module, names in described
        for name in names
        for named in lines_of(f"{module}.{name}", modules[f"{module}.{name}"])
    )
    return "".join(f"{line}\n" for _, line in lines)


_UNSAID = "gpt_oss_harmony.config.CheckedModel."
"""Its constructor takes the fields of a class, which have lines of their own."""


def lines_of(path: str, named: Any) -> Iterator[tuple[str, str]]:
    """Return a name with its line, and those of a class's members, inherited ones included."""
    found = named.final_target if named.is_alias else named
    start = "".join(f"@{decorator.value} " for decorator in getattr(found, "decorators", ()))
    if found.is_class:
        yield path, f"{start}class {path}({', '.join(map(str, found.bases))})"
        for name, member in found.all_members.items():
            if member.is_alias and member.final_target.path.startswith(_UNSAID):
                continue
            if not name.startswith("_") or (name.endswith("__") and member.is_function):
                yield from lines_of(f"{path}.{name}", member)
    elif found.is_function:
        start += "async " * ("async" in found.labels)
        for each in found.overloads or [found]:
            yield path, start + each.signature(name=path)
    elif "property" in found.labels:
        yield path, f"property {path}: {found.annotation}"
    elif found.is_attribute:
        annotation = f": {found.annotation}" if found.annotation else ""
        declared = not found.labels.isdisjoint(("class-attribute", "module-attribute"))
        value = f" = {found.value}" if declared and found.value is not None else ""
        yield path, f"{path}{annotation}{value}"
    else:
        yield path, path
