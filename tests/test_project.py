"""The project's own files: addresses, versions, workflows, the check before a release."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
RELEASE = runpy.run_path(str(ROOT / "scripts" / "release.py"))

TEMPLATES = sorted((ROOT / ".github").rglob("*.md")) + sorted((ROOT / ".github").rglob("*.yml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NAMING_ADDRESSES = [
    *TEMPLATES,
    ROOT / "CHANGELOG.md",
    ROOT / "CITATION.cff",
    ROOT / "CONTRIBUTING.md",
    ROOT / "MAINTAINING.md",
    ROOT / "README.md",
    ROOT / "mkdocs.yml",
]


def file_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def project_url(name: str) -> str:
    match = re.search(rf'^{name} = "(https://.+)"$', PROJECT, re.MULTILINE)
    assert match is not None, name
    return match[1]


@pytest.mark.parametrize("path", NAMING_ADDRESSES, ids=file_name)
def test_addresses_are_those_of_the_project(path: Path) -> None:
    repository, site = project_url("Source"), project_url("Documentation")
    own = r"https://[\w.-]*(?:github\.com/[\w.-]*harmony[\w.-]*/|harmony[\w.-]*\.github\.io)[^\s)\"'>]*"
    for address in re.findall(own, path.read_text("utf-8")):
        if not address.startswith(
            ("https://github.com/openai/", "https://github.com/oss-harmony/")
        ):
            assert address.startswith((repository, site)), address


def test_links_of_the_readme_lead_somewhere_on_the_package_index() -> None:
    rules = re.findall(r"\{ pattern = '(.+)', replacement = '(.+)' \}", PROJECT)
    assert len(rules) == 2
    text = (ROOT / "README.md").read_text("utf-8")
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    targets = re.findall(r"\]\(([^)\s]+)", text)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []


def test_the_site_is_built_for_its_address() -> None:
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert f"\nsite_url: {project_url('Documentation')}\n" in settings
    assert f"\nrepo_url: {project_url('Source')}\n" in settings


@pytest.mark.parametrize("path", WORKFLOWS, ids=file_name)
def test_workflows_use_actions_by_their_commits(path: Path) -> None:
    text = path.read_text("utf-8")
    for action in re.findall(r"\buses: (.+)", text):
        assert re.fullmatch(
            r"\./\S+(?: # zizmor: .+)?|\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action
        ), action
    assert "\npermissions:\n  contents: read\n" in text


def test_one_action_has_one_version() -> None:
    used = {use for path in WORKFLOWS for use in re.findall(r"uses: (\S+@\S+)", path.read_text())}
    assert len({use.partition("@")[0] for use in used}) == len(used)


# The check before a release

SECTIONS = """
## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- A horn.

## [0.1.0] - 2026-11-01

- The first version.

[0.2.0]: https://example.org/compare
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of version 0.2.0, as far as the check reads it."""
    for name in RELEASE["VERSIONS"]:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        version = RELEASE["version_of"](ROOT)
        target.write_text((ROOT / name).read_text("utf-8").replace(version, "0.2.0"), "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(SECTIONS, "utf-8")
    return tmp_path


def notes(checkout: Path, tag: str | None) -> Any:
    return RELEASE["release_notes"](checkout, RELEASE["version_of"](checkout), tag)


def test_this_version_is_named_everywhere_and_has_notes() -> None:
    assert RELEASE["release_notes"](ROOT, RELEASE["version_of"](ROOT))


def test_the_notes_of_a_tag_are_the_section_of_its_version(checkout: Path) -> None:
    assert notes(checkout, "v0.2.0") == "### Added\n\n- A horn."


@pytest.mark.parametrize("tag", ["0.2.0", "v0.1.0", "v0.2", "v0.2.0rc1"])
def test_a_tag_names_the_version(checkout: Path, tag: str) -> None:
    with pytest.raises(ValueError, match=f"the tag {tag} is not v0.2.0; set the version in"):
        notes(checkout, tag)


@pytest.mark.parametrize("name", RELEASE["VERSIONS"])
def test_every_file_names_the_version(checkout: Path, name: str) -> None:
    shutil.copy(ROOT / name, checkout / name)
    with pytest.raises(ValueError, match=f"the versions differ: .*{re.escape(name)} has 0.1.0"):
        notes(checkout, "v0.2.0")


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("## [0.2.0]", r"CHANGELOG.md has no section '## \[0.2.0\] - YEAR-MONTH-DAY'"),
        ("## [Unreleased]", r"CHANGELOG.md has no section"),
        (
            "## [0.2.0] - 2026-12-01\n\n## [0.1.1] - 2026-11-20",
            "the section of CHANGELOG.md is empty",
        ),
    ],
)
def test_the_changelog_has_a_section_with_a_date(
    checkout: Path, section: str, problem: str
) -> None:
    changed = SECTIONS.replace("## [0.2.0] - 2026-12-01", section)
    (checkout / "CHANGELOG.md").write_text(changed, "utf-8")
    with pytest.raises(ValueError, match=problem):
        notes(checkout, "v0.2.0")


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [("## [Unreleased]\n\n- More.\n", "- More."), (SECTIONS, "### Added\n\n- A horn.")],
)
def test_without_a_tag_what_is_unreleased_will_do(
    checkout: Path, changelog: str, expected: str
) -> None:
    (checkout / "CHANGELOG.md").write_text(changelog, "utf-8")
    assert notes(checkout, None) == expected


def test_a_requirement_of_another_version_is_found(checkout: Path) -> None:
    path = checkout / "packages" / "vllm" / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace("]==0.2.0", "]==0.1.9"), "utf-8")
    with pytest.raises(
        ValueError, match=r"the requirement in packages/vllm/pyproject.toml has 0\.1\.9"
    ):
        notes(checkout, "v0.2.0")


def test_what_is_checked_is_the_commit_of_the_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, file = tmp_path / "root", tmp_path / "root" / "CHANGELOG.md"

    def git(*command: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *command], cwd=root, check=True, capture_output=True)

    def cloned(tag: str | None, name: str) -> str:
        RELEASE["clone_commit"](root, tag, tmp_path / name)
        return (tmp_path / name / "CHANGELOG.md").read_text("utf-8")

    root.mkdir()
    git("init")
    for version in ("0.1.0", "0.2.0"):
        file.write_text(version, "utf-8")
        git("add", ".")
        git("commit", "-m", version)
        git("tag", "-a", f"v{version}", "-m", version)
    assert cloned("v0.2.0", "tagged") == "0.2.0"
    for tag in ("v0.1.0", "v0.3.0"):
        with pytest.raises(ValueError, match=f"this commit does not have the tag {tag}"):
            cloned(tag, "other")
    file.write_text("0.3.0", "utf-8")
    with pytest.raises(ValueError, match=r"there are changes that v0\.2\.0 does not have"):
        cloned("v0.2.0", "changed")
    assert not capsys.readouterr().out
    assert cloned(None, "untagged") == "0.2.0"
    assert capsys.readouterr().out == "ok  what is not committed is not in the release\n"


@pytest.mark.slow
def test_the_installed_distributions_pass_the_conformance_kit(tmp_path: Path) -> None:
    pytest.importorskip("openai_harmony", reason="needs the four distributions")
    programs = Path(sys.executable).parent
    score = RELEASE["try_installation"](programs, RELEASE["version_of"](ROOT), ROOT, tmp_path)
    assert re.fullmatch(r"passes (\d+) of \1 cases of the conformance kit's level format", score)


def test_the_quick_tests_run_against_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONPATH is not passed on; another copy of the library that is imported is an error."""
    files = {
        "tests/test_one.py": "import os\ndef test_one(): assert 'PYTHONPATH' not in os.environ\n",
        "gpt_oss_harmony/__init__.py": "",
        "pytest.ini": "[pytest]\nmarkers = slow\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setitem(RELEASE["quick_tests"].__globals__, "QUICK", ["test_one.py"])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"ran against .*gpt_oss_harmony.__init__\.py, not the"):
        RELEASE["quick_tests"](Path(sys.executable).parent, tmp_path)


COMMAND = "[console_scripts]\nharmony = gpt_oss_harmony.cli:main\n"
PLUGIN = "[vllm.general_plugins]\nharmony = gpt_oss_harmony_vllm:register\n"


@pytest.mark.parametrize(
    ("files", "entry_points", "problem"),
    [
        (["gpt_oss_harmony/__init__.py"], COMMAND, None),
        (["openai_harmony/__init__.py"], "", None),
        (["gpt_oss_harmony_vllm/__init__.py"], PLUGIN, None),
        (["gpt_oss_harmony_conformance/cases/chat.json"], COMMAND, None),
        (
            ["gpt_oss_harmony/__init__.py", "openai_harmony/__init__.py"],
            COMMAND,
            "w.whl has files in gpt_oss_harmony, openai_harmony; expected one",
        ),
        (["gpt_oss_harmony/__init__.py", "README.md"], "", "has files in README.md, gpt_oss"),
        (["tests/test_project.py"], "", "has files in tests; expected one"),
        ([], "", "expected one"),
        (
            ["gpt_oss_harmony/__init__.py"],
            COMMAND + PLUGIN,
            r"entry points of another program: \['vllm.general_plugins'\]",
        ),
        (
            ["gpt_oss_harmony_vllm/__init__.py"],
            PLUGIN + "[pytest11]\nharmony = gpt_oss_harmony_vllm\n",
            "'pytest11'",
        ),
        (["gpt_oss_harmony_vllm/__init__.py"], "", "entry points"),
    ],
)
def test_a_wheel_reaches_into_no_other_library(
    tmp_path: Path, files: list[str], entry_points: str, problem: str | None
) -> None:
    wheel = tmp_path / "w.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in files:
            archive.writestr(file, "")
        archive.writestr("w-0.1.0.dist-info/METADATA", "Name: w")
        archive.writestr("w-0.1.0.dist-info/sboms/sbom.cdx.json", "{}")
        if entry_points:
            archive.writestr("w-0.1.0.dist-info/entry_points.txt", entry_points)
    if problem is None:
        RELEASE["check_contents"](wheel)
    else:
        with pytest.raises(ValueError, match=problem):
            RELEASE["check_contents"](wheel)


def test_a_wheel_has_a_bill_of_materials_that_is_not_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["sbom.py", "--check"])
    script = runpy.run_path(str(ROOT / "scripts" / "sbom.py"))
    assert script["main"]() == 0
    named = {file for parts in script["CONTAINED"].values() for *_, file in parts}
    large = {file for file in script["DATA"].rglob("*") if file.stat().st_size > 50_000}
    assert large == named  # smaller ones are our own, or the licence of a large one
    components = script["sbom"](ROOT)["components"]
    scopes = {one["name"]: one["scope"] for one in components if "scope" in one}
    assert scopes["pydantic"] == "required"
    assert scopes["alembic"] == scopes["mlx"] == "optional"
    assert "gpt-oss-harmony" not in scopes
    wheel = tmp_path / "w.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("gpt_oss_harmony/__init__.py", "")
    with pytest.raises(ValueError, match="no bill of materials"):
        RELEASE["check_contents"](wheel)


@pytest.mark.parametrize("name", RELEASE["PACKAGES"])
def test_every_distribution_ships_its_license_and_runs_where_the_library_does(name: str) -> None:
    folder = RELEASE["PACKAGES"][name]
    project = (folder / "pyproject.toml").read_text("utf-8")
    assert re.search(r'^license-files = \["LICENSE"', project, re.MULTILINE)
    assert (folder / "LICENSE").read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")
    assert '\nrequires-python = ">=3.10"\n' in project


def test_all_files_of_the_kit_name_one_specification() -> None:
    data = ROOT / "packages" / "conformance" / "gpt_oss_harmony_conformance"
    versions = {json.loads(file.read_text("utf-8"))["version"] for file in data.rglob("*.json")}
    assert len(versions) == 1


# make check


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("true", r"\.\.\. +names: true\nok +names \(\d+ s\): no errors\n"),
        ("false", r"\.\.\. +names: false\n\nFAILED +names \(\d+ s\): rename them\n"),
        ("no-such-program", r"skipped +names: no-such-program is not installed\n"),
    ],
)
def test_a_check_says_what_it_runs_and_what_to_do(
    program: str, lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check = runpy.run_path(str(ROOT / "scripts" / "check_code.py"))
    assert check["passes"](check["Tool"](program, "names", "rename them")) is (program != "false")
    assert re.fullmatch(lines, capsys.readouterr().out)


def test_lint_runs_ruff_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = runpy.run_path(str(ROOT / "scripts" / "check_code.py"))
    run: list[str] = []
    monkeypatch.setitem(check["main"].__globals__, "passes", lambda tool: run.append(tool.command))
    assert check["main"](["ruff"]) == 1
    assert run == ["ruff check", "ruff format --check"]
    assert capsys.readouterr().out == "failed: rules of the code, layout of the code\n"
