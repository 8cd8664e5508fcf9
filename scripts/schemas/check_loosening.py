"""Check that loosening only loosens: what a schema accepts, its loosened schema accepts.

::

    python scripts/schemas/check_loosening.py FOLDER [--sample FILE]

FOLDER holds clones of the public suites, as for `score_suites`. An independent validator
(`jsonschema_rs`) tests each valid instance of the suites against the loosened schema. A schema says
nothing of the order of properties and the spelling of numbers, so both play no part here. With
``--sample``, the cases of JSON-Schema-Test-Suite whose schemas are loosened go into a file for the
tests.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
from public_suites import Case, features, real_schemas, specification_tests

from gpt_oss_harmony.grammar import loosened_schema

ROOT = Path(__file__).resolve().parents[2]


def cases(folder: Path) -> Iterator[Case]:
    """Yield the cases of our own schemas and of the suites that are there."""
    yield from features(ROOT / "tests" / "data" / "grammar")
    for name, read in (
        ("JSON-Schema-Test-Suite", specification_tests),
        ("jsonschemabench", real_schemas),
    ):
        if (folder / name).is_dir():
            yield from read(folder / name)


def main() -> None:
    """Print each valid instance that a loosened schema refuses; exit with 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=Path)
    options = parser.parse_args()
    schemas = loosened_schemas = instances = stricter = 0
    sample = []
    for case in cases(options.folder):
        schemas += 1
        loosened = loosened_schema(case.schema)
        if not loosened.unenforced:
            continue
        loosened_schemas += 1
        validator = jsonschema_rs.validator_for(loosened.schema, validate_formats=False)
        for text in case.valid:
            instances += 1
            if not validator.is_valid(json.loads(text)):
                stricter += 1
                print(f"{case.name}: {text[:200]}")
        if case.valid and case.name.startswith("draft"):
            valid = [json.loads(text) for text in case.valid]
            sample.append({"name": case.name, "schema": case.schema, "valid": valid})
    if options.sample:
        text = json.dumps(sample, ensure_ascii=False, indent=1) + "\n"
        options.sample.write_text(text, encoding="utf-8")
    print(
        f"{schemas:,} schemas, {loosened_schemas:,} of them loosened; "
        f"{stricter} of {instances:,} valid instances refused"
    )
    sys.exit(bool(stricter))


if __name__ == "__main__":
    main()
