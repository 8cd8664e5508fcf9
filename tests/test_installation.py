"""The four distributions as they are installed: names, extras, the drop-in, modules they import."""

from __future__ import annotations

import ast
import importlib.util
import json
import pickle
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement

import gpt_oss_harmony
import openai_harmony
from gpt_oss_harmony import drop_in
from gpt_oss_harmony.installation import DISTRIBUTION, missing_package, requirement

ROOT = Path(__file__).parent.parent
PACKAGE = Path(gpt_oss_harmony.__file__).parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_name_and_version_are_those_of_the_project() -> None:
    assert f'\nname = "{DISTRIBUTION}"\n' in PROJECT
    assert f'\nversion = "{gpt_oss_harmony.__version__}"\n' in PROJECT


def test_errors_name_extras_that_exist() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    named = set(re.findall(r'(?:missing_package|needing_extra)\([^)]*, "(\w+)"\)', sources))
    assert named == {
        "dedup",
        "grammar",
        "http",
        "inspect",
        "serve",
        "terminal",
        "tools",
        "train",
        "transformers",
    }
    assert all(re.search(rf"^{extra} = \[", PROJECT, re.MULTILINE) for extra in named)


def test_the_text_for_a_missing_package() -> None:
    text = missing_package("keys need", ImportError(name="alembic"), "serve")
    assert text == f"keys need alembic; pip install {requirement('serve')}"


FOLDER = ROOT.resolve()
ORIGINS = [
    # what pip noted down, and what it gets
    (None, "'gpt-oss-harmony[serve,tools]'"),
    ({"url": FOLDER.as_uri(), "dir_info": {}}, f"'{FOLDER}[serve,tools]'"),
    ({"url": FOLDER.as_uri(), "dir_info": {"editable": True}}, f"-e '{FOLDER}[serve,tools]'"),
    ({"url": "file:///no/such/folder", "dir_info": {}}, "'gpt-oss-harmony[serve,tools]'"),
    (
        {"url": "file:///tmp/one.whl", "archive_info": {}},
        "'gpt-oss-harmony[serve,tools] @ file:///tmp/one.whl'",
    ),
    (
        {"url": "https://x.org/h", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
        "'gpt-oss-harmony[serve,tools] @ git+https://x.org/h@12ab'",
    ),
]


@pytest.mark.parametrize(("origin", "required"), ORIGINS)
def test_an_extra_is_installed_from_where_the_library_came(
    origin: dict[str, Any] | None, required: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = None if origin is None else json.dumps(origin)
    found = SimpleNamespace(read_text={"direct_url.json": noted}.__getitem__)
    monkeypatch.setattr(metadata, "distribution", {"gpt-oss-harmony": found}.__getitem__)
    assert requirement("serve,tools") == required
    [wanted] = shlex.split(required.removeprefix("-e "))
    path, bracket, _ = wanted.partition("[")
    assert bracket
    assert Path(path).is_dir() or Requirement(wanted).extras == {"serve", "tools"}


@pytest.mark.parametrize(
    ("package", "missing", "extra"),
    [
        ("grammar", "llguidance", "grammar"),
        ("server", "uvicorn", "serve"),
        ("tools.browser", "selectolax.lexbor", "tools"),
        ("tools.mcp", "mcp", "tools"),
        ("training.files", "numpy", "train"),
    ],
)
def test_a_package_without_its_extra_names_it(package: str, missing: str, extra: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from gpt_oss_harmony.{package} import *"
    last_line = run(ROOT, "-c", code).stderr.splitlines()[-1]
    assert f"{missing}; pip install {requirement(extra)}" in last_line


# The drop-in

COMPILED = ("openai_harmony.abi3.so", "openai_harmony.pyd")
PROGRAM = """
import importlib.util, sys
from openai_harmony import HarmonyEncodingName, Role, load_harmony_encoding
import openai_harmony, gpt_oss_harmony
assert Role is gpt_oss_harmony.Role
assert importlib.util.find_spec("openai_harmony")
assert openai_harmony.__file__.endswith("drop_in.py")
encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
print(__name__, sys.argv[1:], encoding.encode("hi"))
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, which comes first among those that it imports from."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_drop_in_has_the_public_names_of_the_reference() -> None:
    recorded = json.loads((ROOT / "tests" / "data" / "reference_api.json").read_text("utf-8"))
    public = {*recorded["all"], *recorded["classes"]}
    assert set(openai_harmony.__all__) == set(drop_in.__all__) == public
    for name in openai_harmony.__all__:
        assert getattr(openai_harmony, name) is getattr(gpt_oss_harmony, name)


def test_pickles_of_the_drop_in_and_of_the_library_agree() -> None:
    message = openai_harmony.Message.from_role_and_content(openai_harmony.Role.USER, "hi")
    read = pickle.loads(pickle.dumps(message))
    assert type(read) is gpt_oss_harmony.Message
    assert read == message


@pytest.mark.parametrize("name", COMPILED)
def test_another_library_in_the_folder_is_an_import_error(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "openai_harmony"
    shutil.copytree(ROOT / "packages" / "drop_in" / "openai_harmony", folder)
    (folder / name).touch()
    code = "try: import openai_harmony\nexcept ImportError as error: print(error.path, error)"
    path = folder / name
    assert run(tmp_path, "-c", code).stdout == (
        f"{path} two libraries are installed in one folder: {path} belongs to OpenAI's or its "
        "fork; run 'pip uninstall -y gpt-oss-harmony-drop-in openai-harmony oss-harmony', then "
        "install the one that you want\n"
    )


def test_the_drop_in_requires_exactly_its_version_of_the_library() -> None:
    for package in ("drop_in", "vllm"):
        project = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
        (version,) = re.findall(r'"gpt-oss-harmony(?:\[\w+\])?==(.+?)"', project)
        assert version == gpt_oss_harmony.__version__


def test_a_wheel_has_the_name_and_a_version_of_the_other_library(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "build_drop_in.py"))
    project = Path(shutil.copy(script["DROP_IN"] / "pyproject.toml", tmp_path))
    script["rename"](project, "openai-harmony", "0.0.8")
    text = project.read_text(encoding="utf-8")
    assert '\nname = "openai-harmony"\n' in text
    assert f'\nversion = "0.0.8+gptoss.{gpt_oss_harmony.__version__}"\n' in text
    assert f'dependencies = ["{DISTRIBUTION}=={gpt_oss_harmony.__version__}"]' in text


@pytest.mark.parametrize("requirement", ["openai-harmony", "openai-harmony>=0.0.3", "==0.0.8"])
def test_a_wheel_under_another_name_needs_a_version(requirement: str) -> None:
    build = runpy.run_path(str(ROOT / "scripts" / "build_drop_in.py"))["build_drop_in"]
    with pytest.raises(SystemExit, match="does not name a version"):
        build(requirement)


# Trying it without installing it: a library of the same name is there, and is not imported


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder with a program, and with another library under the name."""
    (tmp_path / "openai_harmony").mkdir()
    (tmp_path / "openai_harmony" / "__init__.py").write_text("raise SystemExit('the other one')")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("program", [["program.py"], ["-m", "program"], ["-m", "package"]])
def test_a_program_runs_with_our_names(beside: Path, program: list[str]) -> None:
    assert run(beside, *program[:-1], program[-1]).stderr == "the other one\n"
    done = run(beside, "-m", "gpt_oss_harmony.drop_in", *program, "-m", "--flag")
    assert done.stdout == "__main__ ['-m', '--flag'] [3686]\n", done.stderr


@pytest.mark.parametrize("arguments", [[], ["-m"], ["--help"]])
def test_without_a_program_the_usage_is_shown(beside: Path, arguments: list[str]) -> None:
    done = run(beside, "-m", "gpt_oss_harmony.drop_in", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m gpt_oss_harmony.drop_in (program.py | -m")


def test_a_library_that_is_imported_already_is_not_replaced(beside: Path) -> None:
    (beside / "openai_harmony" / "__init__.py").write_text("")
    code = "import openai_harmony; from gpt_oss_harmony.drop_in import register; register()"
    assert "register this library first" in run(beside, "-c", code).stderr


def test_registering_twice_is_harmless() -> None:
    assert drop_in.register() is sys.modules["openai_harmony"]


# Every platform

POSIX_ONLY = {
    "crypt",
    "fcntl",
    "grp",
    "posix",
    "pty",
    "pwd",
    "resource",
    "syslog",
    "termios",
    "tty",
}
PORTABLE = ("conversation", "tokens", "typescript", "rendering", "parsing", "grammar", "apis",
            "training")  # fmt: skip
OF_LINUX = {
    "tools/python/sandbox/notebook_kernel.py": "runs in the sandbox, which is Linux",
    "tools/python/sandbox/agent/requests.py": "runs in the sandbox, which is Linux",
}
"""Files that need POSIX, and what stands before them."""


def lacking_on_windows(module: str) -> set[str]:
    """The names of `os` or `signal` that typeshed, which mypy has, defines elsewhere alone."""
    pytest.importorskip("mypy")
    [spec] = importlib.util.find_spec("mypy").submodule_search_locations  # type: ignore[union-attr,misc]
    stubs = Path(spec) / "typeshed" / "stdlib"
    path = stubs / module / "__init__.pyi"
    tree = ast.parse((path if path.exists() else stubs / f"{module}.pyi").read_text("utf-8"))
    names: dict[bool, set[str]] = {True: set(), False: set()}

    def read(nodes: Iterable[ast.stmt], *, has_posix: bool) -> None:
        for node in nodes:
            if isinstance(node, ast.If):
                system = ast.unparse(node.test)
                is_windows = system == "sys.platform == 'win32'"
                is_other = system.startswith("sys.platform ") and not is_windows
                read(node.body, has_posix=has_posix or is_other)
                read(node.orelse, has_posix=has_posix or is_windows)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names[has_posix].add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names[has_posix].add(node.target.id)

    read(tree.body, has_posix=False)
    return names[True] - names[False]


GUARDS = ("os.name", "sys.platform", "hasattr(", "except AttributeError")


def imported_at_start(tree: ast.AST) -> set[str]:
    """The modules that a module imports while it is imported itself."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).partition(".")[0])
        found |= imported_at_start(node)
    return found


@pytest.mark.parametrize("room", PORTABLE)
def test_no_module_that_only_posix_has_is_imported_at_start(room: str) -> None:
    for path in [*PACKAGE.glob("*.py"), *(PACKAGE / room).rglob("*.py")]:
        imported = imported_at_start(ast.parse(path.read_text(encoding="utf-8")))
        assert not imported & POSIX_ONLY, path


@pytest.mark.slow  # for mypy
def test_what_windows_lacks_is_called_behind_a_guard() -> None:
    """A file that uses such a name asks for the system somewhere; the sandbox is Linux's."""
    missing = {module: lacking_on_windows(module) for module in ("os", "signal")}
    assert {"fork", "sysconf"} <= missing["os"]
    assert "SIGKILL" in missing["signal"]
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name in OF_LINUX or name.startswith("tools/python/sandbox/"):
            continue
        text = path.read_text(encoding="utf-8")
        called = {
            f"{node.value.id}.{node.attr}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.attr in missing.get(node.value.id, ())
        }
        assert not called or any(guard in text for guard in GUARDS), (name, called)


@pytest.mark.slow
def test_the_package_is_imported_where_posix_is_missing() -> None:
    """Only for our own files: the modules of other packages ask for the system, which is Linux."""
    hidden = sorted(POSIX_ONLY - {"posix"})
    missing = {module: sorted(lacking_on_windows(module)) for module in ("os", "signal")}
    left_out = sorted(
        "gpt_oss_harmony." + name.removesuffix(".py").replace("/", ".") for name in OF_LINUX
    )
    program = f"""
import builtins, importlib, os, pkgutil, signal, sys
import gpt_oss_harmony
def import_all():
    count, problems = 0, []
    for found in pkgutil.walk_packages(gpt_oss_harmony.__path__, "gpt_oss_harmony."):
        is_left_out = found.name in {left_out} or found.name.endswith("__main__")
        if is_left_out or ".trainers." in found.name or ".agent" in found.name:
            continue
        try:
            importlib.import_module(found.name)
            count += 1
        except ImportError as error:
            if error.name in {hidden}:
                problems.append((found.name, str(error)))
        except AttributeError as error:
            problems.append((found.name, str(error)))
    return count, problems
import_all()  # so that other packages are there; they ask for the system themselves
for name in [name for name in sys.modules if name.startswith("gpt_oss_harmony.")]:
    del sys.modules[name]
inner = builtins.__import__
def ours(name, globals=None, *rest, **named):
    importer = (globals or {{}}).get("__name__", "")
    level = rest[2] if len(rest) > 2 else named.get("level", 0)  # 1 and more: a module of ours
    if not level and name.partition(".")[0] in {hidden} and importer.startswith("gpt_oss_harmony"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return inner(name, globals, *rest, **named)
builtins.__import__ = ours
for module, names in {missing}.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
count, problems = import_all()
print(count, problems)
assert not problems and count > 200
"""
    done = run(ROOT, "-c", program)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("room", PORTABLE)
def test_the_portable_layers_are_imported_without_posix(room: str) -> None:
    if room == "grammar":
        pytest.importorskip("llguidance")
    blocked = "\n".join(f"sys.modules[{name!r}] = None" for name in sorted(POSIX_ONLY - {"posix"}))
    done = run(ROOT, "-c", f"import sys\n{blocked}\nimport gpt_oss_harmony.{room}")
    assert done.returncode == 0, done.stderr
