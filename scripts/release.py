"""Check a release before it is published: its version, its changelog, its distributions.

``release.py check [TAG]`` runs every step of the release that needs no network but the index of
packages:

1. All files name the same version, and the changelog has a dated section for it. Without a TAG, the
   section *Unreleased* will do.
2. The sdists and wheels of the library and of the conformance kit are built into an empty folder,
   and `twine check --strict` accepts them.
3. If the index has the conformance kit in this version, the wheel built here has the same files: a
   version is published once.
4. The wheels are installed into an empty environment. There, the command prints the version, and
   the library passes the level *format* of the conformance kit, whose tokens are OpenAI's.

``release.py notes TAG`` prints the changelog's section of a version.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

VERSIONS = {
    "pyproject.toml": r'^version = "(.+)"$',
    "src/openai_harmony/installation.py": r'^VERSION = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
}
"""The files that name the version, and how."""


def main(arguments: list[str]) -> int:
    """Run a command; return 1, with one line, for a release that is not ready."""
    parser = argparse.ArgumentParser(description="Check a release before it is published.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="run every step that can run on this machine")
    check.add_argument("tag", nargs="?", help="the tag that is released, such as v0.1.0")
    check.add_argument("--out", type=Path, help="an empty folder for the distributions")
    notes = commands.add_parser("notes", help="print the changelog's section of a version")
    notes.add_argument("tag")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "notes":
            print(release_notes(ROOT, version_of(ROOT), chosen.tag))
        else:
            _check(chosen.tag, chosen.out)
    except ValueError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: this failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    return 0


def version_of(root: Path) -> str:
    """Return the version that all files name; raise a ValueError where they differ."""
    versions = {}
    for name, pattern in VERSIONS.items():
        match = re.search(pattern, (root / name).read_text("utf-8"), re.MULTILINE)
        versions[name] = match[1] if match else "no version"
    if len(set(versions.values())) > 1:
        listed = ", ".join(f"{name} has {version}" for name, version in versions.items())
        raise ValueError(f"the versions differ: {listed}")
    return versions["pyproject.toml"]


def release_notes(root: Path, version: str, tag: str | None = None) -> str:
    """Return the changelog's section of a version; without a tag, *Unreleased* will do."""
    if tag is not None and tag != f"v{version}":
        raise ValueError(
            f"the tag {tag} is not v{version}; set the version in {' and '.join(VERSIONS)}, "
            "or tag another commit"
        )
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    section = r"^## ([^\n]+)\n(.*?)(?=^## |^\[[^\]]+\]: |\Z)"
    sections: dict[str, str] = dict(re.findall(section, changelog, re.MULTILINE | re.DOTALL))
    dated = rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d"
    titles = [title for title in sections if re.fullmatch(dated, title)]
    if not titles and tag is None and "[Unreleased]" in sections:
        titles = ["[Unreleased]"]
    if not titles:
        raise ValueError(f"CHANGELOG.md has no section '## [{version}] - YEAR-MONTH-DAY'; add it")
    if not (notes := sections[titles[0]].strip()):
        raise ValueError("the section of CHANGELOG.md is empty; say what has changed")
    return notes


def _check(tag: str | None, out: Path | None) -> None:
    version = version_of(ROOT)
    lines = release_notes(ROOT, version, tag).count("\n") + 1
    _report(f"version {version} in {', '.join(VERSIONS)}; {lines} lines in CHANGELOG.md")
    with tempfile.TemporaryDirectory() as folder:
        dist = out or Path(folder, "dist")
        for project in (ROOT, ROOT / "conformance"):
            _run(sys.executable, "-m", "build", "--outdir", dist, project)
        files = sorted(dist.iterdir())
        _report(f"built {', '.join(file.name for file in files)}")
        _run(sys.executable, "-m", "twine", "check", "--strict", *files)
        _report("twine check --strict")
        wheels = [file for file in files if file.suffix == ".whl"]
        (kit,) = (wheel for wheel in wheels if "conformance" in wheel.name)
        _report(compare_with_published(kit, _published(kit, Path(folder, "published"))))
        programs = _install(wheels, Path(folder))
        _report(f"installed; {try_command(programs, version, Path(folder))}")
    if tag is not None:
        _report(f"{tag} can be released")
    elif f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        _report(f"v{version} can be tagged")
    else:
        _report(
            "the release builds and installs; before the tag, rename the section Unreleased of "
            f"CHANGELOG.md to [{version}] - YEAR-MONTH-DAY"
        )


def _published(wheel: Path, folder: Path) -> Path | None:
    """Download the wheel of this name and version; return None if the index has none."""
    name, version, *_ = wheel.name.split("-")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"{name}=={version}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if "No matching distribution found" in done.stderr:
        return None
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        done.check_returncode()
    return next(folder.iterdir())


def compare_with_published(wheel: Path, published: Path | None) -> str:
    """Say if a wheel is new; raise a ValueError if its version is published with other files."""
    name, version, *_ = wheel.name.split("-")
    if published is None:
        return f"{name} {version} is not published yet"
    if _contents(wheel) != _contents(published):
        raise ValueError(
            f"{name} {version} is published with other files; raise the version in "
            "conformance/pyproject.toml and in the files of the kit, as conformance/README.md says"
        )
    return f"{name} {version} is published with these files"


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name
        }


def _install(wheels: list[Path], folder: Path) -> Path:
    """Install wheels into an empty environment; return the folder of its programs."""
    _run(sys.executable, "-m", "venv", folder / "venv")
    programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    _run(programs / "python", "-m", "pip", "install", "--quiet", *wheels)
    return programs


def try_command(programs: Path, version: str, folder: Path) -> str:
    """Run the installed command in a folder: its version and the conformance kit; say the score."""
    if (printed := _run(programs / "harmony", "--version").strip()) != f"harmony {version}":
        raise ValueError(f"the installed command prints {printed!r} as its version")
    adapter = shutil.copy(ROOT / "conformance" / "adapters" / "ours.py", folder)
    run = ("conformance", "run", "--module", adapter, "--level", "format")
    _run(programs / "harmony", *run, "--output", folder / "report.json", cwd=folder)
    counts = json.loads((folder / "report.json").read_text("utf-8"))["counts"]
    passed = counts["passed"]
    return f"passes {passed} of {sum(counts.values())} cases of the conformance kit's level format"


def _run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a program and return what it prints; show that where it fails."""
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        done.check_returncode()
    return done.stdout


def _report(line: str) -> None:
    print(f"ok  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
