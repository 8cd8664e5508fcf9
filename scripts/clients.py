"""Run the tests with real clients of the server, and write the table of their results.

    python scripts/clients.py [--write] [OPTION OF PYTEST ...]
    python scripts/clients.py --install


The tests are those of the suites below: nothing is tested here. A check is a test that ran; what is
not installed is skipped. ``--write`` puts the table into the guide to clients. ``--install``
installs the frameworks in Python, each in an environment of its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import date
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guides" / "clients.md"
BEGIN, END = "<!-- clients -->", "<!-- /clients -->"


class Suite(NamedTuple):
    """A row: the checks in a file whose names begin with `tests`, and a client's name and package.

    The package is one of this environment, or ``FOLDER:PACKAGE``, in another environment or among
    the packages of npm that are installed in a folder.
    """

    client: str
    file: str
    tests: str = ""
    package: str = ""


_AGENTS, _PROGRAMS = "tests/clients/agents", "test_client_programs"
_CODING = "test_client_coding_agents"
FRAMEWORKS: dict[str, Any] = json.loads((ROOT / "tests/clients/frameworks.json").read_text())


def _package(framework: dict[str, Any]) -> str:
    """Return the name of a framework's package in Python."""
    return re.split(r"[\[=]", framework["packages"][0])[0]


def _environment(framework: dict[str, Any]) -> str:
    """Return the folder of its environment: each requires other versions of the same packages."""
    return f".venv-frameworks/{_package(framework)}"


SUITES = (
    Suite("OpenAI's SDK, responses", "test_client_openai", package="openai"),
    Suite("OpenAI's SDK, chats", "test_chat_clients", package="openai"),
    Suite("OpenAI's SDK, stored chats", "test_chat_stored", package="openai"),
    Suite("OpenAI's SDK, conversations", "test_conversations", package="openai"),
    Suite("OpenAI's SDK, files and uploads", "test_uploads", package="openai"),
    Suite("SDKs of OpenAI and Anthropic, batches", "test_batches", package="anthropic"),
    Suite("SDKs of OpenAI and Anthropic, prefill", "test_begun_answers", package="anthropic"),
    Suite("SDKs of OpenAI and Anthropic, every field", "test_fields_of_sdks", package="anthropic"),
    Suite(
        "Anthropic's SDK for TypeScript",
        "test_client_anthropic",
        "test_the_typescript",
        f"{_AGENTS}:@anthropic-ai/sdk",
    ),
    Suite("Anthropic's SDK", "test_client_anthropic", package="anthropic"),
    Suite("Anthropic's SDK, threads and tool runner", "test_message_threads", package="anthropic"),
    Suite("OpenAI's Agents SDK", "test_client_agents", package="openai-agents"),
    Suite("Ollama's client", "test_ollama", package="ollama"),
    Suite("AI SDK", "test_client_typescript", package="tests/clients/typescript:ai"),
    Suite("curl", "test_client_curl"),
    Suite("codex", _CODING, "test_codex", f"{_AGENTS}:@openai/codex"),
    Suite("Claude Code", _CODING, "test_claude", f"{_AGENTS}:@anthropic-ai/claude-code"),
    Suite("opencode", _CODING, "test_opencode", f"{_AGENTS}:opencode-ai"),
    Suite("pi", _CODING, "test_pi", f"{_AGENTS}:@mariozechner/pi-coding-agent"),
    Suite("Cline", _CODING, "test_cline", f"{_AGENTS}:cline"),
    Suite("Continue", _CODING, "test_continue", f"{_AGENTS}:@continuedev/cli"),
    Suite("Qwen Code", _CODING, "test_qwen", f"{_AGENTS}:@qwen-code/qwen-code"),
    Suite("aider", _PROGRAMS, "test_aider", ".venv-aider:aider-chat"),
    Suite("LiteLLM", _PROGRAMS, "test_litellm", ".venv-clients:litellm"),
    Suite("llm", _PROGRAMS, "test_llm", ".venv-clients:llm"),
    Suite("smolagents", _PROGRAMS, "test_smolagents", ".venv-clients:smolagents"),
    Suite("OpenAI's SDK for TypeScript", _PROGRAMS, "test_openais", f"{_AGENTS}:openai"),
    *(
        Suite(
            one["client"],
            "test_client_frameworks",
            f"test_framework[{name}-",
            f"{_AGENTS}:{one['npm']}" if "npm" in one else f"{_environment(one)}:{_package(one)}",
        )
        for name, one in FRAMEWORKS.items()
    ),
    Suite("Open WebUI", "test_client_open_webui", package=".venv-open-webui:open-webui"),
    Suite("Open Responses' requirements, as our table", "test_compliance"),
)
"""The rows; a check belongs to the first that takes it."""

OWNERS: dict[str, str] = {}
"""Failures, by the name of their test, that are somebody else's: all others are ours."""


def results(junit: Path) -> dict[Suite, Counter[str]]:
    """Count the outcomes of each suite; failures are by name."""
    found: dict[Suite, Counter[str]] = {suite: Counter() for suite in SUITES}
    for case in ElementTree.parse(junit).iter("testcase"):
        parts, name = case.get("classname", "").split("."), case.get("name", "")
        for suite in SUITES:
            if suite.file in parts and name.startswith(suite.tests):
                kinds = {child.tag for child in case}
                is_failed = bool(kinds & {"failure", "error"})
                outcome = "failed" if is_failed else "skipped" if "skipped" in kinds else "passed"
                found[suite][outcome] += 1
                if is_failed:
                    found[suite][f"failed: {name}"] += 1
                break
    return found


def rows(found: dict[Suite, Counter[str]]) -> Iterator[str]:
    """Write the lines of the table."""
    today, total = date.today().isoformat(), Counter[str]()
    yield "| Client | Version | Date | Checks | Passed | Skipped | Failed, and whose it is |"
    yield "|---|---|---|---|---|---|---|"
    for suite, counts in found.items():
        total += counts
        ran = counts["passed"] + counts["failed"]
        failed = [key.removeprefix("failed: ") for key in counts if key.startswith("failed: ")]
        failures = ", ".join(f"`{key}` ({OWNERS.get(key, 'ours')})" for key in failed)
        when = today if ran else "not run"
        of_suite = (suite.client, version_of(suite.package), when)
        cells = (*of_suite, ran, counts["passed"], counts["skipped"])
        yield f"| {' | '.join(map(str, cells))} | {failures} |"
    ran = total["passed"] + total["failed"]
    cells = ("all", "", today, ran, total["passed"], total["skipped"])
    yield f"| {' | '.join(map(str, cells))} | {total['failed'] or ''} |"


def version_of(package: str) -> str:
    """Return the version that is installed; empty without one.

    >>> version_of(".venv-nowhere:nothing"), version_of("")
    ('', '')
    """
    folder, colon, name = package.rpartition(":")
    manifest = ROOT / folder / "node_modules" / name / "package.json"
    if colon and manifest.exists():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])
    paths = (ROOT / folder).glob("lib/python*/site-packages") if colon else sys.path
    found = distributions(name=name, path=[*map(str, paths)]) if name else ()
    return next((one.version for one in found), "")


def install() -> None:
    """Install the frameworks in Python that are not there yet."""
    for framework in FRAMEWORKS.values():
        if "packages" in framework and not version_of(
            f"{_environment(framework)}:{_package(framework)}"
        ):
            folder = ROOT / _environment(framework)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*command, *framework["packages"]], check=True)


def main() -> int:
    """Run the suites, print the table, and write it where that is asked for."""
    if "--install" in sys.argv[1:]:
        install()
        return 0
    options = [option for option in sys.argv[1:] if option != "--write"]
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "results.xml"
        files = dict.fromkeys(f"tests/server/{suite.file}.py" for suite in SUITES)
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
