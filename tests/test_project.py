"""The project's own files: addresses, versions, workflows, the check before a release."""

from __future__ import annotations

import re
import runpy
import shutil
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


def test_without_a_tag_what_is_unreleased_will_do(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## [Unreleased]\n\n- More.\n", "utf-8")
    assert notes(checkout, None) == "- More."
