"""The documentation: its code runs, its tables are complete, its links lead somewhere."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gpt_oss_harmony
from gpt_oss_harmony import RecoveryKind, Role, StreamableParser, TokenError, load_harmony_encoding
from gpt_oss_harmony.typescript.json_text import CONTAINER_LIMIT, NESTING_LIMIT
from gpt_oss_harmony.typescript.references import (
    REFERENCE_COPY_LIMIT,
    REFERENCE_NESTING_LIMIT,
    REFERENCE_TEXT_LIMIT,
)
from support.slow_files import only_slow

ROOT = Path(__file__).parent.parent
WRITTEN = [
    *sorted(ROOT.glob("README*.md")),
    *(
        ROOT / name
        for name in ("CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "MAINTAINING.md", "SECURITY.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Translations have the code of the English pages; tests/test_translations.py compares them.
PAGES = [page for page in WRITTEN if page.name.count(".") == 1]
REFERENCE = ROOT / "docs" / "reference"
API = REFERENCE / "api"
DIVERGENCES = REFERENCE / "divergences.md"

ENCODING = load_harmony_encoding("HarmonyGptOss")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# Code


class Block(NamedTuple):
    """A fenced block: its language, its text, the number of its first line."""

    language: str
    text: str
    line: int


FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 2)
        for match in FENCED.finditer(text)
    ]


def runnable(page: Path) -> list[tuple[Block, str | None]]:
    """Return the Python blocks, each with the ``text`` block right after it: what it prints."""
    found = blocks(page)
    outputs = {block.line: block.text for block in found if block.language == "text"}
    return [
        (block, outputs.get(block.line + block.text.count("\n") + 3))
        for block in found
        if block.language == "python"
    ]


def with_its_mark(page: Path) -> Any:
    """Return a page as the argument of a test, which is slow where its code needs PyTorch."""
    return pytest.param(page, marks=pytest.mark.slow if only_slow(page) else ())


@pytest.mark.parametrize("page", [with_its_mark(page) for page in PAGES], ids=page_name)
def test_every_python_block_runs(page: Path) -> None:
    names: dict[str, Any] = {"__name__": page.stem}
    for block, expected in runnable(page):
        if block.text.startswith(">>>"):
            _run_dialogue(block, page, names)
        else:
            printed = io.StringIO()
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            with contextlib.redirect_stdout(printed):
                exec(code, names)
            assert printed.getvalue() == (expected or ""), f"{page_name(page)}:{block.line}"


def _run_dialogue(block: Block, page: Path, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.text, names, page_name(page), str(page), block.line - 1
    )
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=report.write, clear_globs=False)
    assert not runner.failures, report.getvalue()
    names.update(test.globs)


def test_examples_name_what_they_import() -> None:
    for page in PAGES:
        assert not re.search(r"^(>>> )?from \S+ import \*", page.read_text("utf-8"), re.MULTILINE)


def test_the_guides_have_code() -> None:
    for name in (
        "README.md",
        "docs/understand/format.md",
        "docs/reference/api/encoding.md",
        "docs/understand/recovery.md",
        "docs/reference/divergences.md",
    ):
        assert runnable(ROOT / name), name


def test_the_picture_of_a_turn_shows_what_the_library_says() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "docs" / "turn_picture.py"))
    for picture, width in script["PICTURES"].items():
        assert picture.read_text(encoding="utf-8") == script["draw"](width)


# The commands of the first pages


@pytest.mark.parametrize("page", sorted(ROOT.glob("README*.md")), ids=page_name)
def test_the_first_screen_has_a_clone_and_its_commands(page: Path) -> None:
    screen = "\n".join(page.read_text(encoding="utf-8").splitlines()[:40]) + "\n"
    commands = "".join(text for language, text in FENCED.findall(screen) if language == "sh")
    assert "git clone https://github.com/gpt-oss-harmony/gpt-oss-harmony && cd " in commands
    assert "uninstall" not in commands
    targets = re.findall(r"^make (\S+)", commands, re.MULTILINE)
    assert targets == ["demo", "serve", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:  # each installs what it needs
        assert re.search(rf"^{target}: \$\(VENV\)/\.installed", makefile, re.MULTILINE), target


def test_the_plugin_s_page_begins_with_the_numbers_of_its_table() -> None:
    page = (ROOT / "docs" / "guides" / "vllm.md").read_text(encoding="utf-8")
    (turns,) = re.findall(r"^\| (\d+) malformed turns \|", page, re.MULTILINE)
    meant = {
        program: [int(n) for n in re.findall(rf"^\| .+, {program} \| (\d+) \|", page, re.MULTILINE)]
        for program in ("vLLM", "with the plugin")
    }
    assert {len(counts) for counts in meant.values()} == {4}
    alone, plugin = (f"{min(counts)} to {max(counts)}" for counts in meant.values())
    summary = " ".join(page.split())
    assert (
        f"Of [{turns} malformed turns](#what-its-users-get), vLLM alone returns {alone}" in summary
    )
    assert f"With the plugin it returns {plugin}." in summary


SWITCH = ROOT / "docs" / "start" / "switch.md"
WRITTEN_FOR_OPENAI_HARMONY = """import openai_harmony as library
from openai_harmony import Role

my_openai_harmony = "openai_harmony"
print(library.Role is Role, my_openai_harmony, library.__version__)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the line is for GNU sed")
def test_the_line_that_changes_the_import_changes_a_program(tmp_path: Path) -> None:
    program = tmp_path / "a folder" / "program.py"
    program.parent.mkdir()
    program.write_text(WRITTEN_FOR_OPENAI_HARMONY)
    unknown_to_git = tmp_path / "unknown.py"
    unknown_to_git.write_text(WRITTEN_FOR_OPENAI_HARMONY)
    (line,) = re.findall(
        r"^git grep .+ sed .+$", section(SWITCH, "Change the import"), re.MULTILINE
    )
    commands = f"git init --quiet && git add 'a folder' && {line}"
    subprocess.run(["bash", "-c", commands], cwd=tmp_path, check=True)
    assert unknown_to_git.read_text() == WRITTEN_FOR_OPENAI_HARMONY
    assert run(program) == f"True gpt_oss_harmony {gpt_oss_harmony.__version__}\n"


def test_the_script_that_compares_prompts_runs(tmp_path: Path) -> None:
    (script,) = (block.text for block in blocks(SWITCH) if block.text.startswith("# compare.py"))
    (tmp_path / "compare.py").write_text(script)
    message = gpt_oss_harmony.Message.from_role_and_content(Role.USER, "Hi")
    line = gpt_oss_harmony.Conversation.from_messages([message]).to_json()
    program = ("-m", "gpt_oss_harmony.drop_in", tmp_path / "compare.py")
    assert run(*program, given=f"{line}\n{line}\n") == "2 of 2 prompts are the same\n"


def run(*arguments: str | Path, given: str = "") -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


# Links

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the names under which the headings of a page can be linked to."""
    text = prose(page)
    headings = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(text))
    explicit = re.findall(r'<a id="([^"]+)"></a>', text)  # the English anchors of translations
    return {heading.strip().replace(" ", "-") for heading in headings} | {*explicit}


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "CHANGELOG.md"], ids=page_name)
def test_relative_links_resolve(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


# Tables


def section(page: Path, title: str) -> str:
    """Return what stands under a heading, up to the next one of its level or above."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert found is not None, title
    rest = text[found.end() :]
    ending = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: ending.start()] if ending else rest


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of the first table in a text, without its two lines of heading."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        yield [cell.strip().replace("\\|", "|") for cell in cells]


def code_in(cell: str) -> str:
    found = re.search(r"`([^`]+)`", cell)
    assert found is not None, cell
    return found[1]


# The API reference

PUBLIC = (
    "gpt_oss_harmony",
    "gpt_oss_harmony.apis",
    "gpt_oss_harmony.engines",
    "gpt_oss_harmony.grammar",
    "gpt_oss_harmony.inspector",
    "gpt_oss_harmony.pipeline",
    "gpt_oss_harmony.sampled_messages",
    "gpt_oss_harmony.server",
    "gpt_oss_harmony.tools.browser",
    "gpt_oss_harmony.tools.mcp",
    "gpt_oss_harmony.tools.tool",
    "gpt_oss_harmony.training",
    "gpt_oss_harmony.training.files",
    "gpt_oss_harmony.training.trainers",
    "gpt_oss_harmony_conformance.runner",
    "gpt_oss_harmony_vllm",
)
"""Modules whose `__all__` is a promise; of others, the pages name what is public."""

PUBLIC_API = runpy.run_path(str(ROOT / "scripts" / "docs" / "public_api.py"))
DIRECTIVES: list[tuple[str, list[str]]] = PUBLIC_API["directives"]()


def referred_names() -> list[str]:
    """The full names that the API reference describes, by their docstrings."""
    return [f"{module}.{name}" for module, names in DIRECTIVES for name in names]


def top_names(module: str) -> set[str]:
    """The names that the code of a module binds, imports for type checkers included."""
    spec = importlib.util.find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    names: set[str] = set()
    for node in ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def test_every_public_name_is_in_the_api_reference_once() -> None:
    referred = referred_names()
    assert len(referred) == len(set(referred))
    promised = {
        f"{module}.{name}" for module in PUBLIC for name in importlib.import_module(module).__all__
    }
    assert promised <= set(referred)


def test_the_api_reference_names_what_there_is() -> None:
    for name in referred_names():
        module, _, member = name.rpartition(".")
        assert member in top_names(module), name


def test_every_directive_of_the_api_reference_lists_its_members() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in API.glob("*.md"))
    assert len(DIRECTIVES) == text.count("\n::: ")


def test_generated_pages_are_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "scripts" / "docs"
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "argv", ["reference.py", "--check"])
    script = runpy.run_path(str(folder / "reference.py"))
    assert script["main"]() == 0, "run `make reference`"


MODULE = """
from dataclasses import dataclass
LIMIT = 5
def render(text: str) -> list[int]: ...
async def begin() -> None: ...
class _Base:
    def with_tools(self, tools: list) -> None: ...
@dataclass(frozen=True)
class Config(_Base):
    drop: bool = True
    @property
    def size(self) -> int: ...
    @classmethod
    def new(cls) -> None: ...
    @staticmethod
    def of(text: str) -> None: ...
    def __len__(self) -> int: ...
    def __init__(self) -> None:
        self.kept: int = _work()
"""


def api_of(code: str) -> list[str]:
    """The list for the names of a package that imports them from a private module."""
    import griffe  # not with the core's tests, which run the code of a page by this file

    names = ("LIMIT", "render", "begin", "Config")
    start = f"from ._inner import {', '.join(names)}"
    with griffe.temporary_visited_package(
        "package", {"__init__.py": start, "_inner.py": code}, resolve_aliases=True
    ) as package:
        return [line for name in names for _, line in PUBLIC_API["lines_of"](name, package[name])]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 5", "LIMIT = 6"),
        ("text: str", "text: bytes"),
        ("-> list[int]", "-> str"),
        ("async def", "def"),
        ("with_tools", "having_tools"),
        ("tools: list", "tools: list = []"),
        ("frozen=True", "frozen=False"),
        ("bool = True", "bool = False"),
        ("drop: bool = True", "drop: bool"),
        ("    @property\n", ""),
        ("size(self) -> int", "size(self) -> str"),
        ("    @classmethod\n", ""),
        ("    @staticmethod\n", ""),
        ("__len__", "__bool__"),
        ("kept: int", "kept: str"),
    ],
)
def test_the_list_of_public_names_shows_a_change(old: str, new: str) -> None:
    assert api_of(MODULE) != api_of(MODULE.replace(old, new, 1))


def test_the_list_of_public_names_hides_what_is_private() -> None:
    assert api_of(MODULE) == api_of(MODULE.replace("_work()", "_other()"))


def test_the_limits_are_those_of_the_code() -> None:
    nesting, containers, copies = (
        row[0] for row in rows(section(API / "errors.md", "Limits of a schema"))
    )
    assert _numbers(nesting) == [NESTING_LIMIT]
    assert _numbers(containers) == [CONTAINER_LIMIT]
    assert _numbers(copies) == [
        REFERENCE_NESTING_LIMIT,
        REFERENCE_COPY_LIMIT,
        REFERENCE_TEXT_LIMIT,
    ]


def _numbers(cell: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", cell)]


# Divergences


def compared_ids() -> set[str]:
    """Return the names that the comparison with the reference can give a difference."""
    source = (ROOT / "scripts" / "parity" / "divergences.py").read_text(encoding="utf-8")
    texts = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    return {
        text
        for text in texts
        if isinstance(text, str) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", text)
    }


def table_ids(title: str) -> list[str]:
    return [code_in(row[0]) for row in rows(section(DIVERGENCES, title))]


def test_the_divergences_are_those_of_the_comparison_and_the_marked_ones() -> None:
    inside, outside = table_ids("In the comparison"), table_ids("Outside the comparison")
    assert set(inside) == compared_ids()
    assert not set(inside) & set(outside)
    assert len(inside + outside) == len({*inside, *outside})


def test_every_divergence_has_an_example() -> None:
    ids = table_ids("In the comparison") + table_ids("Outside the comparison")
    for name in ids:
        assert "```python" in section(DIVERGENCES, name), name


# The parser's tables

OPENINGS = {
    "EXPECT_START": "",
    "HEADER": "<|start|>assistant<|channel|>final",
    "CONTENT": "<|start|>assistant<|channel|>final<|message|>hi",
}


def inputs(cell: str) -> list[int | None]:
    """Return the tokens that a row is about; None stands for the end of the tokens."""
    special = re.findall(r"`(<\|\w+\|>)`", cell)
    if special:
        return [ENCODING.encode(text, allowed_special="all")[0] for text in special]
    token = {
        "other special": 200013,
        "ordinary": 15339,
        "outside the vocabulary": 201089,
        "end": None,
    }
    return [token[cell]]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_the_tables_of_the_parser_show_the_next_state(mode: str) -> None:
    for cell, *outcomes in rows(
        section(REFERENCE / "parser-states.md", f"What a token does: {mode}")
    ):
        for state, outcome in zip(OPENINGS, outcomes, strict=True):
            for token in inputs(cell):
                parser = StreamableParser(ENCODING, None, strict=mode == "strict")
                parser.process_many(ENCODING.encode(OPENINGS[state], allowed_special="all"))
                assert parser.state.name == state
                shown = re.search(r"→ `(\w+)`", outcome)
                is_error = outcome.startswith("error")
                assert _raises(parser, token) == is_error, (cell, state)
                expected = shown[1] if shown else "EXPECT_START" if is_error else state
                assert parser.state.name == expected, (cell, state)


def _raises(parser: StreamableParser, token: int | None) -> bool:
    try:
        if token is None:
            parser.process_eos()
        else:
            parser.process(token)
    except TokenError:
        return True
    except gpt_oss_harmony.VocabularyError:
        return False  # the table says that nothing changes
    return False


def recovery_rows() -> list[list[str]]:
    return list(rows(section(REFERENCE / "recoveries.md", "Kinds of repairs")))


def test_the_table_of_repairs_is_complete_and_in_order() -> None:
    assert [code_in(row[0]) for row in recovery_rows()] == [kind.value for kind in RecoveryKind]


@pytest.mark.parametrize("row", recovery_rows(), ids=lambda row: code_in(row[0]))
def test_the_examples_in_the_table_of_repairs_are_repaired_that_way(row: list[str]) -> None:
    kind, example, _ = row
    repairs = () if code_in(kind) == "refused-call" else RecoveryKind
    parser = StreamableParser(
        ENCODING,
        Role.ASSISTANT,
        strict=False,
        tools=["functions.f"],
        repairs=[*repairs],
        mend_arguments=code_in(kind) == "mended-arguments",
    )
    parser.process_many(_tokens(code_in(example)))
    parser.process_eos()
    assert RecoveryKind(code_in(kind)) in {recovery.kind for recovery in parser.recoveries}


def _tokens(example: str) -> list[int]:
    """Encode an example; a number in braces is a token id, `≪` and `≫` spell a marker as text."""
    tokens: list[int] = []
    for part in re.split(r"(\{\d+\}|≪\w+≫)", example):
        if number := re.fullmatch(r"\{(\d+)\}", part):
            tokens.append(int(number[1]))
        elif spelled := re.fullmatch(r"≪(\w+)≫", part):
            tokens += ENCODING.encode(f"<|{spelled[1]}|>", disallowed_special=())
        else:
            tokens += ENCODING.encode(part, allowed_special="all")
    return tokens
