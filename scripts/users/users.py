"""Run the tests of programs that use harmony with the reference, its fork and this library.

    python scripts/users/users.py [SUITE …]

Each suite of `suites` is fetched from PyPI or by git into ``build/users``. Its dependencies are
installed once; each `Setup` has an environment of its own on top of them. The table is printed; the
outcome of every case is written to ``build/users/results/SUITE.json``. The exit status is 1

- where a case passes with the reference and not with this library in its place, unless `suites`
  lists it as a divergence,
- where a case changes because this library is installed beside another one,
- where our plugin changes a case that `suites` does not list,
- and where a case passes with no library.
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

from peers import ROOT, write_vocabulary
from suites import NO_SUITE, SETUPS, SUITES, Setup, Suite

from gpt_oss_harmony.engines.tokenizer_files import tokenizer_config, tokenizer_json

BUILD = ROOT / "build" / "users"

# Tests load these tokenizers by name; with the last two, any tokenizer will do.
MODELS = ("openai/gpt-oss-20b", "openai/gpt-oss-120b", "openai-community/gpt2", "gpt2")
DEMO_MODEL = ROOT / "src" / "gpt_oss_harmony" / "data" / "demo_model"

DIVERGENCES = "Divergences"
BESIDE = "Changed by our presence"
BY_PLUGIN = "Changed by the plugin, and not listed"
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
    """Return the folder of the source, which is downloaded once and edited."""
    source = checked_out(suite) if suite.repository else extracted(suite)
    for name, old, new in suite.edits:
        text = (source / name).read_text("utf-8")
        assert old in text, (name, old)
        (source / name).write_text(text.replace(old, new, 1), "utf-8")
    return source


def checked_out(suite: Suite) -> Path:
    source = BUILD / "sources" / suite.name
    if not (source / ".git" / "shallow").exists():  # git writes it after the first fetch
        call("git", "init", "--quiet", source)
        call("git", "-C", source, "fetch", "--depth", "1", suite.repository, suite.commit)
    call("git", "-C", source, "checkout", "--quiet", "--force", suite.commit)
    return source


def extracted(suite: Suite) -> Path:
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


def install_setup(suite: Suite, setup: Setup, dependencies: Path) -> Path:
    """Return a new environment that has the libraries and sees the dependencies."""
    folder = BUILD / "environments" / suite.name / setup.name
    python = folder / "bin" / "python"
    venv.create(folder, clear=True)
    (packages,) = folder.glob("lib/*/site-packages")
    (below,) = dependencies.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(f"{below}\n", "utf-8")
    install(python, "--no-deps", *setup.installs)
    if suite.command:
        name, module, function = suite.command
        program = folder / "bin" / name
        lines = [f"#!{python}", f"import {module}", f"{module}.{function}()"]
        if setup.drop_in:
            lines.insert(1, "from gpt_oss_harmony.drop_in import register; register()")
        program.write_text("\n".join([*lines, ""]), "utf-8")
        program.chmod(0o755)
    return folder


def run_cases(suite: Suite, setup: Setup, source: Path, environment: Path) -> Outcomes:
    record = BUILD / "results" / f"{suite.name}-{setup.name}.json"
    record.unlink(missing_ok=True)
    log = record.with_suffix(".log")
    drop_in = ("-m", "gpt_oss_harmony.drop_in") if setup.drop_in else ()
    plugins = (*suite.plugins, *(("vllm_plugin_on",) if setup.plugin else ()), "no:cacheprovider")
    with log.open("w", encoding="utf-8") as output:
        subprocess.run(
            [
                *(environment / "bin" / "python", *drop_in, "-m", "pytest", "-c", "pyproject.toml"),
                *(f"-p{plugin}" for plugin in plugins),
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
        sys.exit(f"{suite.name} did not start with {setup.name}; see {log}")
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
        *(counts[name]["passed"] if name in counts else "" for name in SETUPS),
        "; ".join(f"{count} {reason}" for reason, count in not_run.most_common()),
    )
    return f"| {' | '.join(map(str, cells))} |"


def findings(suite: Suite, results: dict[str, Outcomes]) -> dict[str, list[str]]:
    """Return by title the cases that pass with the reference alone, and with no library."""
    titles: dict[str, list[str]] = {
        title: [] for title in (DIVERGENCES, BELOW_REFERENCE, BESIDE, BY_PLUGIN, NEVER_PASSES)
    }
    own = results["fork"] if "fork" in results else results["reference"]
    for title, setup, listed in ((BESIDE, "beside", {}), (BY_PLUGIN, "plugin", suite.by_plugin)):
        for case, before in own.items() if setup in results else ():
            after = results[setup].get(case, {"outcome": "missing"})
            if before["outcome"] != after["outcome"] and not any(part in case for part in listed):
                titles[title].append(
                    f"{suite.name} {case}: {before['outcome']}, {after['outcome']}"
                )
    for case, reference in results["reference"].items():
        ours = results["ours"].get(case, {"outcome": "missing", "reason": "not collected"})
        reasons = [why for part, why in suite.divergences.items() if part in case]
        if reference["outcome"] == "passed" != ours["outcome"]:
            title = DIVERGENCES if reasons else BELOW_REFERENCE
            titles[title].append(f"{suite.name} {case}: {(reasons or [ours['reason']])[0]}")
        elif all(found.get(case, ours)["outcome"] == "failed" for found in results.values()):
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
        if sys.version_info < suite.python:
            needed = ".".join(map(str, suite.python))
            rows.append(f"| {suite.name} | | | | | | | needs Python {needed} |")
            continue
        source = unpack(suite)
        dependencies = install_dependencies(suite, source)
        results: dict[str, Outcomes] = {}
        for setup in suite.setups:
            print(f"{suite.name}: {setup.name}", file=sys.stderr, flush=True)
            environment = install_setup(suite, setup, dependencies)
            results[setup.name] = run_cases(suite, setup, source, environment)
        by_case = {
            case: {name: found.get(case) for name, found in results.items()}
            for case in sorted(set().union(*results.values()))
        }
        (BUILD / "results" / f"{suite.name}.json").write_text(json.dumps(by_case, indent=1))
        rows.append(table_row(suite, results))
        for title, cases in findings(suite, results).items():
            listed[title] += cases
    print(
        "| Suite | Cases | Reference | Fork | Ours | Ours beside it | Plugin | Not run |",
        "|---|---|---|---|---|---|---|---|",
        sep="\n",
    )
    print(*rows, *(f"| {name} | | | | | | | {why} |" for name, why in NO_SUITE.items()), sep="\n")
    for title, cases in listed.items():
        print(f"\n{title}: {len(cases)}", *cases, sep="\n")
    return int(any(cases for title, cases in listed.items() if title != DIVERGENCES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
