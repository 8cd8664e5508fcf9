"""Write the pages of the reference and the list of public names that are made from the code.

    python scripts/docs/reference.py [--check]

With ``--check`` nothing is written; what would change is printed, and the exit status is 1.
"""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

from command_page import command_page
from endpoint_page import endpoint_pages
from public_api import public_api

from gpt_oss_harmony import cli
from gpt_oss_harmony.cli.command import command_line
from gpt_oss_harmony.server import create_app

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"


def main() -> int:
    """Write the pages, or compare them."""
    endpoints = endpoint_pages(create_app(None).openapi())  # type: ignore[arg-type]
    pages = {
        FOLDER / "command.md": command_page(command_line(cli.COMMANDS)),
        **{FOLDER / "endpoints" / name: page for name, page in endpoints.items()},
        ROOT / "tests" / "data" / "public_api.txt": public_api(),
    }
    changed = {
        path: page
        for path, page in pages.items()
        if not path.exists() or page != path.read_text(encoding="utf-8")
    }
    if "--check" in sys.argv:
        for path, page in changed.items():
            old = path.read_text(encoding="utf-8") if path.exists() else ""
            print(path, *unified_diff(old.splitlines(), page.splitlines(), n=0), sep="\n")
        return int(bool(changed))
    for path, page in changed.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
