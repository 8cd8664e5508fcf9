"""Check the files that GitHub reads: ``make workflows-check``.

check-jsonschema compares workflows, issue forms and CITATION.cff with their JSON Schemas; zizmor
looks for holes in workflows, and actionlint for mistakes. A tool that is missing is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"
FORMS = sorted(set(CONFIG.parent.glob("*.yml")) - {CONFIG})
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

CHECKS: list[list[str | Path]] = [
    ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS],
    ["check-jsonschema", "--builtin-schema", "vendor.github-issue-forms", *FORMS],
    ["check-jsonschema", "--builtin-schema", "vendor.github-issue-config", CONFIG],
    ["check-jsonschema", "--builtin-schema", "vendor.citation-file-format", ROOT / "CITATION.cff"],
    ["zizmor", "--offline", "--quiet", *WORKFLOWS],
    ["actionlint", *WORKFLOWS],
]


def main() -> int:
    """Run each tool; return 1 if one finds something."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    failed = False
    for command in CHECKS:
        name = " ".join(part for part in command if isinstance(part, str))
        if not shutil.which(command[0]):
            print(f"FAILED   {name}: {command[0]} is not installed", flush=True)
            failed = True
            continue
        code = subprocess.call(command)
        failed = failed or code != 0
        print(f"{'FAILED' if code else 'ok':8} {name}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
