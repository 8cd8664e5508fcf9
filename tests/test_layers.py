"""Imports point one way: each package knows only those below it, at any depth and at any time."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import gpt_oss_harmony

PACKAGE = Path(gpt_oss_harmony.__file__).parent

GROUND = {"installation", "errors", "config"}
CORE = {"conversation", "tokens", "typescript", "rendering", "parsing", "encoding"}
JOINED = {"sampled_messages", "written_tokens"}

BELOW: dict[str, set[str]] = {
    "installation": {"errors"},
    "errors": set(),
    "config": {"errors"},
    "conversation": GROUND,
    "tokens": {"errors"},
    "typescript": {"errors"},
    "rendering": {*GROUND, "conversation", "tokens", "typescript"},
    "parsing": {"errors", "conversation", "tokens"},
    "encoding": {*GROUND, "conversation", "tokens", "rendering", "parsing"},
    "drop_in": {*GROUND, *CORE},
    "sampled_messages": {*GROUND, *CORE},
    "written_tokens": {"errors", "encoding", "tokens"},
    "grammar": {*GROUND, *CORE, *JOINED},
    "engines": {*GROUND, *CORE, *JOINED, "grammar"},
    "apis": {*GROUND, *CORE, *JOINED, "engines", "grammar"},
    "pipeline": {*GROUND, *CORE, "engines", "apis"},
    "tools": {*GROUND, *CORE, "engines"},
    "web": set(),
    "training": {*GROUND, *CORE, *JOINED, "apis", "grammar"},
    "inspector": {*GROUND, *CORE, *JOINED, "apis", "engines", "grammar", "training", "web"},
    "server": {*GROUND, *CORE, *JOINED, "apis", "engines", "grammar", "inspector", "tools", "web"},
}
"""The rooms of the house, and those that each of them may import; the command may all."""


@cache
def import_statements(path: Path) -> tuple[tuple[ast.Import | ast.ImportFrom, bool], ...]:
    """The imports of a module, each with whether only type checkers read it."""
    found: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), False)]
    while waiting:
        node, unread = waiting.pop()
        if isinstance(node, ast.expr):
            continue  # no statement stands in an expression
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append((node, unread))
        unread = unread or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        waiting += [(child, unread) for child in ast.iter_child_nodes(node)]
    return tuple(found)


def imported_modules(path: Path) -> Iterator[tuple[str, ...]]:
    """The modules of the package that a module imports, relative to it, at its start or later."""
    module = path.relative_to(PACKAGE.parent).with_suffix("").parts
    for node, _ in import_statements(path):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = module[: len(module) - node.level] if node.level else ()
        full = (*base, *(node.module.split(".") if node.module else ()))
        if full[:1] == ("gpt_oss_harmony",):
            yield from ((*full[1:], alias.name) for alias in node.names)


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a module imports; the public names of the package itself are the core's."""
    rooms = {*BELOW, "cli"}
    return {names[0] for names in imported_modules(path) if names[0] in rooms}


def room_files(room: str) -> list[Path]:
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


@pytest.mark.parametrize("room", BELOW)
def test_rooms_import_only_what_is_below_them(room: str) -> None:
    allowed = {room, *BELOW[room]}
    for path in room_files(room):
        assert imported_rooms(path) <= allowed, path


def test_every_room_is_listed() -> None:
    entries = {
        p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert entries - {"__init__", "__main__", "cli"} == set(BELOW)


def test_no_circle_is_left_between_rooms() -> None:
    assert list(TopologicalSorter(BELOW).static_order())


def test_imports_are_seen() -> None:
    assert imported_rooms(PACKAGE / "pipeline.py") == {"apis", "conversation", "engines"}


def test_the_picture_shows_every_room_above_those_that_it_imports() -> None:
    picture = Path(__file__).parent.parent / "docs" / "images" / "layers.svg"
    shown = re.findall(r'<text x="[\d.]+" y="(\d+)">(\w+)</text>', picture.read_text("utf-8"))
    height = {room: int(y) for y, room in shown}
    assert set(height) == {*BELOW, "cli"} - GROUND - JOINED
    for room, below in BELOW.items():
        for other in {*below} & set(height):
            assert height.get(room, 0) < height[other], (room, other)
    assert height["cli"] == min(height.values())


# Inside the server

SERVER = """
    settings private_files
    store encryption
    logs
    http
    fair_turns
    admission
    auth stored peers
    metrics live_responses file_texts
    telemetry unknown_fields
    exporters services
    limited_route observation tools
    preparation models repeated_requests status
    sampling files
    answer
    responses chat containers batches
    completions conversations messages ollama tokens
    app
"""
"""The rooms of the server from the ground up; each imports only what stands on lower lines."""

FLOORS = {room: floor for floor, rooms in enumerate(SERVER.split("\n")) for room in rooms.split()}


def server_rooms(path: Path) -> set[str]:
    """The rooms of the server that a module imports, also for type checkers alone."""
    names = {names[1] for names in imported_modules(path) if names[:1] == ("server",) and names[1:]}
    return names & {*FLOORS}


@pytest.mark.parametrize("room", FLOORS)
def test_rooms_of_the_server_import_only_what_is_below_them(room: str) -> None:
    for path in room_files(f"server/{room}"):
        for other in server_rooms(path) - {room}:
            assert FLOORS[other] < FLOORS[room], (path, other)


def test_imports_inside_the_server_are_seen() -> None:
    effects = PACKAGE / "server" / "responses" / "effects.py"
    assert {"encryption", "preparation", "services", "store"} <= server_rooms(effects)


def test_every_room_of_the_server_is_listed() -> None:
    entries = {p.stem for p in (PACKAGE / "server").iterdir() if p.suffix == ".py" or p.is_dir()}
    assert entries - {"__init__", "__pycache__"} == set(FLOORS)


# Inside the rooms


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def imported_names(path: Path) -> Iterator[str]:
    """Full names of what a module imports, but for what only type checkers read."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    for node, unread in import_statements(path):
        if unread:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            continue
        base = parts[: len(parts) - node.level] if node.level else ()
        full = ".".join((*base, *(node.module.split(".") if node.module else ())))
        yield full
        yield from (f"{full}.{alias.name}" for alias in node.names)


def test_no_module_imports_itself_in_the_end() -> None:
    """Packages themselves are left out: their `__init__` may offer what lies in them."""
    paths = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    names = {module_name(path) for path in paths}
    edges = {module_name(path): names & set(imported_names(path)) for path in paths}
    assert list(TopologicalSorter(edges).static_order())


CORE_FILES = [path for room in sorted({*GROUND, *CORE, *JOINED}) for path in room_files(room)]
# `make users` writes tokenizers where nothing but the core is installed.
LIGHT_FILES = [*CORE_FILES, PACKAGE / "engines" / "tokenizer_files.py"]


@pytest.mark.parametrize("path", LIGHT_FILES, ids=module_name)
def test_the_core_stands_alone(path: Path) -> None:
    others = {name.partition(".")[0] for name in imported_names(path)} - {"gpt_oss_harmony"}
    assert others - sys.stdlib_module_names <= {"pydantic", "quicktok", "tiktoken"}


@pytest.mark.parametrize("path", CORE_FILES, ids=module_name)
def test_the_core_has_no_clock_network_or_environment(path: Path) -> None:
    forbidden = {"os", "time", "datetime", "random", "socket", "urllib.request", "subprocess"}
    if path.stem == "encoder":
        forbidden.remove("os")  # a variable chooses between two encoders with the same results
    assert not set(imported_names(path)) & forbidden


def test_no_wait_loses_a_cancellation() -> None:
    """Before Python 3.12, `asyncio.wait_for` returns a result that comes with a cancellation."""
    agent = PACKAGE / "tools" / "python" / "sandbox" / "agent"  # runs alone, and is killed
    paths = {path for path in PACKAGE.rglob("*.py") if ".wait_for(" in path.read_text("utf-8")}
    assert {path for path in paths if agent not in path.parents} == set()


def test_telemetry_is_imported_only_where_it_is_on() -> None:
    """Without a collector, the server runs without a line of OpenTelemetry."""
    importing = {
        module_name(path)
        for path in (PACKAGE / "server").rglob("*.py")
        for name in imported_names(path)
        if name.startswith(("opentelemetry", "gpt_oss_harmony.server.telemetry"))
    }
    assert importing == {"gpt_oss_harmony.server.exporters", "gpt_oss_harmony.server.telemetry"}
    exporters = ast.parse((PACKAGE / "server" / "exporters.py").read_text(encoding="utf-8"))
    at_start = [node for node in exporters.body if isinstance(node, ast.ImportFrom)]
    assert not any((node.module or "").startswith("opentelemetry") for node in at_start)
