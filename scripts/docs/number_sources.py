"""Check that every number in the documentation has a source.

    python scripts/docs/number_sources.py [--measured]

``docs/numbers.toml`` has an entry for each number with a unit in the prose and the tables of the
English pages. Code, generated parts and the targets of links do not count. An entry names the place
and the source. The place is one of these:

* ``words``: words of the page around the number, which stand there once;
* ``section``: the title of a section, whose numbers all have this source;
* neither: all numbers of the page have this source, but for those of other entries.

The source is one of these:

* ``measured``: the date and the machine, with the ``command`` that measures the number anew;
* ``limit``: the place in the code: ``module:NAME``, ``module:Class.field`` or
  ``module:function.argument``; or a file, with a ``pattern`` that finds the number in it. The
  number in the words must be that of the code, which is in seconds, bytes or pieces, or in
  ``unit``. With ``rounded``, the words have the nearest integer;
* ``other``: a fact that is neither, and where to look it up.

The figures of a translation must be those of the English page. ``--measured`` lists what was
measured, the oldest first.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from translations import FENCED, LANGUAGES, RECORD, Section, read_sections

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ROOT / "docs" / "numbers.toml"
SOURCES = (ROOT / "src", *sorted((ROOT / "packages").glob("*/")), ROOT)
# Pages that `make reference` writes; the code has their numbers.
GENERATED_PAGES = ("docs/reference/command.md", "docs/reference/endpoints/")

_GENERATED = re.compile(
    r"<!-- begin: (\w+) -->.*?<!-- end: \1 -->|<!-- ([a-z][\w-]*) -->.*?<!-- /\2 -->"
    r"|<!-- run: [\w-]+ -->.*?<!-- end -->|<!--.*?-->",
    re.DOTALL,
)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_TARGET = re.compile(r"(?<=\]\()[^)\s]+|https?://[^\s)>]+")

_SMALL = "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"
_WORDS = {
    **dict.fromkeys(("a", "an", "one"), 1.0),
    **{word: float(number) for number, word in enumerate(_SMALL, 2)},
    "fifteen": 15.0,
    "twenty": 20.0,
    "thirty": 30.0,
    "fifty": 50.0,
    "sixty": 60.0,
    "half a": 0.5,
    "half an": 0.5,
    "a quarter of an": 0.25,
}
_UNITS = {
    **dict.fromkeys(("ns",), ("seconds", 1e-9)),
    **dict.fromkeys(("µs", "microsecond"), ("seconds", 1e-6)),
    **dict.fromkeys(("ms", "millisecond"), ("seconds", 1e-3)),
    **dict.fromkeys(("s", "second"), ("seconds", 1.0)),
    "minute": ("seconds", 60.0),
    "hour": ("seconds", 3600.0),
    "day": ("seconds", 86400.0),
    "week": ("seconds", 7 * 86400.0),
    "byte": ("bytes", 1.0),
    **dict.fromkeys(("KB", "kB"), ("bytes", 1e3)),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "TB": ("bytes", 1e12),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
    "%": ("share", 0.01),
    **dict.fromkeys(("×", "times"), ("times", 1.0)),
    **dict.fromkeys(("character", "token"), ("pieces", 1.0)),
    "": ("pieces", 1.0),
}
_FIGURE = r"(?<![\w.,-])(?P<figure>\d[\d,]*(?:\.\d+)?)"
_NAME = "|".join(sorted(_WORDS, key=len, reverse=True))
_UNIT = "|".join(sorted((re.escape(unit) for unit in _UNITS if unit), key=len, reverse=True))
_QUANTITY = re.compile(
    rf"(?:{_FIGURE}|\b(?P<name>(?:{_NAME})(?![\w-])))(?P<large>[\s-]+(?:thousand|million))?"
    rf"(?:[\s-]+(?P<unit>(?:{_UNIT})s?)|(?P<sign>[%×]))(?!\w|-\w)",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    rf"(?:{_FIGURE}|\b(?P<name>{_NAME})\b)(?P<large>[\s-]+(?:thousand|million))?(?![\w.]*\w)",
    re.IGNORECASE,
)
# With the marks of any language between thousands and before decimals.
_TRANSLATED = re.compile(r"(?<![\d.,])\d+(?:[,.]\d+|\s\d{3}\b)*")
_LARGE = {"thousand": 1e3, "million": 1e6}


class Quantity(NamedTuple):
    """A number with a unit: its place, and its value in seconds, bytes or pieces, or as a share."""

    start: int
    end: int
    value: float
    kind: str


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def prose(text: str) -> str:
    """Replace all that needs no source by spaces; positions and lines stay.

    >>> prose("`1 s` takes [2 s](3s.md)").split()
    ['takes', '[2', 's](', ')']
    """
    for pattern in (FENCED, _GENERATED, _CODE, _TARGET):
        text = pattern.sub(_blank, text)
    return text


def quantities(text: str) -> Iterator[Quantity]:
    """Find the numbers with units.

    Phrases such as "one token" and "a second time" are language. So words count only before units
    of time and bytes and before "times", "a" only in "half a", "a quarter of an" and "a million".

    >>> [quantity.value for quantity in quantities("half a minute, 2 KiB, a second, one token")]
    [30.0, 2048.0]
    """
    for match in _QUANTITY.finditer(text):
        quantity = _quantity(match)
        is_word = match["name"] is not None and match["large"] is None
        is_language = is_word and (
            quantity.kind == "pieces" or match["name"].lower() in ("a", "an", "one")
        )
        if quantity.kind and not is_language:
            yield quantity


def _quantity(match: re.Match[str]) -> Quantity:
    kind, factor = _unit(match["unit"] or match["sign"])
    return Quantity(match.start(), match.end(), _number(match) * factor, kind)


def _number(match: re.Match[str]) -> float:
    spelled = match["figure"]
    number = (
        float(spelled.replace(",", ""))
        if spelled
        else _WORDS[" ".join(match["name"].lower().split())]
    )
    return number * (_LARGE[match["large"].strip(" \n-").lower()] if match["large"] else 1)


def _unit(spelled: str) -> tuple[str, float]:
    unit = spelled if spelled in _UNITS else spelled.lower()
    return _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s")) or ("", 0.0)


class Entry(NamedTuple):
    """A place on a page, and the source of its numbers."""

    page: str
    words: str = ""
    section: str = ""
    measured: str = ""
    command: str = ""
    limit: str = ""
    pattern: str = ""
    unit: str = ""
    rounded: bool = False
    other: str = ""

    @property
    def name(self) -> str:
        """The page and the place, for messages."""
        return f"{self.page}: {self.words or self.section or 'the whole page'!r}"

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where the place is on the page."""
        if self.words:
            words = r"\s+".join(re.escape(word) for word in self.words.split())
            return [match.span() for match in re.finditer(words, text)]
        if not self.section:
            return [(0, len(text))]
        found = []
        start = 0
        for section in read_sections(text):
            start = text.index(section.text, start)
            if section.title == self.section:
                found.append((start, start + len(section.text)))
        return found


def read_entries(text: str) -> list[Entry]:
    """Read the file of numbers.

    Raises:
        TypeError: An entry has a field that there is not.
    """
    toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    return [
        Entry(page, **fields) for page, entries in toml.loads(text).items() for fields in entries
    ]


def english_pages() -> dict[str, str]:
    """Return the texts of the pages that people write, by their paths from the root."""
    written = ("README.md", "CONTRIBUTING.md", "MAINTAINING.md")
    paths = [*(ROOT / name for name in written), *sorted(ROOT.glob("docs/**/*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in paths if path.name.count(".") == 1]
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in names
        if not name.startswith(GENERATED_PAGES)
    }


def problems(pages: dict[str, str], entries: list[Entry]) -> Iterator[str]:
    """Describe numbers without a source, entries without a place, and limits of another value."""
    covered: dict[str, list[tuple[int, int]]] = {name: [] for name in pages}
    for entry in entries:
        yield from _source_problems(entry)
        if entry.page not in pages:
            yield f"{entry.name}: there is no such page"
            continue
        spans = entry.spans(pages[entry.page])
        if len(spans) != 1:
            yield (
                f"{entry.name}: stands {len(spans)} times on the page; mend docs/numbers.toml, and "
                "compare the number with its source"
            )
        if entry.limit and len(spans) == 1:
            yield from _limit_problems(entry)
        covered[entry.page] += spans
    for name, text in pages.items():
        for found in quantities(prose(text)):
            if not any(start <= found.start and found.end <= end for start, end in covered[name]):
                line = text.count("\n", 0, found.start) + 1
                words = " ".join(text[found.start : found.end].split())
                yield (
                    f"{name}:{line}: {words!r} has no source: add an entry to docs/numbers.toml, "
                    "as scripts/docs/number_sources.py describes"
                )


def _source_problems(entry: Entry) -> Iterator[str]:
    if sum(map(bool, (entry.measured, entry.limit, entry.other))) != 1:
        yield f"{entry.name}: needs one of `measured`, `limit` and `other`"
    if entry.measured and not entry.command:
        yield f"{entry.name}: needs the `command` that measures it"
    if entry.measured and not re.match(r"\d{4}-\d\d-\d\d\b", entry.measured):
        yield f"{entry.name}: `measured` begins with a date such as 2026-01-31"


def _limit_problems(entry: Entry) -> Iterator[str]:
    shown = prose(entry.words)
    found = list(quantities(shown)) or [_quantity(m) for m in _QUANTITY.finditer(shown)]
    if not found:
        plain = [match for match in _PLAIN.finditer(shown) if match[0].lower() not in ("a", "an")]
        found = [Quantity(*match.span(), _number(match), "pieces") for match in plain]
    if len(found) != 1:
        yield f"{entry.name}: has {len(found)} numbers; the words of a limit have one"
        return
    try:
        value = limit_value(entry)
    except LookupError as error:
        yield f"{entry.name}: {error.args[0]}"
        return
    kind, factor = _unit(entry.unit) if entry.unit else ("", 1.0)
    same_kind = not kind or kind == found[0].kind or found[0].kind == "pieces"
    value = round(value) if entry.rounded else value
    if not same_kind or abs(found[0].value - value * factor) > 1e-9 * abs(found[0].value):
        yield f"{entry.name}: {entry.limit} is {value:g} {entry.unit}".rstrip()


def limit_value(entry: Entry) -> float:
    """Return the number that the code has.

    Raises:
        LookupError: There is no such name, or it is no number; or the pattern is not found once.
    """
    if entry.pattern:
        text = (ROOT / entry.limit).read_text(encoding="utf-8")
        found = re.findall(entry.pattern, text)
        if len(set(found)) != 1:
            raise LookupError(f"{entry.limit} has {len(found)} places with {entry.pattern!r}")
        return float(found[0].replace("_", "").replace(",", ""))
    module, _, path = entry.limit.partition(":")
    value = _value(module, path)
    if not isinstance(value, int | float):
        raise LookupError(f"{entry.limit} is no number: {value!r}")
    return value


@cache
def _module(name: str) -> ast.Module:
    stem = name.replace(".", "/")
    for folder in SOURCES:
        for path in (folder / f"{stem}.py", folder / stem / "__init__.py"):
            if path.exists():
                return ast.parse(path.read_text(encoding="utf-8"))
    raise LookupError(f"there is no module {name}")


def _value(module: str, path: str) -> Any:
    """Evaluate a constant or the default of a field or an argument; nothing is imported."""
    scope: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef = _module(module)
    *parents, name = path.split(".")
    for parent in parents:
        scopes = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        inner = [n for n in scope.body if isinstance(n, scopes) and n.name == parent]
        if not inner:
            raise LookupError(f"{module} has no {path}")
        scope = inner[-1]
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        given = dict(_defaults(scope.args))
    else:
        given = dict(_assignments(scope.body))
    if name in given:
        return _evaluate(given[name], module)
    raise LookupError(f"{module} has no {path}")


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign):
                assert node.value is not None
                yield target.id, node.value


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        yield argument.arg, default
    for argument, keyword in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword is not None:
            yield argument.arg, keyword


def _evaluate(node: ast.expr, module: str) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _value(module, node.id)
    if isinstance(node, ast.Call) and node.args:  # the default of a field that says more
        return _evaluate(node.args[0], module)
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, module), _evaluate(node.right, module)
        return _OPERATIONS[type(node.op)](left, right)
    raise LookupError(f"{module}:{node.lineno} is no number")


_OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
    ast.LShift: lambda a, b: a << b,
}


def translated_pages() -> Iterator[tuple[str, str, str]]:
    """Return each translation: its path from the root, its text, and that of the English page.

    A translation that says that it is behind is left out.
    """
    for name, english in english_pages().items():
        for language in LANGUAGES:
            path = (ROOT / name).with_suffix(f".{language}.md")
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            record = RECORD.search(text)
            if record is not None and record["behind"] is None:
                yield path.relative_to(ROOT).as_posix(), RECORD.sub("\n", text), english


def translation_problems(name: str, text: str, english: str) -> Iterator[str]:
    """Describe sections of a translation that have other figures than those of the English page."""
    mark = r"\s" if name.endswith(".ru.md") else r"[,\s]"
    for ours, theirs in zip(read_sections(text), read_sections(english), strict=False):
        missing, added = differing_figures(ours, theirs, mark)
        if missing or added:
            yield f"{name}: #{theirs.anchor}: missing {sorted(missing)}, added {sorted(added)}"


def differing_figures(
    ours: Section, english: Section, mark: str
) -> tuple[Counter[str], Counter[str]]:
    """Return the English figures that a translated section lacks, and those that it adds.

    `mark` stands between its thousands: in Russian a comma only stands before decimals.

    A translation may write a figure for an English word, as in "five minutes" and "5分", so
    figures up to twelve may be added.
    """
    found, expected = _figures(ours.text, mark), _figures(english.text)
    added = {figure: count for figure, count in (found - expected).items() if float(figure) > 12}
    return expected - found, Counter(added)


def _figures(text: str, mark: str = r"[,\s]") -> Counter[str]:
    spelled = (match[0] for match in _TRANSLATED.finditer(prose(text)))
    # A mark before three digits stands between thousands, but not after a single 0.
    figures = (re.sub(rf"(?<=\d)(?<!^0){mark}(?=\d{{3}}\b)", "", figure) for figure in spelled)
    return Counter(figure.replace(",", ".") for figure in figures)


def main() -> int:
    """Print the problems, or what was measured."""
    parser = argparse.ArgumentParser(description="Check the sources of the numbers in the pages.")
    parser.add_argument("--measured", action="store_true", help="list what was measured")
    arguments = parser.parse_args()
    entries = read_entries(NUMBERS.read_text(encoding="utf-8"))
    if arguments.measured:
        for entry in sorted(entries, key=lambda entry: entry.measured):
            if entry.measured:
                print(f"{entry.measured}: {entry.command}\n    {entry.name}")
        return 0
    found = list(problems(english_pages(), entries))
    for translation in translated_pages():
        found += translation_problems(*translation)
    for problem in found:
        print(problem)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
