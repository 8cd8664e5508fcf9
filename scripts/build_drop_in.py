"""Build the drop-in under the name of another library: ``make wheel-drop-in``.

The wheel is that of gpt-oss-harmony-drop-in, one small module; only its name and version differ.
The version is that of the other library with ours as the local part, 0.0.8+gptoss.0.1.0. Installers
accept that for ``==0.0.8`` and for ``>=0.0.3``. PyPI refuses local parts, so that the wheel is
never published there by mistake.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DROP_IN = ROOT / "packages" / "drop_in"


def build_drop_in(requirement: str) -> None:
    """Build the wheel that stands in for a requirement, such as ``openai-harmony==0.0.8``."""
    asked = re.fullmatch(r"([\w.-]+)==(\d[\w.]*)", requirement)
    if asked is None:
        sys.exit(f"{requirement!r} does not name a version; expected openai-harmony==0.0.8")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(shutil.copytree(DROP_IN, Path(folder, "drop_in")))
        rename(source / "pyproject.toml", *asked.groups())
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(ROOT / "dist")]
        subprocess.run([*command, str(source)], check=True)


def rename(project: Path, name: str, version: str) -> None:
    """Write the name of another library into a pyproject.toml, and its version."""
    text = project.read_text("utf-8")
    text = re.sub(r'^name = ".+"', f'name = "{name}"', text, count=1, flags=re.MULTILINE)
    text = re.sub(
        r'^version = "(.+)"', rf'version = "{version}+gptoss.\1"', text, count=1, flags=re.MULTILINE
    )
    project.write_text(text, "utf-8")


if __name__ == "__main__":
    build_drop_in(*sys.argv[1:])
