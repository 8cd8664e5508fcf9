"""Run the tests with real clients of the server, and write the table of their results.

    python scripts/clients.py [--write] [OPTION OF PYTEST ...]

The tests are those of the suites below: nothing is tested here. A check is a test that ran; what is
not installed is skipped. ``--write`` puts the table into the guide to clients.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guides" / "clients.md"
BEGIN, END = "<!-- clients -->", "<!-- /clients -->"

SUITES = {
    "test_client_openai": ("OpenAI's SDK", "openai"),
    "test_chat_clients": ("OpenAI's SDK, chats", "openai"),
    "test_uploads": ("OpenAI's SDK, files and uploads", "openai"),
    "test_batches": ("SDKs of OpenAI and Anthropic, batches", "anthropic"),
    "test_begun_answers": ("SDKs of OpenAI and Anthropic, prefill", "anthropic"),
    "test_client_anthropic": ("Anthropic's SDKs", "anthropic"),
    "test_message_threads": ("Anthropic's SDK, threads and tool runner", "anthropic"),
    "test_client_agents": ("OpenAI's Agents SDK", "openai-agents"),
    "test_ollama": ("Ollama's client", "ollama"),
    "test_client_typescript": ("AI SDK (npm)", ""),
    "test_client_curl": ("curl", ""),
    "test_client_coding_agents": ("coding agents (npm)", ""),
    "test_client_programs": ("LiteLLM, smolagents, llm, aider", ""),
    "test_client_open_webui": ("Open WebUI", ""),
    "test_compliance": ("Open Responses' requirements, as our table", ""),
}
"""The files of tests, with the client that each has, and the package whose version counts."""


OWNERS: dict[str, str] = {}
"""Failures, by the name of their test, that are somebody else's: all others are ours."""


def results(junit: Path) -> dict[str, Counter[str]]:
    """Count the outcomes of each suite; failures are by name."""
    found: dict[str, Counter[str]] = {name: Counter() for name in SUITES}
    for case in ElementTree.parse(junit).iter("testcase"):
        suite = next((part for part in case.get("classname", "").split(".") if part in found), "")
        if suite:
            kinds = {child.tag for child in case}
            is_failed = bool(kinds & {"failure", "error"})
            outcome = "failed" if is_failed else "skipped" if "skipped" in kinds else "passed"
            found[suite][outcome] += 1
            if is_failed:
                found[suite][f"failed: {case.get('name')}"] += 1
    return found


def rows(found: dict[str, Counter[str]]) -> Iterator[str]:
    """Write the lines of the table."""
    today, total = date.today().isoformat(), Counter[str]()
    yield "| Client | Version | Date | Checks | Passed | Skipped | Failed, and whose it is |"
    yield "|---|---|---|---|---|---|---|"
    for name, (client, package) in SUITES.items():
        counts = found[name]
        total += counts
        ran = counts["passed"] + counts["failed"]
        failed = [key.removeprefix("failed: ") for key in counts if key.startswith("failed: ")]
        owned = (f"`{key}` ({OWNERS.get(key, 'ours')})" for key in failed)
        failures = ", ".join(owned) if ran else ""
        when = today if ran else "not run"
        cells = (client, _version(package), when, ran, counts["passed"], counts["skipped"])
        yield f"| {' | '.join(map(str, cells))} | {failures} |"
    ran = total["passed"] + total["failed"]
    cells = ("all", "", today, ran, total["passed"], total["skipped"])
    yield f"| {' | '.join(map(str, cells))} | {total['failed'] or ''} |"


def _version(package: str) -> str:
    try:
        return version(package) if package else ""
    except PackageNotFoundError:
        return ""


def main() -> int:
    """Run the suites, print the table, and write it where that is asked for."""
    options = [option for option in sys.argv[1:] if option != "--write"]
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "results.xml"
        files = [f"tests/server/{name}.py" for name in SUITES]
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={junit}", *files, *options]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if not junit.exists():
            return status
        table = "\n".join(rows(results(junit)))
    print(table)
    if "--write" in sys.argv[1:]:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
