"""Every number with a unit in the documentation has a source, and limits have the code's value."""

from __future__ import annotations

import doctest
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "docs" / "number_sources.py"


@pytest.fixture(scope="module")
def sources() -> Iterator[Any]:
    """The script as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        spec = importlib.util.spec_from_file_location("number_sources", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "number_sources", module)
        spec.loader.exec_module(module)
        yield module


def test_every_number_has_a_source_with_the_same_value(sources: Any) -> None:
    entries = sources.read_entries(sources.NUMBERS.read_text(encoding="utf-8"))
    found = list(sources.problems(sources.english_pages(), entries))
    assert not found, "\n".join(found)


def test_translations_have_the_figures_of_the_english_pages(sources: Any) -> None:
    pages = list(sources.translated_pages())
    assert pages
    found = [problem for page in pages for problem in sources.translation_problems(*page)]
    assert not found, "\n".join(found)


# The machinery


def test_the_examples_in_docstrings(sources: Any) -> None:
    failed, attempted = doctest.testmod(sources)
    assert attempted > 0
    assert failed == 0


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("takes 1.5 s, 20 ms, 3 µs and 2 to 9 ns", [1.5, 0.02, 3e-6, 9e-9]),
        ("half a minute, a quarter of an hour, two days", [30, 900, 172_800]),
        ("five\nminutes", [300]),
        ("114 MB, 16 MiB and 2 KiB", [114e6, 16 * 2**20, 2048]),
        ("0.2 % of it, 75%, 10× and eight times as fast", [0.002, 0.75, 10, 8]),
        ("1,024 tokens, four million characters, a million tokens", [1024, 4e6, 1e6]),
        ("a second time, one token, in a minute, 429s, version 0.0.8, 3 states", []),
        ("`5 s` in [text](page-5-s.md) at https://example.com/10%", []),
        ("```sh\nsleep 5  # 5 s\n```\n", []),
        ("<!-- table -->\n| 5 s |\n<!-- /table -->\n<!-- run: x -->\n6 s\n<!-- end -->", []),
    ],
)
def test_numbers_with_units_are_found(sources: Any, text: str, values: list[float]) -> None:
    found = [quantity.value for quantity in sources.quantities(sources.prose(text))]
    assert found == pytest.approx(values)


PAGE = "# Limits\n\nIt waits 30 seconds.\n\n## Speed\n\nIt takes 5 ms.\n"
WAITS = "gpt_oss_harmony.server.settings:Settings.shutdown_seconds"


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ('words = "waits 30 seconds"\nother = "a law"', "page.md:7: '5 ms' has no source"),
        ('words = "waits 31 seconds"\nother = "a law"', "stands 0 times on the page"),
        ('words = "It"\nother = "a law"', "stands 2 times on the page"),
        ('section = "Size"\nother = "a law"', "stands 0 times on the page"),
        ('section = "Speed"\nmeasured = "2026-11-23"', "needs the `command`"),
        ('measured = "today"\ncommand = "time"', "begins with a date"),
        ('section = "Speed"', "needs one of `measured`, `limit` and `other`"),
        ('other = "a law"\nmeasured = "2026-11-23"\ncommand = "time"', "needs one of"),
        (f'words = "takes 5 ms"\nlimit = "{WAITS}"', f"{WAITS} is 30"),
        (f'words = "waits 30 seconds"\nlimit = "{WAITS}"\nunit = "ms"', f"{WAITS} is 30 ms"),
        (f'words = "It waits"\nlimit = "{WAITS}"', "has 0 numbers"),
        (
            'words = "waits 30 seconds"\nlimit = "gpt_oss_harmony.x:Y"',
            "no module gpt_oss_harmony.x",
        ),
        ('words = "takes 5 ms"\nlimit = "gpt_oss_harmony.errors:Y"', "has no Y"),
        ('words = "takes 5 ms"\nlimit = "gpt_oss_harmony.errors:__all__"', "is no number"),
        ('words = "takes 5 ms"\nlimit = "Makefile"\npattern = "(nowhere)"', "has 0 places"),
    ],
)
def test_what_is_missing_is_named(sources: Any, entries: str, problem: str) -> None:
    found = list(sources.problems({"page.md": PAGE}, sources.read_entries(table(entries))))
    assert problem in "\n".join(found)


def table(*entries: str) -> str:
    return "\n".join(f'[["page.md"]]\n{entry}' for entry in entries)


@pytest.mark.parametrize(
    "entries",
    [
        ['other = "a law"'],
        [f'words = "waits 30\\nseconds"\nlimit = "{WAITS}"', 'section = "Speed"\nother = "a law"'],
    ],
)
def test_covered_numbers_are_no_problem(sources: Any, entries: list[str]) -> None:
    assert not list(sources.problems({"page.md": PAGE}, sources.read_entries(table(*entries))))


def test_an_entry_of_another_page_is_a_problem(sources: Any) -> None:
    (problem,) = sources.problems({}, sources.read_entries(table('other = "a law"')))
    assert problem == "page.md: 'the whole page': there is no such page"


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("gpt_oss_harmony.typescript.json_text:NESTING_LIMIT", 120),
        ("gpt_oss_harmony.tools.mcp.transports:MAX_BYTES", 16 * 2**20),  # a calculation
        ("gpt_oss_harmony.server.peers:_SILENCE", 3),  # with another constant
        ("gpt_oss_harmony.tools.python.sandbox.limits:Limits.disk", 256 * 2**20),  # a field
        ("gpt_oss_harmony.server.fair_turns:FairPool.__init__.max_waiting", 256),  # an argument
    ],
)
def test_limits_are_read_from_the_code(sources: Any, limit: str, value: float) -> None:
    assert sources.limit_value(sources.Entry("page.md", limit=limit)) == value


@pytest.mark.parametrize(
    ("text", "english", "problem"),
    [
        ("50.000, 1.5 и 5 минут", "50.000, 1.5, five minutes", ""),
        ("50\u00a0000, 1,5 and 0,125", "50,000, 1.5 and 0.125", ""),
        ("1,000 и 1,5", "1.000 and 1.5", ""),
        ("50,000", "50,000", "missing ['50000'], added ['50.000']"),
        ("50 000, 429", "50,000", "missing [], added ['429']"),
        ("最大5万", "up to 50,000", "missing ['50000'], added []"),
        ("トークンは20個", "20 tokens", ""),
        ("30日と30秒", "30 days", "missing [], added ['30']"),
    ],
)
def test_figures_of_translations_are_compared(
    sources: Any, text: str, english: str, problem: str
) -> None:
    heading = "# Limits\n\n"
    found = list(sources.translation_problems("page.ru.md", heading + text, heading + english))
    assert found == ([f"page.ru.md: #limits: {problem}"] if problem else [])
