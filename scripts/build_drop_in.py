"""Build our wheel under the name of another library: ``make wheel-drop-in``.

Its files are those of gpt-oss-harmony; only the name differs, here and in errors that name an
extra. Its version is that of the other library with ours as the local part, 0.0.8+gptoss.0.1.0.
Installers accept that for ``==0.0.8`` and for ``>=0.0.3``. PyPI refuses local parts, so that the
wheel is never published there by mistake.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = "gpt-oss-harmony"
INSTALLATION = Path("src", "openai_harmony", "installation.py")


def build_drop_in(requirement: str) -> None:
    """Build the wheel that stands in for a requirement, such as ``openai-harmony==0.0.8``."""
    asked = re.fullmatch(r"([\w.-]+)==(\d[\w.]*)", requirement)
    if asked is None:
        sys.exit(f"{requirement!r} does not name a version; expected openai-harmony==0.0.8")
    with tempfile.TemporaryDirectory() as folder:
        _build("--sdist", folder, ROOT)
        (archive,) = Path(folder).iterdir()
        shutil.unpack_archive(archive, folder)
        source = archive.with_name(archive.name.removesuffix(".tar.gz"))
        rename(source, *asked.groups())
        _build("--wheel", str(ROOT / "dist"), source)


def rename(source: Path, name: str, version: str) -> None:
    """Give an unpacked source distribution the name of another library, and its version."""
    project = source / "pyproject.toml"
    _replace(project, rf'"{OURS}(?=["\[])', f'"{name}')  # the addresses of the project stay
    _replace(project, r'^version = "(.+)"', rf'version = "{version}+gptoss.\1"')
    _replace(source / INSTALLATION, rf'^DISTRIBUTION = "{OURS}"', f'DISTRIBUTION = "{name}"')


def _replace(file: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text("utf-8"), flags=re.MULTILINE)
    if not count:
        sys.exit(f"{file.name} has nothing like {pattern}")
    file.write_text(text, "utf-8")


def _build(kind: str, out: str, source: Path) -> None:
    command = [sys.executable, "-m", "build", kind, "--outdir", out, str(source)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    build_drop_in(*sys.argv[1:])
