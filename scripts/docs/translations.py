"""Keep the translations beside the English pages: ``make translations``.

    python scripts/docs/translations.py [PAGE ...] [--done | --behind]

``page.ja.md`` is the Japanese translation of ``page.md``. This command copies into each translation
what must be the same in every language: the code blocks, the anchors of the headings, and links to
pages that are translated, too. Then it lists what only a translator can repair.

A comment at the end of a translation records the English sections that it was made of. A section
that has changed since is *behind*. ``--done`` records the present English page, after translating;
``--behind`` marks the page, and the site then shows a notice on it. Without PAGE, all translations
are meant.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("ja", "ko", "ru")

FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r'^(#+) +(?:<a id="[^"]*"></a>)?(.*)$', re.MULTILINE)
LINK = re.compile(r"(?<=\]\()[^)\s]+")
RECORD = re.compile(r"\n+<!-- translation(?P<behind>, behind)?\n(?P<sections>[^>]*)-->\n*\Z")

_SUFFIX = re.compile(rf"\.(?:{'|'.join(LANGUAGES)})\.md")


class Section(NamedTuple):
    """A heading and the text up to the next heading; what stands before the first has level 0."""

    level: int
    title: str
    text: str

    @property
    def anchor(self) -> str:
        """The name under which GitHub and the site link to the heading."""
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", self.title)
        return re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")

    @property
    def blocks(self) -> list[str]:
        """The fenced code blocks."""
        return [match[0] for match in FENCED.finditer(self.text)]

    @property
    def links(self) -> Counter[str]:
        """The targets of the links, as the English page has them."""
        return Counter(_SUFFIX.sub(".md", link) for link in LINK.findall(FENCED.sub("", self.text)))

    @property
    def digest(self) -> str:
        """A hash of the prose; line breaks and code do not count."""
        prose = " ".join([self.title, *FENCED.sub("", self.text).split()])
        return hashlib.sha256(prose.encode()).hexdigest()[:12]


def read_sections(text: str) -> list[Section]:
    """Cut a page at its headings; a line of code that begins with ``#`` is none."""
    fences = [match.span() for match in FENCED.finditer(text)]
    headings = [
        match
        for match in HEADING.finditer(text)
        if not any(start < match.start() < end for start, end in fences)
    ]
    ends = [*(heading.start() for heading in headings), len(text)]
    return [Section(0, "", text[: ends[0]])] + [
        Section(len(heading[1]), heading[2].strip(), text[heading.end() : end])
        for heading, end in zip(headings, ends[1:], strict=True)
    ]


class Translation:
    """A translated page, and the English page that it was made of."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.language = path.suffixes[-2].removeprefix(".")
        self.original = path.with_name(_SUFFIX.sub(".md", path.name))
        self.text = path.read_text(encoding="utf-8")
        self.english = read_sections(self.original.read_text(encoding="utf-8"))
        self.record = RECORD.search(self.text)
        self.sections = read_sections(RECORD.sub("", self.text).rstrip("\n") + "\n")

    @property
    def has_same_headings(self) -> bool:
        """Whether the headings have the levels of the English ones, in the same order."""
        return [s.level for s in self.sections] == [s.level for s in self.english]

    @property
    def is_marked(self) -> bool:
        """Whether the page says that the English one is newer."""
        return self.record is not None and self.record["behind"] is not None

    @property
    def changed(self) -> list[str]:
        """The anchors of English sections that were added, removed or written anew."""
        lines = self.record["sections"].splitlines() if self.record else []
        recorded = dict(line.split() for line in lines)
        present = _digests(self.english)
        return [
            anchor
            for anchor in {**present, **recorded}
            if present.get(anchor) != recorded.get(anchor)
        ]

    def problems(self) -> Iterator[str]:
        """Describe what only a translator can repair, but for sections that are behind."""
        if not self.has_same_headings:
            yield (
                f"its headings have the levels {_levels(self.sections)}; "
                f"the English page has {_levels(self.english)}"
            )
            return
        for ours, english in zip(self.sections, self.english, strict=True):
            if len(ours.blocks) != len(english.blocks):
                yield (
                    f"#{english.anchor}: {len(ours.blocks)} code blocks; "
                    f"the English section has {len(english.blocks)}"
                )
            for link in (english.links - ours.links).elements():
                yield f"#{english.anchor}: the link to {link} is missing"
            for link in (ours.links - english.links).elements():
                yield f"#{english.anchor}: the English section has no link to {link}"

    def with_shared_parts(self) -> str:
        """Return the page with the English code and anchors, and links to translated pages."""
        ending = f"\n{self.record[0].strip()}\n" if self.record else ""
        if not self.has_same_headings:
            return self.text
        pairs = zip(self.sections, self.english, strict=True)
        return "".join(self._section(ours, english) for ours, english in pairs) + ending

    def _section(self, ours: Section, english: Section) -> str:
        blocks = english.blocks if len(ours.blocks) == len(english.blocks) else ours.blocks
        pieces = []
        start = 0
        for fence, block in zip(FENCED.finditer(ours.text), blocks, strict=True):
            pieces += [LINK.sub(self._link, ours.text[start : fence.start()]), block]
            start = fence.end()
        pieces.append(LINK.sub(self._link, ours.text[start:]))
        return self._heading(ours, english) + "".join(pieces)

    def _heading(self, ours: Section, english: Section) -> str:
        if not ours.level:
            return ""
        # The title of the page is linked to by the page's name.
        anchor = f'<a id="{english.anchor}"></a>' if ours.level > 1 else ""
        return f"{'#' * ours.level} {anchor}{ours.title}"

    def _link(self, match: re.Match[str]) -> str:
        path, hash_sign, anchor = match[0].partition("#")
        target = self.path.parent / path
        translated = target.with_suffix(f".{self.language}.md")
        if target.suffix != ".md" or target == self.original or not translated.exists():
            return match[0]
        return f"{path.removesuffix('.md')}.{self.language}.md{hash_sign}{anchor}"

    def with_record(self, *, behind: bool) -> str:
        """Return the page with a record: of the English page, or marked as behind."""
        page = RECORD.sub("", self.text).rstrip("\n")
        if behind and self.record:
            sections = self.record["sections"]
        else:
            sections = "".join(f"{name} {h}\n" for name, h in _digests(self.english).items())
        return f"{page}\n\n<!-- translation{', behind' if behind else ''}\n{sections}-->\n"


def _digests(sections: list[Section]) -> dict[str, str]:
    return {s.anchor or "(start)": s.digest for s in sections if s.title or s.text.strip()}


def _levels(sections: list[Section]) -> str:
    return " ".join(str(section.level) for section in sections if section.level)


def translated_pages() -> list[Path]:
    """The translations of README.md and of the pages in docs."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(page for page in pages if _SUFFIX.search(page.name))


def main() -> int:
    """Copy the shared parts, write the records that are asked for, and list the problems."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    marks = parser.add_mutually_exclusive_group()
    marks.add_argument("--done", action="store_true", help="record the present English page")
    marks.add_argument("--behind", action="store_true", help="show a notice on pages behind")
    arguments = parser.parse_args()
    problems = []
    for path in [page.resolve() for page in arguments.pages] or translated_pages():
        path.write_text(Translation(path).with_shared_parts(), encoding="utf-8")
        page = Translation(path)
        if arguments.done or (arguments.behind and page.changed):
            path.write_text(page.with_record(behind=arguments.behind), encoding="utf-8")
            page = Translation(path)
        name = path.relative_to(ROOT)
        problems += [f"{name}: {problem}" for problem in page.problems()]
        problems += [f"{name}: behind: #{anchor}" for anchor in page.changed]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
