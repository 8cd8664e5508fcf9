"""Counts of the tokens of a data set, by channel and by length, as text and as a picture."""

from __future__ import annotations

import bisect
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...conversation.messages import Message, Role
from ..examples import TrainingExample
from ..row_checks import FINDINGS
from .duplicates import Duplicate
from .sources import atomic_file

REASONS_FILE = "reasons.jsonl"
"""The file with all reasons of rejected rows, each with an example."""

_BAR = 40  # characters of the longest bar in text
_BARS = 20  # of channels in the picture
_EIGHTHS = " ▁▂▃▄▅▆▇█"  # a bar of one character
_LINES = 8  # of sources in the picture
_LABEL = 28  # characters of the longest label
_FIELD = 80  # of the name of a field
_SOURCES = 20  # that are shown
_REASONS = 8  # that are shown
_UNREAD = 8  # files that are named
_FEW_BUCKETS = 4  # fewer powers of two are cut into equal buckets
_BUCKETS = 8  # at most, if they are equal
_VALUES = re.compile(r"""(?<!\w)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w-])\d+""")


@dataclass
class TokenReport:
    """The counts of a data set; reports can be added.

    - `tokens`, `trainable`: the tokens by channel for the assistant, else by role.
    - `lengths`: the examples by their length in tokens.
    - `too_long`: the messages that do not fit into the context.
    - `repeated`: the tokens of messages that an earlier example of the same row has as well.
    - `shared`: the tokens that examples in one sequence share, and that are written once.
    - `duplicates`: the rejected rows that repeat an earlier one, by the kind.
    - `reasons`: the rejected rows, by the reason without its names and numbers.
    - `unused`: the rows that have a field which is not in their examples, by its name.
    - `findings`: the rows with each kind of `FINDINGS` for which they are not rejected.
    - `source_rows`, `source_tokens`, `source_trainable`, `source_too_long`: the rows, the tokens
      and the messages that do not fit, by source, which is the file or a field of the row.
    - `source_lengths`: the examples of each source by their length in tokens.
    - `sequences`: the rows of the files, which are examples or packed sequences.
    - `unread`, `unread_names`: the files beside the rows that are not read, and the first names.
    """

    rows: int = 0
    rejected: int = 0
    examples: int = 0
    sequences: int = 0
    too_long: int = 0
    repeated: int = 0
    shared: int = 0
    duplicates: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    trainable: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    source_rows: Counter[str] = field(default_factory=Counter)
    source_tokens: Counter[str] = field(default_factory=Counter)
    source_trainable: Counter[str] = field(default_factory=Counter)
    source_too_long: Counter[str] = field(default_factory=Counter)
    source_lengths: dict[str, Counter[int]] = field(default_factory=dict)
    unread: int = 0
    unread_names: list[str] = field(default_factory=list)

    def add_examples(
        self, examples: Sequence[TrainingExample], messages: Sequence[Message]
    ) -> None:
        """Count the examples of a row."""
        earlier: set[int] = set()
        for example in examples:
            self.examples += 1
            self.lengths[len(example)] += 1
            for part in example.messages:
                message = messages[part.message]
                if message.author.role is Role.ASSISTANT:
                    name = message.channel or "no channel"
                else:
                    name = str(message.author.role.value)
                self.tokens[name] += part.end - part.start
                if part.message in earlier:
                    self.repeated += part.end - part.start
                if example.is_trainable(part):
                    self.trainable[name] += part.end - part.sampled
            earlier.update(part.message for part in example.messages)

    def add_duplicate(self, duplicate: Duplicate | None) -> str | None:
        """Count a row that repeats another, if it does; return the reason to reject it."""
        if duplicate is None:
            return None
        self.duplicates[duplicate.kind] += 1
        return duplicate.reason

    def add_rejected(self, problem: str) -> None:
        """Count a rejected row."""
        self.rejected += 1
        self.reasons[general_reason(problem)] += 1

    def add_unread(self, names: Sequence[str]) -> None:
        """Count files beside the rows that are not read."""
        self.unread += len(names)
        self.unread_names += names[:_UNREAD]

    def unread_files(self) -> str:
        """Name the files that are not read; without any, the text is empty.

        >>> TokenReport(unread=9, unread_names=["b.csv", "c.json"]).unread_files()
        '9 files are not read: b.csv, c.json and 7 others'
        """
        if not self.unread:
            return ""
        names = ", ".join(_label(name, _FIELD) for name in self.unread_names)
        others = self.unread - len(self.unread_names)
        names += f" and {counted(others, 'other')}" if others else ""
        verb = "is" if self.unread == 1 else "are"
        return f"{counted(self.unread, 'file')} {verb} not read: {names}"

    def add(self, other: TokenReport) -> None:
        """Add the counts of another report."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
            elif isinstance(value, list):
                getattr(self, name).extend(value)
            elif name == "source_lengths":
                for source, lengths in value.items():
                    self.source_lengths.setdefault(source, Counter()).update(lengths)
            else:
                getattr(self, name).update(value)

    def _text_of_contents(self) -> list[str]:
        """Write which fields are in no example, and what is odd about examples."""
        lines: list[str] = []
        if self.unused:
            lines.append("rows with fields that are in no example:")
            ranked = sorted(self.unused.items(), key=lambda item: (-item[1], item[0]))
            lines += (f"  {count:,} × {_label(name, _FIELD)}" for name, count in ranked)
        if self.findings:
            lines.append("rows with findings, which are learned:")
            lines += (
                f"  {count:,} × {FINDINGS.get(name, name)}"
                for name, count in sorted(self.findings.items())
            )
        return lines

    def add_to_source(
        self, source: str, lengths: Sequence[int], trainable: int, too_long: int
    ) -> None:
        """Count a row of a source; `lengths` are those of its examples, in tokens."""
        self.source_rows[source] += 1
        self.source_tokens[source] += sum(lengths)
        self.source_lengths.setdefault(source, Counter()).update(lengths)
        self.source_trainable[source] += trainable
        if too_long:
            self.source_too_long[source] += too_long

    def _text_of_sources(self) -> list[str]:
        """Write the counts of each source; a single one has those of the data set."""
        if len(self.source_rows) < 2:
            return []
        names = self.largest_sources()[:_SOURCES]
        width = max(12, *(_display_width(_label(name, _FIELD)) + 1 for name in names))
        heads = ("rows", "tokens", "trainable", "too long")
        lines = ["", f"{'source':<{width}}" + "".join(f"{head:>16}" for head in heads)]
        counters = (
            self.source_rows,
            self.source_tokens,
            self.source_trainable,
            self.source_too_long,
        )
        for name in names:
            label = _label(name, _FIELD)
            padding = " " * (width - _display_width(label))
            numbers = "".join(f"{counter[name]:>16,}" for counter in counters)
            lines.append(f"{label}{padding}{numbers}")
        lines += self._text_of_source_lengths(names, width)
        others = len(self.source_rows) - len(names)
        if others:
            lines.append(f"and {counted(others, 'other source')} in report.json")
        return lines

    def largest_sources(self) -> list[str]:
        """Return the names of the sources, those with most tokens first."""
        ranked = sorted(self.source_tokens.items(), key=lambda item: (-item[1], item[0]))
        return [name for name, _ in ranked]

    def _text_of_source_lengths(self, names: Sequence[str], width: int) -> list[str]:
        """Draw the lengths of each source on one line: a bar for each bucket of the table below."""
        bounds = [bound for bound, _ in self.length_buckets()]
        range_of_bars = f"≤ {bounds[0]:,} … ≤ {bounds[-1]:,} tokens"
        lines = ["", f"{'lengths':<{width}}{'median':>16}{'longest':>16}  {range_of_bars}"]
        for name in names:
            lengths = self.source_lengths[name]
            counts = _in_buckets(lengths, bounds)
            most = max(counts)
            bars = "".join(_EIGHTHS[-(-8 * count // most)] for count in counts)
            label = _label(name, _FIELD)
            padding = " " * (width - _display_width(label))
            numbers = f"{_median(lengths):>16,}{max(lengths):>16,}"
            lines.append(f"{label}{padding}{numbers}  {bars}")
        return lines

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON."""

        def plain(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            return {str(key): plain(value[key]) for key in sorted(value)}

        return {name: plain(value) for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> TokenReport:
        """Read what `as_json` wrote."""

        def lengths(counts: dict[str, int]) -> Counter[int]:
            return Counter({int(length): count for length, count in counts.items()})

        counters = {name: Counter[str](raw[name]) for name in raw if isinstance(raw[name], dict)}
        of_sources = {name: lengths(counts) for name, counts in raw["source_lengths"].items()}
        made = {"lengths": lengths(raw["lengths"]), "source_lengths": of_sources}
        return cls(**{**raw, **counters, **made})

    @property
    def rejected_share(self) -> float:
        """The share of the rows that are rejected, from 0 to 1, without duplicates."""
        return self._share(self.rejected - self.duplicates.total())

    def _share(self, rows: int) -> float:
        return rows / self.rows if self.rows else 0.0

    def length_buckets(self) -> list[tuple[int, int]]:
        """Count the examples by the upper bounds of their lengths, in order, without empty buckets.

        The bounds are powers of two. If fewer than four of them have examples, all buckets have the
        same width instead.

        >>> TokenReport(lengths=Counter({3: 2, 10: 1, 90: 1, 600: 5, 1000: 1})).length_buckets()
        [(4, 2), (16, 1), (128, 1), (1024, 6)]
        """
        powers: Counter[int] = Counter()
        for length, count in self.lengths.items():
            powers[1 << (length - 1).bit_length()] += count
        if len(powers) >= _FEW_BUCKETS or len(self.lengths) <= 1:
            return sorted(powers.items())
        width = 1
        while len({-(-length // width) for length in self.lengths}) > _BUCKETS:
            width *= 2
        equal: Counter[int] = Counter()
        for length, count in self.lengths.items():
            equal[-(-length // width) * width] += count
        return sorted(equal.items())

    def median_length(self) -> int:
        """Return the length of the example in the middle; of two, the shorter one."""
        return _median(self.lengths)

    def sorted_reasons(self) -> list[tuple[str, int]]:
        """List the reasons of rejected rows with their counts, the most frequent first."""
        return sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))

    def text(self) -> str:
        """Write the report for people; without examples, it has no tables."""
        forms = ", ".join(f"{count:,} {form}" for form, count in sorted(self.forms.items()))
        forms = f" ({forms})" if forms else ""
        share = f" ({_percent(self._share(self.rejected))})" if self.rejected else ""
        lines: list[str] = [
            f"{counted(self.rows, 'row')}{forms}, {self.rejected:,} rejected{share}",
        ]
        reasons = self.sorted_reasons()
        shown = len(reasons) if len(reasons) == _REASONS + 1 else _REASONS
        lines += (f"  {count:,} × {reason}" for reason, count in reasons[:shown])
        if len(reasons) > shown:
            rest = sum(count for _, count in reasons[shown:])
            more = counted(len(reasons) - shown, "other reason")
            lines.append(f"  {rest:,} × {more}; {REASONS_FILE} has all of them")
        if self.unread:
            lines.append(self.unread_files())
        examples, sequences = counted(self.examples, "example"), counted(self.sequences, "sequence")
        lines.append(f"{examples} in {sequences}" if self.examples else examples)
        if self.too_long:
            left_out = counted(self.too_long, "message")
            lines.append(f"{left_out} left out: too long for the context")
        if self.repeated:
            total = self.tokens.total()
            share, factor = _percent(self.repeated / total), total / (total - self.repeated)
            lines.append(
                f"{share} of the tokens are repeated ({factor:.1f} times the work): a row with "
                "reasoning in several turns has an example for each of them"
            )
            if self.shared:
                written = total - self.shared
                lines.append(
                    f"in one sequence a row, {written:,} of these {total:,} tokens are written "
                    f"({written / (total - self.repeated):.1f} times the work)"
                )
        lines += self._text_of_contents()
        if not self.examples:
            return "\n".join(lines)
        names = sorted(self.tokens, key=lambda name: (-self.tokens[name], name))
        rows = [(_label(name), self.tokens[name], self.trainable[name]) for name in names]
        rows.append(("sum", self.tokens.total(), self.trainable.total()))
        width = max(12, *(_display_width(label) + 1 for label, _, _ in rows))
        lines += ["", f"{'tokens':<{width}}{'all':>16}{'trainable':>16}"]
        for label, count, trainable in rows:
            padding = " " * (width - _display_width(label))
            lines.append(f"{label}{padding}{count:>16,}{trainable:>16,}")
        lines += self._text_of_sources()
        lines += ["", f"{'length':<12}{'examples':>16}"]
        buckets = self.length_buckets()
        most = max(count for _, count in buckets)
        for bound, count in buckets:
            bar = "█" * max(1, round(_BAR * count / most))
            lines.append(f"{f'≤ {bound:,}':<12}{count:>16,}  {bar}")
        longest = f"{max(self.lengths):,}"
        lines.append(f"median {self.median_length():,}, longest {longest} tokens")
        return "\n".join(lines)


def _median(lengths: Counter[int]) -> int:
    examples, total = 0, lengths.total()
    for length in sorted(lengths):
        examples += lengths[length]
        if 2 * examples >= total:
            return length
    return 0


def _in_buckets(lengths: Counter[int], bounds: Sequence[int]) -> list[int]:
    """Count lengths by the first of the bounds that is not less.

    >>> _in_buckets(Counter({3: 2, 4: 1, 5: 1}), [4, 8, 16])
    [3, 1, 0]
    """
    counts = [0] * len(bounds)
    for length, count in lengths.items():
        counts[bisect.bisect_left(bounds, length)] += count
    return counts


def counted(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def general_reason(problem: str) -> str:
    """Leave the names, the numbers and the remedy out of a problem, so that rows can share it.

    >>> general_reason("messages[3].role: expected text, found 7; write its name")
    'messages[…].role: expected text'
    """
    reason = problem.partition("; ")[0].partition(", found ")[0]
    return _VALUES.sub("…", reason)


def write_plot(report: TokenReport, path: Path, title: str) -> bool:
    """Draw tokens by channel, and examples by length, as SVG; return False without matplotlib.

    If there are several sources, a third part has the lengths of the largest ones, each as a share
    of the source's examples. Above them stand `title`, the name of the data set, and the counts of
    rows and examples.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter
    except ModuleNotFoundError:
        return False
    names = sorted(report.tokens, key=lambda name: (-report.tokens[name], name))
    rest, names = names[_BARS:], names[:_BARS]
    tokens = [report.tokens[name] for name in names]
    trainable = [report.trainable[name] for name in names]
    if rest:
        names.append(f"{len(rest):,} others")
        tokens.append(sum(report.tokens[name] for name in rest))
        trainable.append(sum(report.trainable[name] for name in rest))
    buckets = report.length_buckets()
    rows = max(len(names), len(buckets), 6)
    sources = report.largest_sources()[:_LINES] if len(report.source_rows) > 1 else []
    parts = 3 if sources and buckets else 2
    figure = Figure(figsize=(5 * parts, 1.4 + 0.3 * rows), layout="constrained")
    counts = f"{counted(report.rows, 'row')}, {counted(report.examples, 'example')}"
    # In matplotlib, two dollar signs have a formula between them.
    figure.suptitle(f"{_label(title)}: {counts}".replace("$", r"\$"), fontsize="medium")
    channels, lengths, *more = figure.subplots(1, parts)
    # By position, not by label: two names can be shortened to the same label.
    channels.barh(range(len(names)), tokens, color="#c8ccd0", label="all")
    channels.barh(range(len(names)), trainable, color="#2f6f9f", height=0.5, label="trainable")
    channels.set_yticks(range(len(names)), [_label(name).replace("$", r"\$") for name in names])
    channels.set_xlabel("tokens")
    if names:
        channels.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    lengths.barh(range(len(buckets)), [count for _, count in buckets], color="#2f6f9f")
    lengths.set_yticks(range(len(buckets)), [f"≤ {bound:,}" for bound, _ in buckets])
    lengths.set_ylabel("tokens of an example")
    lengths.set_xlabel("examples")
    for axes in more:
        bounds = [bound for bound, _ in buckets]
        lines: list[Any] = []
        for name in sources:
            by_bucket = _in_buckets(report.source_lengths[name], bounds)
            shares = [count / sum(by_bucket) for count in by_bucket]
            lines += axes.plot(shares, range(len(bounds)), marker="o", markersize=3)
        axes.set_yticks(range(len(bounds)), [f"≤ {bound:,}" for bound in bounds])
        axes.set_xlabel("share of the examples of a source")
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlim(left=0)
        axes.set_ylim(rows - 0.5, -0.5)
        # With the lines: matplotlib leaves out labels of lines that begin with "_".
        labels = [_label(name).replace("$", r"\$") for name in sources]
        axes.legend(lines, labels, frameon=False, fontsize="small")
    for axes in (channels, lengths):
        axes.set_ylim(rows - 0.5, -0.5)  # the first bar is at the top
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20M rather than 20000000
    # Without a date and with fixed ids, so that equal reports make equal files. The text stays
    # text: the reader's fonts may have characters that matplotlib's font lacks.
    with (
        mpl.rc_context({"svg.hashsalt": "harmony", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
        atomic_file(path) as temporary,
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    return True


def _percent(share: float) -> str:
    """Write a share that is not 0; none is rounded to 0% or, unless it is everything, to 100%.

    >>> _percent(0.29), _percent(0.00001), _percent(0.9999), _percent(1)
    ('29%', 'less than 0.1%', 'more than 99%', '100%')
    """
    if share < 0.001:
        return "less than 0.1%"
    if share < 0.1:
        return f"{100 * share:.1f}%"
    return "more than 99%" if 0.99 < share < 1 else f"{100 * share:.0f}%"


def _label(name: str, longest: int = _LABEL) -> str:
    """Shorten the name of a channel or a field, which may be any text, to a label of one line."""
    words = "".join(char if char.isprintable() else "?" for char in " ".join(name.split()))
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def _display_width(text: str) -> int:
    """Count the columns that a text takes on a terminal: two for a wide character."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
