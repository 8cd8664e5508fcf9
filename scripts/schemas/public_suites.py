"""Suites of JSON Schema: folders in, schemas with their valid and invalid texts out.

Two of the suites are no part of this project. `JSON-Schema-Test-Suite` is the specification's own;
`jsonschemabench` has real schemas, and `maskbench` in it instances for them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

__all__ = ["Case", "features", "real_schemas", "specification_tests"]

DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


@dataclass
class Case:
    """A schema, and texts with what the suite says of each."""

    name: str
    schema: Any
    valid: list[str]
    invalid: list[str]
    disputed: int = 0  # instances of which jsonschema says the opposite, which are left out


def specification_tests(folder: Path) -> Iterator[Case]:
    """Return the tests of both drafts, the optional ones and those of formats as well.

    The suite names no draft inside of the schemas of draft 7, as the folder does.
    """
    for draft, address in DRAFTS.items():
        root = folder / "tests" / draft
        files = [
            path
            for level in (".", "optional", "optional/format")
            for path in sorted((root / level).glob("*.json"))
        ]
        for path in files:
            for group in json.loads(path.read_text(encoding="utf-8")):
                schema = group["schema"]
                if isinstance(schema, dict):
                    schema = {"$schema": address, **schema}
                yield Case(
                    f"{path.relative_to(root.parent)}: {group['description']}",
                    schema,
                    [_text(test["data"]) for test in group["tests"] if test["valid"]],
                    [_text(test["data"]) for test in group["tests"] if not test["valid"]],
                )


def real_schemas(folder: Path, seed: int = 0, share: int = 6) -> Iterator[Case]:
    """Return one of `share` real schemas, drawn by the digest of seed and name, from all splits."""
    splits = [path.name for path in (folder / "data").iterdir() if path.is_dir()]
    for path in sorted((folder / "maskbench" / "data").glob("*.json")):
        digest = hashlib.sha256(f"{seed or ''}{path.name}".encode()).digest()
        if path.name.partition("---")[0] not in splits or digest[0] % share:
            continue
        case = json.loads(path.read_text(encoding="utf-8"))
        kept = Case(path.name, case["schema"], [], [])
        for test in case.get("tests", []):
            is_valid = _is_valid(case["schema"], test["data"])
            if is_valid is not None and is_valid != test["valid"]:
                kept.disputed += 1
            else:
                (kept.valid if test["valid"] else kept.invalid).append(_text(test["data"]))
        yield kept


def features(data: Path) -> Iterator[Case]:
    """Return our own schemas, keyword by keyword, with values compact and with spaces."""
    for feature in json.loads((data / "features.json").read_text(encoding="utf-8")):
        texts = {
            kind: {
                _text(value, separators)
                for value in feature[kind]
                for separators in ((",", ":"), (", ", ": "))
            }.union(feature.get(f"{kind}_texts", ()))
            for kind in ("valid", "invalid")
        }
        valid, invalid = map(sorted, texts.values())
        yield Case(feature["name"], feature["schema"], valid, invalid)


def _text(value: Any, separators: tuple[str, str] | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _is_valid(schema: Any, value: Any) -> bool | None:
    """Return what jsonschema says; None where it cannot say."""
    validator = validator_for(schema, default=Draft202012Validator)
    try:
        return bool(validator(schema).is_valid(value))
    except (SchemaError, Unresolvable, re.error, TypeError, ValueError):
        return None  # a broken schema, or a reference to somewhere else
