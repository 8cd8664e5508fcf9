"""Change the code in small ways, and count the changes that the quick tests notice.

    python scripts/mutants.py .venv/bin/python --sample 40 --seed 1 parsing tokens

cosmic-ray makes the changes ("mutants") in a copy of the checkout in build/mutants. Of all places
that it knows in a package, a sample is tried, each with one mutant: the tests of the area run until
one fails, with a quarter of the examples of properties, as in `make test`. Survivors are printed as
diffs and written, with the counts, to build/mutants/AREA.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkItem

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "mutants"
COPY = BUILD / "checkout"
PACKAGE = Path("src/gpt_oss_harmony")

CORE = "tests/rendering tests/typescript/test_writer.py tests/test_api.py tests/test_laws.py"


class Area(NamedTuple):
    """Files to change, and the tests that should notice, the quickest first."""

    files: str
    tests: str


AREAS = {
    "conversation": Area(
        "conversation",
        f"{CORE} tests/parsing/test_parser.py tests/apis tests/server/test_added_tool.py "
        "tests/server/test_response_machine.py tests/server/test_tools.py",
    ),
    "tokens": Area(
        "tokens",
        "tests/tokens/test_encoder.py tests/tokens/test_tokenizer.py tests/test_api.py "
        "tests/rendering tests/tokens tests/test_laws.py",
    ),
    "typescript": Area(
        "typescript",
        "tests/typescript tests/rendering tests/test_laws.py tests/test_conformance.py",
    ),
    "rendering": Area(
        "rendering", f"{CORE} tests/test_conformance.py tests/parsing/test_parser.py"
    ),
    "parsing": Area(
        "parsing",
        "tests/parsing/test_parser.py tests/parsing/test_recovery.py "
        "tests/parsing/test_partial_json.py tests/test_laws.py tests/test_conformance.py "
        "tests/parsing",
    ),
    "training": Area("training/*.py", "tests/training --ignore=tests/training/test_files.py"),
    "grammar/json_schema": Area(
        "grammar/json_schema",
        "tests/grammar/test_schemas.py tests/grammar/test_patterns.py "
        "tests/grammar/test_negations.py tests/grammar/test_disjunctions.py tests/grammar "
        "--ignore=tests/grammar/test_logits_processor.py --ignore=tests/grammar/test_noise.py",
    ),
}

NOTHING_TO_LEARN = re.compile(
    r"BinaryOperator_BitOr_"  # the unions of annotations
    r"|Operator_(Is_Eq|Eq_Is|IsNot_NotEq|NotEq_IsNot)$"  # the same for None and enums
)


def copy_checkout() -> None:
    """Copy the files of the checkout, changed or not."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)


def mutants(area: Area) -> list[list[WorkItem]]:
    """Return the mutants of each place of an area, in the order of the files."""
    pattern = area.files if "*" in area.files else f"{area.files}/**/*.py"
    with use_db(":memory:", WorkDB.Mode.create) as work:
        init(sorted((COPY / PACKAGE).glob(pattern)), work, {})
        items = sorted(work.work_items, key=place)
    items = [i for i in items if not NOTHING_TO_LEARN.search(i.mutations[0].operator_name)]
    return [list(group) for _, group in itertools.groupby(items, lambda item: place(item)[:2])]


def place(item: WorkItem) -> tuple[str, tuple[int, int], str, int]:
    """Return the file, the line and column, the operator and its number."""
    (mutation,) = item.mutations
    file = str(mutation.module_path)
    return file, mutation.start_pos, mutation.operator_name, mutation.occurrence


def environment() -> dict[str, str]:
    """Return the environment of the tests, which import the copy."""
    paths = (COPY / name for name in ("src", *(f"packages/{p}" for p in ("drop_in", "vllm"))))
    return {
        "PYTHONPATH": os.pathsep.join([*map(str, paths), str(COPY / "packages" / "conformance")]),
        "HYPOTHESIS_PROFILE": "unshrunk",
        "HARMONY_TEST_SHARE": "0.25",
    }


def try_area(name: str, python: Path, sample: int, seed: int) -> bool:
    """Try a sample of the mutants of an area; return whether its tests pass without any."""
    area = AREAS[name]
    options = "-x -q -m 'not slow' -p no:randomly --tb=line"
    examples = PACKAGE / area.files.partition("/*")[0]
    command = f"{shlex.quote(str(python))} -m pytest {options} {examples} {area.tests}"
    began = time.monotonic()
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout + done.stderr, file=sys.stderr)
        return False
    patience = 60 + 4 * (time.monotonic() - began)
    places = mutants(area)
    chance = random.Random(seed)
    chosen = [chance.choice(found) for found in chance.sample(places, min(sample, len(places)))]
    survivors: list[str] = []
    for item in sorted(chosen, key=place):
        result = mutate_and_test(item.mutations, command, patience)
        if not result.is_killed:
            survivors.append(str(result.diff))
            print(result.diff, flush=True)
    counts = {"places": len(places), "tried": len(chosen), "survived": len(survivors)}
    report = {**counts, "seed": seed, "survivors": survivors}
    path = BUILD / f"{name.replace('/', '-')}.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    killed = len(chosen) - len(survivors)
    print(f"{name}: {killed} of {len(chosen)} killed, in {len(places)} places", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", type=Path, help="the Python that runs the tests")
    parser.add_argument("areas", nargs="*", metavar="area", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--sample", type=int, default=40, help="mutants to try in each area")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    copy_checkout()
    os.environ.update(environment())
    python = options.python.absolute()
    os.chdir(COPY)
    passed = [
        try_area(name, python, options.sample, options.seed) for name in options.areas or AREAS
    ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
