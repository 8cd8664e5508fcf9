"""Install the library beside the programs that bring another harmony library, with pip and uv.

    python scripts/users/beside.py

1. Each set of requirements is resolved together with the library by both installers; nothing of
   them is installed. vLLM's requirements are those of its source distribution.
2. A new environment gets openai-harmony and the library. One process imports both, renders the
   conversations of the conformance kit with both, and compares the tokens.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from peers import PEERS, ROOT
from suites import SUITES

from users import call, unpack

KIT = ROOT / "packages" / "conformance" / "gpt_oss_harmony_conformance" / "cases"
SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "openai-harmony": ("all", (PEERS["reference"],)),
    "gpt-oss": ("serve", ("gpt-oss==0.0.9",)),
    "lmdeploy": ("", ("lmdeploy==0.18.0",)),
}
"""What stands beside the library: the extra that is resolved with it, and the requirements."""

COMPARE = """
import json, os, pathlib, sys
import gpt_oss_harmony, openai_harmony

def answer(library, case, **options):
    given = case["input"]
    conversation = library.Conversation.from_json(json.dumps({"messages": given["messages"]}))
    config = library.RenderConversationConfig(
        auto_drop_analysis=given.get("drop_reasoning", True), **options)
    encoding = library.load_harmony_encoding("HarmonyGptOss")
    role = library.Role(given["next_role"])
    return encoding.render_conversation_for_completion(conversation, role, config)

compared = 0
for case in json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))["cases"]:
    if case["operation"] == "render" and case["input"].get("mode") == "completion":
        if "error" in case["expected"] or case["checked"] != "recorded":
            continue
        ours = answer(gpt_oss_harmony, case, schema_dialect="reference")
        assert ours == answer(openai_harmony, case), case["id"]
        compared += 1
print(f"{compared} prompts are equal; {openai_harmony.__file__} and {gpt_oss_harmony.__file__}")
"""


def resolve(name: str, extra: str, requirements: tuple[str, ...], folder: Path) -> None:
    """Resolve requirements and the library with both installers; raise an error if they cannot."""
    ours = f"gpt-oss-harmony[{extra}]" if extra else "gpt-oss-harmony"
    file = folder / f"{name}.txt"
    file.write_text("\n".join([*requirements, f"{ours} @ {ROOT.as_uri()}", ""]), "utf-8")
    python = folder / "venv" / "bin" / "python"
    call(python, "-m", "uv", "pip", "compile", "--quiet", file)
    print(f"uv  {name}: resolved with {ours}", flush=True)
    call(python, "-m", "pip", "install", "--quiet", "--dry-run", "--requirement", file)
    print(f"pip {name}: resolved with {ours}", flush=True)


def compare(folder: Path) -> None:
    """Import both libraries in one process, and compare their prompts."""
    python = folder / "venv" / "bin" / "python"
    call(python, "-m", "pip", "install", "--quiet", PEERS["reference"], ROOT)
    script = folder / "compare.py"
    script.write_text(COMPARE, "utf-8")
    vocabulary = ROOT / "build" / "users" / "vocabulary"
    subprocess.run(
        [python, script, KIT / "reference.json"],
        env={"TIKTOKEN_ENCODINGS_BASE": str(vocabulary)},
        check=True,
    )


def main() -> int:
    """Run both steps."""
    vllm = next(suite for suite in SUITES if suite.package == "vllm")
    lines = (unpack(vllm) / vllm.requirements).read_text("utf-8").splitlines()
    kept = tuple(line for line in lines if not line.startswith(("certifi", "#")))
    sets = {**SETS, vllm.name: ("transformers,serve", kept)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        call(folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "uv")
        compare(folder)
        for name, (extra, requirements) in sets.items():
            resolve(name, extra, requirements, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
