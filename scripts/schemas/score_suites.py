"""Run public suites of JSON Schema through this library and other engines.

::

    python scripts/schemas/score_suites.py FOLDER [--only ours] [--seed 3] [--share 24] [--write]
        [--details FILE]

FOLDER holds clones of `JSON-Schema-Test-Suite` and `jsonschemabench`; one of them is enough. Our
own schemas are scored as well. A seed draws another sample of the real schemas; a share of 24 draws
a quarter of the usual sample. With ``--write`` the tables go into
``docs/reference/json-schema.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from public_suites import Case, features, real_schemas, specification_tests
from schema_engines import ENGINES, SECONDS, Accepts, Refused

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "json-schema.md"
START, END = "<!-- suites -->", "<!-- /suites -->"

OWN = ROOT / "tests" / "data" / "grammar"
SUITES: dict[str, tuple[str, Callable[[Path], Iterator[Case]]]] = {
    "Our own schemas, keyword by keyword": (str(OWN), features),
    "JSON-Schema-Test-Suite, drafts 2020-12 and 7": (
        "JSON-Schema-Test-Suite",
        specification_tests,
    ),
    "JSONSchemaBench, a sample of real schemas": ("jsonschemabench", real_schemas),
}


@dataclass
class Score:
    """Counts of schemas and texts; a refused schema counts no texts."""

    schemas: int = 0
    exact: int = 0
    refused: int = 0
    valid: int = 0
    valid_refused: int = 0
    invalid: int = 0
    invalid_accepted: int = 0
    disputed: int = 0
    details: list[str] = field(default_factory=list)

    def add(self, case: Case, compile_schema: Callable[[Any], Accepts]) -> None:
        """Count a schema and its texts."""
        self.schemas += 1
        self.disputed += case.disputed
        try:
            accepts = compile_schema(case.schema)
        except Refused as refusal:
            self.refused += 1
            self.details.append(f"refused\t{case.name}\t{refusal}")
            return
        refused = [text for text in case.valid if not accepts(text)]
        accepted = [text for text in case.invalid if accepts(text)]
        self.exact += not refused and not accepted
        self.valid += len(case.valid)
        self.valid_refused += len(refused)
        self.invalid += len(case.invalid)
        self.invalid_accepted += len(accepted)
        for what, texts in (("valid refused", refused), ("invalid accepted", accepted)):
            self.details += [f"{what}\t{case.name}\t{text[:300]}" for text in texts]


def table(scores: dict[str, dict[str, Score]], seed: int) -> str:
    """Write the scores as Markdown."""
    lines = []
    for suite, by_engine in scores.items():
        count = next(iter(by_engine.values())).schemas
        lines += [f"**{suite}** ({count:,} schemas)", ""]
        lines.append(f"|  | {' | '.join(by_engine)} |")
        lines.append(f"| --- |{' --: |' * len(by_engine)}")
        rows: dict[str, Callable[[Score], str]] = {
            "schemas without a wrong answer": lambda score: f"{score.exact:,}",
            "schemas refused with an error": lambda score: f"{score.refused:,}",
            "invalid texts accepted": lambda score: (
                f"{score.invalid_accepted:,} of {score.invalid:,}"
            ),
            "valid texts refused": lambda score: f"{score.valid_refused:,} of {score.valid:,}",
        }
        for title, cell in rows.items():
            lines.append(f"| {title} | {' | '.join(map(cell, by_engine.values()))} |")
        lines.append("")
    engines = {"llguidance"} | {
        package
        for package in ("xgrammar", "outlines-core", "lm-format-enforcer")
        if package in next(iter(scores.values()))
    }
    versions = ", ".join(f"{name} {version(name)}" for name in sorted(engines))
    lines.append(
        f"Measured on {date.today():%d %B %Y} with {versions}, seed {seed}; an engine refuses what "
        f"takes it more than {SECONDS:g} s of the processor."
    )
    return "\n".join(lines)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=ENGINES, action="append")
    parser.add_argument("--suite", choices=[Path(folder).name for folder, _ in SUITES.values()])
    parser.add_argument("--seed", type=int, default=0, help="the sample of the real schemas")
    parser.add_argument("--share", type=int, default=6, help="score one of so many real schemas")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--details", type=Path, help="a file for each wrong answer and refusal")
    options = parser.parse_args()
    scores: dict[str, dict[str, Score]] = {}
    details: list[str] = []
    for suite, (name, cases_of) in SUITES.items():
        folder = options.folder / name
        if options.suite not in (None, folder.name) or not folder.is_dir():
            continue
        if cases_of is real_schemas:
            cases = list(real_schemas(folder, options.seed, options.share))
        else:
            cases = list(cases_of(folder))
        for engine in options.only or ENGINES:
            score = Score()
            with ENGINES[engine]() as compile_schema:
                for case in cases:
                    score.add(case, compile_schema)
            scores.setdefault(suite, {})[engine] = score
            details += [f"{engine}\t{line}" for line in score.details]
    if options.suite is None and len(scores) < 2:
        sys.exit(f"{options.folder} holds neither JSON-Schema-Test-Suite nor jsonschemabench")
    written = table(scores, options.seed)
    print(written)
    if options.details:
        options.details.write_text("\n".join(details) + "\n", encoding="utf-8")
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{START}\n\n{written}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
