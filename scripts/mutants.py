"""Change the code in small ways, and count the changes that the tests notice.

    python scripts/mutants.py .venv/bin/python --sample 40 --seed 1 parsing tokens
    python scripts/mutants.py .venv/bin/python --sample 40 --seed 1 parsing tokens --again --all

cosmic-ray makes the changes ("mutants") in a copy of the checkout in build/mutants. Of all places
that it knows in a package, a sample is tried, each with one mutant: the quick tests of the area run
until one fails, with a quarter of the examples of properties, as in `make test`. A run that takes
much longer than without a mutant counts as a failure. Survivors are printed as diffs and written,
with the counts, to build/mutants/AREA-SEED.json. `--again` tries only them: with the tests that you
have written since, or with `--all`, slow tests and all examples, as in `make test-all`.
"""

from __future__ import annotations

import argparse
import functools
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
from cosmic_ray.work_item import WorkerOutcome, WorkItem

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "mutants"
COPY = BUILD / "checkout"
PACKAGE = Path("src/gpt_oss_harmony")

CORE = "tests/rendering tests/typescript/test_writer.py tests/test_api.py"
USERS = "tests/test_laws.py tests/test_sampled_messages.py tests/apis"


class Area(NamedTuple):
    """Files to change, and the tests that should notice."""

    files: str
    rounds: tuple[str, ...]
    """Quick tests, those first that notice most."""
    whole: str = ""
    """All tests, if these are not those of the rounds."""


AREAS = {
    "conversation": Area(
        "conversation",
        (
            CORE,
            "tests/parsing/test_parser.py tests/test_conformance.py "
            "tests/server/test_added_tool.py tests/server/test_response_machine.py "
            f"tests/server/test_tools.py {USERS}",
        ),
    ),
    "tokens": Area(
        "tokens",
        (
            "tests/tokens/test_encoder.py tests/tokens/test_tokenizer.py "
            "tests/tokens/test_python_encoder.py tests/test_api.py",
            f"tests/rendering tests/tokens tests/parsing/test_parser.py {USERS}",
        ),
    ),
    "typescript": Area(
        "typescript",
        ("tests/typescript", f"{CORE} tests/test_conformance.py {USERS}"),
    ),
    "rendering": Area(
        "rendering",
        (CORE, f"tests/test_conformance.py tests/parsing/test_parser.py {USERS}"),
    ),
    "parsing": Area(
        "parsing",
        (
            "tests/parsing/test_parser.py tests/parsing/test_recovery.py "
            "tests/parsing/test_partial_json.py",
            f"tests/parsing tests/test_conformance.py tests/test_api.py {USERS} tests/vllm_plugin",
        ),
    ),
    "training": Area(
        "training/*.py",
        (
            "tests/training --ignore=tests/training/test_files.py "
            "--ignore=tests/training/test_duplicates.py --ignore=tests/training/test_columns.py",
            "tests/training/test_columns.py tests/training/test_duplicates.py "
            "tests/training/test_files.py tests/cli/test_prepare.py",
        ),
        "tests/training tests/cli/test_prepare.py",
    ),
    "grammar/json_schema": Area(
        "grammar/json_schema",
        (
            "tests/grammar/test_schemas.py tests/grammar/test_patterns.py "
            "tests/grammar/test_negations.py tests/grammar/test_disjunctions.py",
            "tests/grammar",
        ),
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


def environment() -> None:
    """Let the tests import the copy, and keep compiled files."""
    paths = (COPY / name for name in ("src", *(f"packages/{p}" for p in ("drop_in", "vllm"))))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*map(str, paths), str(COPY / "packages" / "conformance")]
    )
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def commands(python: Path, area: Area, is_whole: bool) -> list[str]:
    """Return the rounds of quick tests, or all tests with all examples."""
    pytest = f"{shlex.quote(str(python))} -m pytest -x -q -p no:randomly --tb=line"
    doctests = PACKAGE / area.files.partition("/*")[0]

    def command(share: str, tests: str) -> str:
        variables = f"HYPOTHESIS_PROFILE=unshrunk HARMONY_TEST_SHARE={share}"
        return f"env {variables} {pytest} {doctests} {tests}"

    if is_whole:
        return [command("1", area.whole or " ".join(dict.fromkeys(area.rounds)))]
    return [command("0.25", f"-m 'not slow' {tests}") for tests in area.rounds]


@functools.cache
def patience(command: str) -> float:
    """Return how long to wait for tests, which must pass without a mutant."""
    began = time.monotonic()
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return 60 + 4 * (time.monotonic() - began)


class NotMadeError(Exception):
    """cosmic-ray cannot make a mutant, such as another exception for one with a dotted name."""


def survival(item: WorkItem, command: str) -> str:
    """Return the diff of a mutant that no test of a command notices, else an empty string."""
    result = mutate_and_test(item.mutations, command, patience(command))
    if result.worker_outcome is not WorkerOutcome.NORMAL:
        raise NotMadeError(result.output)
    if result.output == "timeout":
        print(f"noticed as too slow: {item.mutations[0]}", flush=True)
    return "" if result.is_killed else str(result.diff)


def try_area(tests: list[str], chosen: list[WorkItem]) -> tuple[int, list[dict[str, str]]]:
    """Try mutants and print those that survive; return how many were made, and the survivors."""
    for command in tests:
        patience(command)
    survivors: list[dict[str, str]] = []
    made = 0
    for item in chosen:
        diff = ""
        try:
            for command in tests:
                diff = survival(item, command)
                if not diff:
                    break
        except NotMadeError:
            print(f"not made: {identity(item)}", flush=True)
            continue
        made += 1
        if diff:
            survivors.append({"name": identity(item), "diff": diff})
            print(diff, flush=True)
    return made, survivors


def identity(item: WorkItem) -> str:
    """Return a name of a mutant that stays the same while the code does."""
    (mutation,) = item.mutations
    return (
        f"{mutation.module_path.relative_to(COPY)} {mutation.operator_name} {mutation.occurrence}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", type=Path, help="the Python that runs the tests")
    parser.add_argument("areas", nargs="*", metavar="area", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--sample", type=int, default=40, help="mutants to try in each area")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="only what survived with this seed")
    parser.add_argument("--all", action="store_true", help="run slow tests, with all examples")
    options = parser.parse_intermixed_args()
    copy_checkout()
    environment()
    python = options.python.absolute()
    os.chdir(COPY)
    for name in options.areas or AREAS:
        area = AREAS[name]
        places = mutants(area)
        chance = random.Random(options.seed)
        drawn = chance.sample(places, min(options.sample, len(places)))
        chosen = sorted((chance.choice(found) for found in drawn), key=place)
        path = BUILD / f"{name.replace('/', '-')}-{options.seed}.json"
        if options.again:
            survived = json.loads(path.read_text(encoding="utf-8"))["survivors"]
            chosen = [m for m in chosen if identity(m) in {one["name"] for one in survived}]
        tried, survivors = try_area(commands(python, area, options.all), chosen)
        print(f"{name}: {tried - len(survivors)} of {tried} killed", flush=True)
        if not options.again:
            counts = {"places": len(places), "tried": tried, "survived": len(survivors)}
            report = {**counts, "survivors": survivors}
            path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
