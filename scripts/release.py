"""Check a release before it is published: its version, its changelog, its distributions.

``release.py check [TAG]`` runs every step of the release that needs no network but the index of
packages:

1. The commit is cloned; with a TAG, it has that tag and nothing beside it is changed. All files of
   the clone name the same version, and its changelog has a section for it, dated if there is a TAG.
2. The sdists and wheels of the four distributions are built from the clone, and
   `twine check --strict` accepts them. Each wheel has a bill of materials, none has a file outside
   its own folder, and only the plugin's has an entry point of another program.
3. An index on this machine has the wheels. pip and uv install them from it by their names, with
   each Python at hand. There, the command prints the version, the drop-in's objects are the
   library's, the README's examples print what it says, and the library passes the level *format* of
   the conformance kit, whose tokens are OpenAI's. Where pip has installed them, the core's quick
   tests run against the installed packages.

``release.py notes TAG`` prints the changelog's section of a version.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = {
    "gpt_oss_harmony": ROOT,
    "openai_harmony": ROOT / "packages" / "drop_in",
    "gpt_oss_harmony_vllm": ROOT / "packages" / "vllm",
    "gpt_oss_harmony_conformance": ROOT / "packages" / "conformance",
}
"""The folder of each distribution's project, by the name that it is imported as."""

QUICK = ("parsing", "rendering", "tokens", "typescript", "apis", "test_installation.py")
"""The tests of the core, in ``tests``."""

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
    check.add_argument(
        "--pythons", nargs="+", default=[sys.executable], help="programs, tried where they start"
    )
    notes = commands.add_parser("notes", help="print the changelog's section of a version")
    notes.add_argument("tag")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "notes":
            print(release_notes(ROOT, version_of(ROOT), chosen.tag))
        else:
            _check(chosen.tag, chosen.out, chosen.pythons)
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


def _check(tag: str | None, out: Path | None, pythons: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dist, clone = out or folder / "dist", folder / "clone"
        clone_commit(ROOT, tag, clone)
        version = version_of(clone)
        lines = release_notes(clone, version, tag).count("\n") + 1
        _report(f"version {version} in {', '.join(VERSIONS)}; {lines} lines in CHANGELOG.md")
        for project in PACKAGES.values():
            place = clone / project.relative_to(ROOT)
            _run(sys.executable, "-m", "build", "--outdir", dist, place)
        files = sorted(dist.iterdir())
        _report(f"built {', '.join(file.name for file in files)}")
        _run(sys.executable, "-m", "twine", "check", "--strict", *files)
        _report("twine check --strict")
        wheels = [file for file in files if file.suffix == ".whl"]
        for wheel in wheels:
            check_contents(wheel)
        _report(
            "each wheel has its SBOM and one folder; only the plugin's has an entry point for vLLM"
        )
        _try_everywhere(wheels, version, clone, folder, [*filter(None, map(_started, pythons))])
        is_dated = f"\n## [{version}] - " in (clone / "CHANGELOG.md").read_text("utf-8")
    if tag is not None:
        _report(f"{tag} can be released")
    elif is_dated:
        _report(f"v{version} can be tagged")
    else:
        _report(
            "the release builds and installs; before the tag, rename the section Unreleased of "
            f"CHANGELOG.md to [{version}] - YEAR-MONTH-DAY"
        )


def clone_commit(root: Path, tag: str | None, clone: Path) -> None:
    """Clone the commit that is checked out; raise a ValueError if it is not all that has the tag.

    Without a tag, what is not committed is only reported.
    """
    changes = _run("git", "status", "--porcelain", cwd=root)
    if tag is None and changes:
        _report("what is not committed is not in the release")
    elif changes:
        raise ValueError(f"there are changes that {tag} does not have; commit or remove them")
    if tag is not None and tag not in _run("git", "tag", "--points-at", "HEAD", cwd=root).split():
        raise ValueError(f"this commit does not have the tag {tag}; check it out, or make it here")
    _run("git", "clone", "--quiet", root, clone, cwd=root)


def check_contents(wheel: Path) -> None:
    """Raise a ValueError for a wheel that reaches into another library, or has no SBOM."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entries = "".join(
            archive.read(name).decode() for name in names if name.endswith("entry_points.txt")
        )
    folders = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    if len(folders) != 1 or not folders <= set(PACKAGES):
        raise ValueError(f"{wheel.name} has files in {', '.join(sorted(folders))}; expected one")
    if not any(re.search(r"\.dist-info/sboms/.+\.cdx\.json$", name) for name in names):
        raise ValueError(f"{wheel.name} has no bill of materials in its folder sboms")
    groups = set(re.findall(r"^\[(.+)\]$", entries, re.MULTILINE)) - {"console_scripts"}
    if groups != ({"vllm.general_plugins"} if folders == {"gpt_oss_harmony_vllm"} else set()):
        raise ValueError(f"{wheel.name} has entry points of another program: {sorted(groups)}")


def _try_everywhere(
    wheels: list[Path], version: str, clone: Path, folder: Path, pythons: list[tuple[str, str]]
) -> None:
    """Install from an index by each installer with each Python, and try what is installed."""
    if not pythons:
        raise ValueError("none of the named Pythons starts; name one: make release-check PYTHONS=")
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    with serve_index(wheels, folder / "index") as address:
        for python, number in pythons:
            for tool in ("pip", uv) if uv else ("pip",):
                home = folder / f"{number}-{Path(tool).stem}"
                _run(python, "-m", "venv", home)
                programs = home / ("Scripts" if sys.platform == "win32" else "bin")
                names = [f"{_distribution(wheel)}=={version}" for wheel in wheels]
                _install(tool, programs, address, *names)
                said = try_installation(programs, version, clone, home)
                run_readme(programs, clone)
                if tool == "pip":
                    _install(tool, programs, address, f"gpt-oss-harmony[test]=={version}")
                    said += f", {quick_tests(programs, clone)}"
                _report(f"Python {number} by {Path(tool).stem}: {said}")
    if not uv:
        _report("uv is not installed, so only pip was tried")


def _install(tool: str, programs: Path, address: str, *names: str) -> None:
    """Install distributions by pip, or the program uv, from an index beside PyPI."""
    python = programs / "python"
    options = ("--quiet", "--extra-index-url", address, *names)
    if tool == "pip":
        _run(python, "-m", "pip", "install", *options)
    else:
        _run(tool, "pip", "install", "--python", python, *options)


def _started(python: str) -> tuple[str, str] | None:
    """Return the path and the version of a Python; None, with a line, if it does not start."""
    path = shutil.which(python)
    code = "import platform; print(platform.python_version())"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True) if path else None
    if path is None or done is None or done.returncode:
        _report(f"{python} does not start, so it is not tried")
        return None
    return path, done.stdout.strip()


def _distribution(wheel: Path) -> str:
    return wheel.name.partition("-")[0].replace("_", "-")


@contextlib.contextmanager
def serve_index(wheels: list[Path], folder: Path) -> Iterator[str]:
    """Serve wheels as an index of packages does (PEP 503); yield its address."""
    for wheel in wheels:
        project = folder / _distribution(wheel)
        project.mkdir(parents=True)
        shutil.copy(wheel, project)
        (project / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def run_readme(programs: Path, root: Path) -> None:
    """Run the README's examples; raise a ValueError where one prints something else."""
    text = (root / "README.md").read_text("utf-8")
    shown = re.findall(r"^```python\n(.*?)^```\n+(?:```text\n(.*?)^```)?", text, re.M | re.S)
    code = "\n".join(block for block, _ in shown)
    printed = _run(programs / "python", "-c", code, cwd=programs)
    if printed != (said := "".join(output for _, output in shown)):
        raise ValueError(f"the README's examples print {printed!r}, not {said!r}")


def quick_tests(programs: Path, clone: Path) -> str:
    """Run the core's tests against the installed packages; return what pytest counts.

    Raises a ValueError if they ran against another copy of the library.
    """
    tests = [f"tests/{name}" for name in QUICK]
    options = ("-q", "-p", "no:cacheprovider", "-m", "not slow")
    code = """
import sys, pytest
failed = pytest.main(sys.argv[1:])
import gpt_oss_harmony
print(gpt_oss_harmony.__file__)
sys.exit(failed)"""
    printed = _run(programs / "python", "-c", code, *options, *tests, cwd=clone)
    file = Path(printed.splitlines()[-1]).resolve()
    if not file.is_relative_to(programs.parent.resolve()):
        raise ValueError(f"the quick tests ran against {file}, not the installed packages")
    counted = re.findall(r"^(\d+ passed.*?) in ", printed, re.MULTILINE)
    return f"{counted[-1]} of the core's quick tests"


def try_installation(programs: Path, version: str, clone: Path, folder: Path) -> str:
    """Try the installed distributions in a folder: the command, the drop-in, the kit's score."""
    if (printed := _run(programs / "harmony", "--version").strip()) != f"harmony {version}":
        raise ValueError(f"the installed command prints {printed!r} as its version")
    code = "import openai_harmony, gpt_oss_harmony as ours; assert openai_harmony.Role is ours.Role"
    _run(programs / "python", "-c", code, cwd=folder)
    adapters = clone / "packages" / "conformance" / "adapters"
    adapter = shutil.copy(adapters / "ours.py", folder)
    run = ("run", "--command", f"{programs / 'python'} {adapter}", "--level", "format")
    _run(programs / "harmony-conformance", *run, "--output", folder / "report.json", cwd=folder)
    counts = json.loads((folder / "report.json").read_text("utf-8"))["counts"]
    passed = counts["passed"]
    return f"passes {passed} of {sum(counts.values())} cases of the conformance kit's level format"


def _run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a program and return what it prints; show that where it fails.

    It does not get the variables by which a Python would import other code than it has installed.
    """
    hidden = ("PYTHONHOME", "PYTHONPATH")
    done = subprocess.run(
        command,
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        done.check_returncode()
    return done.stdout


def _report(line: str) -> None:
    print(f"ok  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
