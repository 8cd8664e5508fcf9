"""The installed library: its name, extras that are missing, other libraries in its folder."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpt_oss_harmony
from gpt_oss_harmony.installation import DISTRIBUTION, missing_package

ROOT = Path(__file__).parent.parent
PACKAGE = Path(gpt_oss_harmony.__file__).parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
REMEDY = (
    "run 'pip uninstall -y gpt-oss-harmony openai-harmony oss-harmony', "
    "then 'pip install gpt-oss-harmony'"
)
OTHERS = ("gpt_oss_harmony.abi3.so", "gpt_oss_harmony.pyd")


def test_name_and_version_are_those_of_the_project() -> None:
    assert f'\nname = "{DISTRIBUTION}"\n' in PROJECT
    assert f'\nversion = "{gpt_oss_harmony.__version__}"\n' in PROJECT


def test_errors_name_extras_that_exist() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    named = set(re.findall(r'missing_package\([^)]*, "(\w+)"\)', sources))
    assert named == {
        "grammar",
        "http",
        "inspect",
        "serve",
        "terminal",
        "tools",
        "train",
        "transformers",
        "vllm",
    }
    assert all(re.search(rf"^{extra} = \[", PROJECT, re.MULTILINE) for extra in named)


def test_the_text_for_a_missing_package() -> None:
    text = missing_package("keys need", ImportError(name="alembic"), "serve")
    assert text == "keys need alembic; pip install 'gpt-oss-harmony[serve]'"


# Two libraries in one folder


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "gpt_oss_harmony"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__", "data", "page"))
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python beside a copy of the package."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder.parent, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_copy_works_alone(copied: Path) -> None:
    done = run(copied, "-c", "import gpt_oss_harmony; print(gpt_oss_harmony.__file__)")
    assert done.stdout.strip() == str(copied / "__init__.py"), done.stderr


@pytest.mark.parametrize("name", OTHERS)
def test_another_library_in_the_folder_is_an_import_error(copied: Path, name: str) -> None:
    (copied / name).touch()
    code = "try: import gpt_oss_harmony\nexcept ImportError as error: print(error.path, error)"
    done = run(copied, "-c", code)
    path = copied / name
    assert done.stdout == (
        f"{path} two libraries are installed in one folder: {path} belongs to OpenAI's or its "
        f"fork; {REMEDY}\n"
    ), done.stderr


@pytest.mark.parametrize("package", ["apis", "cli", "engines", "grammar", "pipeline", "training"])
def test_it_is_one_where_the_other_was_installed_last(copied: Path, package: str) -> None:
    (copied / OTHERS[0]).touch()
    (copied / "__init__.py").write_text("")  # that of the other library, which has its own names
    done = run(copied, "-c", f"from gpt_oss_harmony.{package} import *")
    assert REMEDY in done.stderr


def test_the_command_says_so_in_both_orders(copied: Path) -> None:
    (copied / OTHERS[0]).touch()
    assert REMEDY in run(copied, "-m", "gpt_oss_harmony", "--version").stderr
    (copied / "__init__.py").write_text("")
    assert REMEDY in run(copied, "-m", "gpt_oss_harmony", "--version").stderr


# Beside vLLM, which requires the fork


@pytest.fixture
def beside_vllm(copied: Path) -> Path:
    (copied / OTHERS[0]).touch()
    (copied.parent / "vllm").mkdir()
    (copied.parent / "vllm" / "__init__.py").write_text("raise AssertionError('not to import')")
    return copied


def test_beside_vllm_it_may_be_installed_over_the_fork(beside_vllm: Path) -> None:
    done = run(beside_vllm, "-c", "import gpt_oss_harmony; print(gpt_oss_harmony.__version__)")
    assert done.stdout.strip() == gpt_oss_harmony.__version__, done.stderr


def test_beside_vllm_the_plugin_is_off_where_the_fork_was_installed_last(
    beside_vllm: Path,
) -> None:
    (beside_vllm / "gpt_oss_harmony").mkdir()  # what the fork's own `__init__.py` imports
    (beside_vllm / "gpt_oss_harmony" / "__init__.py").touch()
    (beside_vllm / "__init__.py").write_text("from . import gpt_oss_harmony")
    done = run(beside_vllm, "-c", "from gpt_oss_harmony_vllm import register; register()")
    assert done.returncode == 0, done.stderr
    assert "the plugin is off: two libraries are installed in one folder" in done.stderr
    assert "run 'pip install --force-reinstall --no-deps gpt-oss-harmony'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# The wheel under another name


def test_a_drop_in_has_the_name_and_a_version_of_the_other_library(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "build_drop_in.py"))
    installation = tmp_path / script["INSTALLATION"]
    installation.parent.mkdir(parents=True)
    shutil.copy(PACKAGE / "installation.py", installation)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    script["rename"](tmp_path, "openai-harmony", "0.0.8")
    project = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    assert '\nname = "openai-harmony"\n' in project
    assert f'\nversion = "0.0.8+gptoss.{gpt_oss_harmony.__version__}"\n' in project
    assert '"openai-harmony[grammar]"' in project
    assert f'"{DISTRIBUTION}' not in project
    assert runpy.run_path(str(installation))["DISTRIBUTION"] == "openai-harmony"


@pytest.mark.parametrize("requirement", ["openai-harmony", "openai-harmony>=0.0.3", "==0.0.8"])
def test_a_drop_in_needs_a_version(requirement: str) -> None:
    build = runpy.run_path(str(ROOT / "scripts" / "build_drop_in.py"))["build_drop_in"]
    with pytest.raises(SystemExit, match="does not name a version"):
        build(requirement)
