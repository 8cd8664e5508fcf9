"""Run the conformance kit with every implementation that installs here, and write the table.

    python scripts/conformance/run_all.py [NAME ...] [--keep]

Each implementation has a virtual environment of its own in ``.venv-conformance``, made on its
first run. Those that cannot be installed are left out, and keep their last results. The results go
to ``conformance/results.json``; ``pages.py`` makes the table in ``docs/conformance.md`` of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = ROOT / "conformance" / "adapters"
RESULTS = ROOT / "conformance" / "results.json"
ENVIRONMENTS = ROOT / ".venv-conformance"

sys.path.insert(0, str(ROOT / "scripts" / "parity"))

from pages import main as write_pages  # noqa: E402
from peers import write_vocabulary  # noqa: E402

TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Implementation:
    """An adapter, what it needs, and which part of the program it asks."""

    name: str
    adapter: str
    asked: str
    installs: tuple[tuple[str, ...], ...] = ()
    """Arguments of ``pip install``, one call after the other; none for this environment."""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


IMPLEMENTATIONS = (
    Implementation("gpt-oss-harmony", "ours.py", "its library"),
    Implementation("openai-harmony", "reference.py", "its library", (("openai-harmony==0.0.8",),)),
    Implementation("oss-harmony", "reference.py", "its library", (("oss-harmony==0.0.11",),)),
)


def python_of(one: Implementation) -> Path | None:
    """The interpreter of an implementation; None where it cannot be installed."""
    if not one.installs:
        return Path(sys.executable)
    folder = ENVIRONMENTS / one.name.replace(" ", "-").replace(",", "")
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        for packages in one.installs:
            command = [str(python), "-m", "pip", "install", "--quiet", *packages]
            if subprocess.run(command, check=False).returncode != 0:
                return None
        write_vocabulary(folder / "o200k_base.tiktoken")
        (folder / "ready").touch()
    return python


def result_of(one: Implementation, python: Path) -> dict[str, Any] | None:
    """Run the cases; None where the adapter does not start."""
    own = {} if one.installs else {"PYTHONPATH": str(ROOT / "src")}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {
        **kept, **own, "TIKTOKEN_ENCODINGS_BASE": str(python.parent.parent), **one.environment
    }  # fmt: skip
    adapter = " ".join([str(python), str(ADAPTERS / one.adapter), *one.arguments])
    harmony = [sys.executable, "-m", "openai_harmony", "conformance", "run", "--suite"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        wrapped = f"env PYTHONPATH={own.get('PYTHONPATH', '')} {adapter}"
        subprocess.run(
            [*harmony, str(ROOT / "conformance"), "--command", wrapped, "--json", str(report),
             "--timeout", "300"],
            env={**environment, "PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
        if not report.exists():
            return None
        written = json.loads(report.read_text(encoding="utf-8"))
    described = written["implementation"]
    if "version" not in described:
        return None

    def ids(outcome: str) -> list[str]:
        return [case["id"] for case in written["results"] if case["outcome"] == outcome]

    return {
        "name": one.name,
        "version": described["version"],
        "asked": one.asked,
        "failed": ids("failed"),
        "unsupported": ids("unsupported"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="implementations; all without one")
    chosen = parser.parse_args().name
    rules = json.loads(
        (ROOT / "conformance/gpt_oss_harmony_conformance/rules.json").read_text(encoding="utf-8")
    )
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results = {result["name"]: result for result in before.get("implementations", [])}
    for one in IMPLEMENTATIONS:
        if chosen and one.name not in chosen:
            continue
        python = python_of(one)
        result = result_of(one, python) if python is not None else None
        if result is None:
            print(f"{one.name}: it cannot be installed here, or its adapter does not start")
            continue
        results[one.name] = result
        print(f"{one.name} {result['version']}: {len(result['failed'])} cases failed")
    order = [one.name for one in IMPLEMENTATIONS]
    document = {
        "specification": rules["version"],
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "implementations": sorted(results.values(), key=lambda result: order.index(result["name"])),
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.argv[1:] = []
    write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
