"""Run the tests of programs that use harmony with the reference, its fork and this library.

    python scripts/users/users.py [SUITE …]

Each suite of `suites` is fetched from PyPI into ``build/users``. Its dependencies are installed
once; each library has an environment of its own on top of them. The table is printed; the outcome
of every case is written to ``build/users/results/SUITE.json``. The exit status is 1 where a case
passes with the reference and not with this library, unless `suites` lists it as a divergence, and
where a case passes with no library.
"""

from __future__ import annotations

import collections
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import TypeAlias

from peers import PEERS, ROOT, write_vocabulary
from suites import NO_SUITE, SUITES, Suite

from gpt_oss_harmony.engines.tokenizer_files import tokenizer_config, tokenizer_json

BUILD = ROOT / "build" / "users"
LIBRARIES = {**PEERS, "ours": str(ROOT)}

# Tests load these tokenizers by name; with the last two, any tokenizer will do.
MODELS = ("openai/gpt-oss-20b", "openai/gpt-oss-120b", "openai-community/gpt2", "gpt2")
DEMO_MODEL = ROOT / "src" / "gpt_oss_harmony" / "data" / "demo_model"

DIVERGENCES = "Divergences"
BELOW_REFERENCE = "Below the reference"
NEVER_PASSES = "Pass with no library"

Outcomes: TypeAlias = dict[str, dict[str, str]]
"""By the id of a case: its ``outcome``, and a ``reason`` unless it passed."""


def write_stand_ins() -> None:
    """Write what the tests would download: the vocabulary, and tokenizers into a hub's cache."""
    (BUILD / "results").mkdir(parents=True, exist_ok=True)
    (BUILD / "vocabulary").mkdir(exist_ok=True)
    write_vocabulary(BUILD / "vocabulary" / "o200k_base.tiktoken")
    tokenizer = json.dumps(tokenizer_json()), json.dumps(tokenizer_config())
    for model in MODELS:
        folder = BUILD / "hub" / f"models--{model.replace('/', '--')}"
        snapshot = folder / "snapshots" / "stand-in"
        snapshot.mkdir(parents=True, exist_ok=True)
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / "main").write_text("stand-in", "utf-8")
        for name in ("config.json", "generation_config.json", "chat_template.jinja"):
            shutil.copy(DEMO_MODEL / name, snapshot)
        for name, text in zip(("tokenizer.json", "tokenizer_config.json"), tokenizer, strict=True):
            (snapshot / name).write_text(text, "utf-8")


def call(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def install(python: Path, *what: str | Path) -> None:
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    call(*pip, "install", "--quiet", *what)


def unpack(suite: Suite) -> Path:
    """Return the folder of the source distribution, which is downloaded once and edited."""
    downloads = BUILD / "downloads"
    archive = downloads / f"{suite.package.replace('-', '_')}-{suite.version}.tar.gz"
    if not archive.exists():
        requirement = f"{suite.package}=={suite.version}"
        call(sys.executable, "-m", "unearth", requirement, "--no-binary", "--download", downloads)
    sources = BUILD / "sources" / suite.name
    shutil.rmtree(sources, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(sources, filter="data")
    (source,) = sources.iterdir()
    for name, old, new in suite.edits:
        text = (source / name).read_text("utf-8")
        assert old in text, (name, old)
        (source / name).write_text(text.replace(old, new, 1), "utf-8")
    return source


def install_dependencies(suite: Suite, source: Path) -> Path:
    """Return an environment with everything that the cases need except a harmony library."""
    folder = BUILD / "environments" / suite.name / "dependencies"
    stamp = folder / "installed"
    dependencies = repr((suite.installs, suite.requirements, suite.excluded))
    if stamp.exists() and stamp.read_text("utf-8") == dependencies:
        return folder
    venv.create(folder, clear=True)
    for what in suite.installs:
        install(folder / "bin" / "python", *what)
    if suite.requirements:
        lines = (source / suite.requirements).read_text("utf-8").splitlines()
        requirements = folder / "requirements.txt"
        requirements.write_text(
            "\n".join(line for line in lines if not line.startswith(suite.excluded)), "utf-8"
        )
        install(folder / "bin" / "python", "-r", requirements, *suite.installs[-1])
    stamp.write_text(dependencies, "utf-8")
    return folder


def install_library(suite: Suite, library: str, dependencies: Path) -> Path:
    """Return a new environment that has the library and sees the dependencies."""
    folder = BUILD / "environments" / suite.name / library
    python = folder / "bin" / "python"
    venv.create(folder, clear=True)
    (packages,) = folder.glob("lib/*/site-packages")
    (below,) = dependencies.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(f"{below}\n", "utf-8")
    install(python, "--no-deps", LIBRARIES[library])
    if suite.command:
        name, module, function = suite.command
        program = folder / "bin" / name
        program.write_text(f"#!{python}\nimport {module}\n{module}.{function}()\n", "utf-8")
        program.chmod(0o755)
    return folder


def run_cases(suite: Suite, library: str, source: Path, environment: Path) -> Outcomes:
    record = BUILD / "results" / f"{suite.name}-{library}.json"
    record.unlink(missing_ok=True)
    log = record.with_suffix(".log")
    with log.open("w", encoding="utf-8") as output:
        subprocess.run(
            [
                *(environment / "bin" / "python", "-m", "pytest", "-c", "pyproject.toml"),
                *(f"-p{plugin}" for plugin in (*suite.plugins, "no:cacheprovider")),
                *("--tb=short", "--continue-on-collection-errors", *suite.tests),
            ],
            cwd=source,
            env={
                **os.environ,
                "PATH": os.pathsep.join((str(environment / "bin"), os.environ["PATH"])),
                "PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), str(source))),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HF_HUB_CACHE": str(BUILD / "hub"),
                "HF_HUB_OFFLINE": "1",
                "TIKTOKEN_ENCODINGS_BASE": str(BUILD / "vocabulary"),
                "USERS_LEFT_OUT": json.dumps(suite.left_out),
                "USERS_RECORD": str(record),
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not record.exists():
        sys.exit(f"{suite.name} did not start with {library}; see {log}")
    outcomes: Outcomes = json.loads(record.read_text("utf-8"))
    return outcomes


def table_row(suite: Suite, results: dict[str, Outcomes]) -> str:
    counts = {
        library: collections.Counter(case["outcome"] for case in outcomes.values())
        for library, outcomes in results.items()
    }
    not_run = collections.Counter(
        case["reason"]
        for case in results["reference"].values()
        if case["outcome"] in ("left out", "skipped")
    )
    cells = (
        f"{suite.package} {suite.version}",
        counts["reference"]["passed"] + counts["reference"]["failed"],
        *(counts[library]["passed"] for library in LIBRARIES),
        "; ".join(f"{count} {reason}" for reason, count in not_run.most_common()),
    )
    return f"| {' | '.join(map(str, cells))} |"


def findings(suite: Suite, results: dict[str, Outcomes]) -> dict[str, list[str]]:
    """Return by title the cases that pass with the reference alone, and with no library."""
    titles: dict[str, list[str]] = {
        title: [] for title in (DIVERGENCES, BELOW_REFERENCE, NEVER_PASSES)
    }
    for case, reference in results["reference"].items():
        ours = results["ours"].get(case, {"outcome": "missing", "reason": "not collected"})
        reasons = [why for part, why in suite.divergences.items() if part in case]
        if reference["outcome"] == "passed" != ours["outcome"]:
            title = DIVERGENCES if reasons else BELOW_REFERENCE
            titles[title].append(f"{suite.name} {case}: {(reasons or [ours['reason']])[0]}")
        elif all(results[library].get(case, ours)["outcome"] == "failed" for library in LIBRARIES):
            titles[NEVER_PASSES].append(f"{suite.name} {case}: {reference['reason']}")
    return titles


def main(names: list[str]) -> int:
    if unknown := set(names) - {suite.name for suite in SUITES}:
        sys.exit(f"{unknown} is not among {[suite.name for suite in SUITES]}")
    write_stand_ins()
    rows: list[str] = []
    listed: dict[str, list[str]] = collections.defaultdict(list)
    for suite in SUITES:
        if names and suite.name not in names:
            continue
        source = unpack(suite)
        dependencies = install_dependencies(suite, source)
        results: dict[str, Outcomes] = {}
        for library in LIBRARIES:
            print(f"{suite.name}: {library}", file=sys.stderr, flush=True)
            environment = install_library(suite, library, dependencies)
            results[library] = run_cases(suite, library, source, environment)
        by_case = {
            case: {library: results[library].get(case) for library in LIBRARIES}
            for case in sorted(set().union(*results.values()))
        }
        (BUILD / "results" / f"{suite.name}.json").write_text(json.dumps(by_case, indent=1))
        rows.append(table_row(suite, results))
        for title, cases in findings(suite, results).items():
            listed[title] += cases
    print(
        "| Suite | Cases | Reference | Fork | Ours | Not run |",
        "|---|---|---|---|---|---|",
        sep="\n",
    )
    print(*rows, *(f"| {name} | | | | | {why} |" for name, why in NO_SUITE.items()), sep="\n")
    for title, cases in listed.items():
        print(f"\n{title}: {len(cases)}", *cases, sep="\n")
    return 1 if listed[BELOW_REFERENCE] or listed[NEVER_PASSES] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
