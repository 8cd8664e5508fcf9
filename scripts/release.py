"""Check a release before it is published: its version, its changelog, its distributions.

``release.py check [TAG]`` runs every step of the release that needs no network but the index of
packages:

1. All files name the same version, and the changelog has a section for it, dated if there is a TAG.
2. The sdists and wheels of the four distributions are built into an empty folder, and `twine check
   --strict` accepts them. No wheel has a file outside its own folder, and only the plugin's has an
   entry point of another program.
3. The wheels are installed into an empty environment. There, the command prints the version, the
   drop-in's objects are the library's, and the library passes the level *format* of the conformance
   kit, whose tokens are OpenAI's.

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

PACKAGES = {
    "gpt_oss_harmony": ROOT,
    "openai_harmony": ROOT / "packages" / "drop_in",
    "gpt_oss_harmony_vllm": ROOT / "packages" / "vllm",
    "gpt_oss_harmony_conformance": ROOT / "packages" / "conformance",
}
"""The folder of each distribution's project, by the name that it is imported as."""

_PROJECT = r'^version = "(.+)"$'
_REQUIRES = r'"gpt-oss-harmony(?:\[\w+\])?==(.+?)"'
VERSIONS = {
    "pyproject.toml": (_PROJECT,),
    "packages/drop_in/pyproject.toml": (_PROJECT, _REQUIRES),
    "packages/vllm/pyproject.toml": (_PROJECT, _REQUIRES),
    "packages/conformance/pyproject.toml": (_PROJECT,),
    "src/gpt_oss_harmony/installation.py": (r'^VERSION = "(.+)"$',),
    "CITATION.cff": (r"^version: (.+)$",),
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
    for name, patterns in VERSIONS.items():
        text = (root / name).read_text("utf-8")
        for pattern in patterns:
            match = re.search(pattern, text, re.MULTILINE)
            place = name if pattern != _REQUIRES else f"the requirement in {name}"
            versions[place] = match[1] if match else "no version"
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
        for project in PACKAGES.values():
            _run(sys.executable, "-m", "build", "--outdir", dist, project)
        files = sorted(dist.iterdir())
        _report(f"built {', '.join(file.name for file in files)}")
        _run(sys.executable, "-m", "twine", "check", "--strict", *files)
        _report("twine check --strict")
        wheels = [file for file in files if file.suffix == ".whl"]
        for wheel in wheels:
            check_contents(wheel)
        _report("each wheel has one folder; only the plugin's has an entry point for vLLM")
        programs = _install(wheels, Path(folder))
        _report(f"installed; {try_installation(programs, version, Path(folder))}")
    if tag is not None:
        _report(f"{tag} can be released")
    elif f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        _report(f"v{version} can be tagged")
    else:
        _report(
            "the release builds and installs; before the tag, rename the section Unreleased of "
            f"CHANGELOG.md to [{version}] - YEAR-MONTH-DAY"
        )


def check_contents(wheel: Path) -> None:
    """Raise a ValueError for a wheel that reaches into another library or program."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entries = "".join(
            archive.read(name).decode() for name in names if name.endswith("entry_points.txt")
        )
    folders = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    if len(folders) != 1 or not folders <= set(PACKAGES):
        raise ValueError(f"{wheel.name} has files in {', '.join(sorted(folders))}; expected one")
    groups = set(re.findall(r"^\[(.+)\]$", entries, re.MULTILINE)) - {"console_scripts"}
    if groups != ({"vllm.general_plugins"} if folders == {"gpt_oss_harmony_vllm"} else set()):
        raise ValueError(f"{wheel.name} has entry points of another program: {sorted(groups)}")


def _install(wheels: list[Path], folder: Path) -> Path:
    """Install wheels into an empty environment; return the folder of its programs."""
    _run(sys.executable, "-m", "venv", folder / "venv")
    programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    _run(programs / "python", "-m", "pip", "install", "--quiet", *wheels)
    return programs


def try_installation(programs: Path, version: str, folder: Path) -> str:
    """Try the installed distributions in a folder: the command, the drop-in, the kit's score."""
    if (printed := _run(programs / "harmony", "--version").strip()) != f"harmony {version}":
        raise ValueError(f"the installed command prints {printed!r} as its version")
    code = "import openai_harmony, gpt_oss_harmony as ours; assert openai_harmony.Role is ours.Role"
    _run(programs / "python", "-c", code, cwd=folder)
    adapter = shutil.copy(PACKAGES["gpt_oss_harmony_conformance"] / "adapters" / "ours.py", folder)
    run = ("run", "--command", f"{programs / 'python'} {adapter}", "--level", "format")
    _run(programs / "harmony-conformance", *run, "--output", folder / "report.json", cwd=folder)
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
