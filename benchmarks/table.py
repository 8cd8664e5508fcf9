"""Measurements to rows, and rows to a table for people.

A row has the median of each library, in its unit, and the ratio: how many times less ours takes
than the faster peer. A floor is the least ratio that we accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import grammars, threads
from benchmarks.measure import Samples
from benchmarks.workloads import TEXT_WORKLOADS, TEXTS

PEERS = ("reference", "fork")
THREADS = "render two prompts in two threads"
IN_TURN = "render two prompts in turn"
SPEEDUP = "two threads against one, how many times faster"
FIRST_PARSE = "new process: import, load, first parse"
FIRST_RENDER = "new process: import, load, first render"
MEMORY_LOADED = "memory after load"
MEMORY_RENDERED = "memory after the first render"

TEXT_FLOORS = {
    "stream": (6, 3),
    "stream + five properties": (62, 54),
    "stream + current_content": (15, 15),
    "batch parse": (10, 10),
    "decode": (1.2, 1.2),
}
"""For work on several texts; the second is for those of which most characters are split."""
SPLIT_TEXTS = ("rare Chinese", "emoji", "split characters")

FLOORS = {
    **{
        f"{work}, {text}": floors[text in SPLIT_TEXTS]
        for work, floors in TEXT_FLOORS.items()
        for text in TEXTS
    },
    "stream + messages, the last 10 of 2,000": 1500,
    "render 50 turns, never seen": 9.8,
    "render 50 turns and the next one": 150,
    "render the same 20 tools": 8.5,
    "render 20 new tools": 1.5,
    "encode new text": 4.5,
    THREADS: 14,
    SPEEDUP: 1.4,
    FIRST_PARSE: 2,
    FIRST_RENDER: 1.1,
    MEMORY_LOADED: 1.9,
    MEMORY_RENDERED: 1.1,
}

# What samples are measured in, to what a row shows and by how much that is more.
SHOWN_UNITS = {
    "token": ("ns/token", 1e9),
    "prompt": ("ms/prompt", 1e3),
    "process": ("ms", 1e3),
    "bytes": ("MB", 1e-6),
}


@dataclass
class Row:
    """One line of the table: `medians` by library, `samples` of each."""

    work: str
    unit: str
    medians: dict[str, float]
    samples: int
    ratio: float | None = None
    floor: float | None = None
    spread: dict[str, list[float]] = field(default_factory=dict)

    @property
    def is_below(self) -> bool:
        """Whether less was measured than we accept."""
        return self.floor is not None and self.ratio is not None and self.ratio < self.floor

    def to_dict(self) -> dict[str, Any]:
        """The row as it stands in the JSON file."""
        return asdict(self)


def row(work: str, samples: Samples) -> Row:
    """Make a row of one work's samples."""
    unit, factor = SHOWN_UNITS[samples.unit]
    runs = {
        library: [factor * run for run in measured] for library, measured in samples.runs.items()
    }
    medians = {library: median(measured) for library, measured in runs.items()}
    peers = [medians[peer] for peer in PEERS if peer in medians]
    return Row(
        work,
        unit,
        medians,
        len(runs["ours"]),
        ratio=min(peers) / medians["ours"] if peers and medians["ours"] else None,
        floor=FLOORS.get(work),
        spread={library: [min(measured), max(measured)] for library, measured in runs.items()},
    )


def speedup(rows: Iterable[Row]) -> Row | None:
    """Compare each library's two threads with its own one; the floor is about ours alone."""
    found = {item.work: item for item in rows}
    if not {THREADS, IN_TURN} <= found.keys():
        return None
    one, two = found[IN_TURN], found[THREADS]
    gains = {library: one.medians[library] / two.medians[library] for library in two.medians}
    return Row(SPEEDUP, "×", gains, two.samples, ratio=gains["ours"], floor=FLOORS[SPEEDUP])


HEADINGS = ("work", "unit", "ours", "reference", "fork", "ratio", "floor")


def cells(item: Row) -> list[str]:
    """The texts of a row."""
    medians = [item.medians.get(library) for library in HEADINGS[2:5]]
    ratio = None if item.work == SPEEDUP else item.ratio
    floor = shown(item.floor, "×") + (" (below)" if item.is_below else "")
    return [item.work, item.unit, *map(shown, medians), shown(ratio, "×"), floor]


def shown(number: float | None, unit: str = "") -> str:
    """A number with three digits.

    >>> shown(12345.6), shown(0.5, "×"), shown(150, "×"), shown(None)
    ('12,300', '0.5×', '150×', '–')
    """
    if number is None:
        return "–"
    rounded = float(f"{number:.3g}")
    return (f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}") + unit


def plain_tables(data: dict[str, Any]) -> str:
    """All tables for a terminal, each with where it was measured."""
    texts: list[str] = []
    if rows := [Row(**item) for item in data["rows"]]:
        texts += [aligned([list(HEADINGS), *map(cells, rows)]), machine_line(data["machine"])]
        if below := [row.work for row in rows if row.is_below]:
            texts.append("below the floor: " + "; ".join(below))
    if data["threads"]:
        texts.append(aligned([list(threads.HEADINGS), *threads.cells(data["threads"])], texts=1))
    if found := data["grammars"]:
        texts.append(aligned([list(grammars.HEADINGS), *map(grammars.cells, found["rows"])]))
        texts.append(machine_line(found["machine"]))
    return "\n".join(texts)


def aligned(lines: list[list[str]], texts: int = 2) -> str:
    """Cells in columns; all but the first ones are numbers."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at < texts else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(headings: Iterable[str], lines: Iterable[Iterable[str]], texts: int = 2) -> str:
    """A table for a page; all columns but the first ones are numbers."""
    names = list(headings)
    rule = ["---" if at < texts else "--:" for at in range(len(names))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (names, rule, *lines))


def table_section(data: dict[str, Any]) -> str:
    """The machine and the table, from the JSON file; of work on several texts, English."""
    english = [f"{work}, English" for work in TEXT_FLOORS]
    found = {item["work"]: Row(**item) for item in data["rows"]}
    works = [*english, *(work for work in found if work not in TEXT_WORKLOADS)]
    lines = (cells(found[work]) for work in works)
    return f"{machine_line(data['machine'])}\n\n{markdown(HEADINGS, lines)}"


def texts_section(data: dict[str, Any]) -> str:
    """Ours in nanoseconds and the ratio, for each text and work, from the JSON file."""
    found = {item["work"]: Row(**item) for item in data["rows"]}
    lines = [
        [text, *(_time_and_ratio(found[f"{work}, {text}"]) for work in TEXT_FLOORS)]
        for text in TEXTS
    ]
    return markdown(("ns/token, and ratio", *TEXT_FLOORS), lines, texts=1)


def _time_and_ratio(item: Row) -> str:
    below = " (below)" if item.is_below else ""
    return f"{shown(item.medians['ours'])}, {shown(item.ratio, '×')}{below}"


def threads_section(data: dict[str, Any]) -> str:
    """What two threads of tiktoken gain, from the JSON file."""
    return markdown(threads.HEADINGS, threads.cells(data["threads"]), texts=1)


def machine_line(machine: dict[str, Any]) -> str:
    """Where and with what was measured."""
    packages = "; ".join(
        f"{library}: " + ", ".join(f"{name} {version}" for name, version in found.items())
        for library, found in machine["packages"].items()
    )
    return (
        f"Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores with a "
        f"load of {machine['load']} before the start, Python {machine['python']}. "
        f"{packages[:1].upper()}{packages[1:]}."
    )


def breakdown_section(data: dict[str, Any]) -> str:
    """Where the time of ours goes, from the JSON file."""
    lines = [
        [item["work"], item["part"], f"{100 * item['share']:.0f}%"] for item in data["breakdown"]
    ]
    return markdown(("work", "part", "share of its time"), lines)


def grammars_section(data: dict[str, Any]) -> str:
    """Masks and compilations, from the JSON file."""
    found = data["grammars"]
    lines = map(grammars.cells, found["rows"])
    return f"{machine_line(found['machine'])}\n\n{markdown(grammars.HEADINGS, lines)}"


SPEED = {
    "Parse a stream, token by token, in messages of 1,000 tokens": "stream, English",
    "The same, reading channel, recipient, role, delta and state after each token": (
        "stream + five properties, English"
    ),
    "Parse a whole completion": "batch parse, English",
    "Render 50 turns that were never seen": "render 50 turns, never seen",
    "Render the next turn of a known conversation (from the cache)": (
        "render 50 turns and the next one"
    ),
    "Render 20 new tools": "render 20 new tools",
    "Import, load and parse in a new process": FIRST_PARSE,
    "Import, load and render in a new process": FIRST_RENDER,
}
"""What the README shows, by the work that was measured."""


def speed_section(data: dict[str, Any]) -> str:
    """How many times faster this library is, for the README, from the JSON file."""
    ratios = {item["work"]: item["ratio"] for item in data["rows"]}
    lines = [[words, f"**{float(f'{ratios[work]:.2g}'):g}×**"] for words, work in SPEED.items()]
    heading = "Compared with the faster of openai-harmony and oss-harmony"
    return markdown((heading, "Times as fast"), lines, texts=1)


README_SECTIONS: dict[str, Callable[[dict[str, Any]], str]] = {"speed": speed_section}
SECTIONS: dict[str, Callable[[dict[str, Any]], str]] = {
    "table": table_section,
    "texts": texts_section,
    "threads": threads_section,
    "breakdown": breakdown_section,
    "grammars": grammars_section,
}


def with_sections(
    page: str,
    data: dict[str, Any],
    sections: dict[str, Callable[[dict[str, Any]], str]] = SECTIONS,
) -> str:
    """Write what the JSON file says between the markers of a page."""
    for name, section in sections.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = page.partition(start)
        _old, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"the page has no place {start.strip()} … {end}")
        page = f"{before}{start}\n{section(data)}\n\n{end}{after}"
    return page


def update_page(
    path: Path,
    data: dict[str, Any],
    sections: dict[str, Callable[[dict[str, Any]], str]] = SECTIONS,
) -> None:
    """Bring a page in line with the JSON file."""
    page = with_sections(path.read_text(encoding="utf-8"), data, sections)
    path.write_text(page, encoding="utf-8")
