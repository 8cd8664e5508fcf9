"""Counts of the tokens of a data set, by channel and by length, as text and as a picture."""

from __future__ import annotations

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
from .sources import atomic_file

__all__ = ["TokenReport", "general_reason", "write_plot"]

_BAR = 40  # characters of the longest bar in text
_BARS = 20  # of channels in the picture
_LABEL = 28  # characters of the longest label
_REASONS = 8  # that are shown
_VALUES = re.compile(r"""(?<!\w)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w-])\d+""")


@dataclass
class TokenReport:
    """The counts of a data set; reports can be added.

    - `tokens`, `trainable`: the tokens by channel for the assistant, else by role.
    - `lengths`: the examples by their length, rounded up to a power of two.
    - `too_long`: the messages that do not fit into the context.
    - `reasons`: the rejected rows, by the reason without its names and numbers.
    - `sequences`: the rows of the files, which are examples or packed sequences.
    """

    rows: int = 0
    rejected: int = 0
    examples: int = 0
    sequences: int = 0
    too_long: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    trainable: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)

    def add_example(self, example: TrainingExample, messages: Sequence[Message]) -> None:
        """Count an example."""
        self.examples += 1
        self.lengths[1 << (len(example) - 1).bit_length()] += 1
        for part in example.messages:
            message = messages[part.message]
            if message.author.role is Role.ASSISTANT:
                name = message.channel or "no channel"
            else:
                name = str(message.author.role.value)
            self.tokens[name] += part.end - part.start
            if example.is_trainable(part):
                self.trainable[name] += part.end - part.sampled

    def add_rejected(self, problem: str) -> None:
        """Count a rejected row."""
        self.rejected += 1
        self.reasons[general_reason(problem)] += 1

    def add(self, other: TokenReport) -> None:
        """Add the counts of another report."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
            else:
                getattr(self, name).update(value)

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        return {
            name: value if isinstance(value, int) else {str(k): value[k] for k in sorted(value)}
            for name, value in vars(self).items()
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> TokenReport:
        """Read what `as_json` wrote."""
        lengths = {int(length): count for length, count in raw["lengths"].items()}
        names = ("reasons", "forms", "tokens", "trainable")
        counters = {name: Counter[str](raw[name]) for name in names}
        return cls(**{**raw, **counters, "lengths": Counter(lengths)})

    def text(self) -> str:
        """Write the report for people."""
        forms = ", ".join(f"{count:,} {form}" for form, count in sorted(self.forms.items()))
        lines: list[str] = [
            f"{self.rows:,} rows ({forms or 'none read'}), {self.rejected:,} rejected",
        ]
        reasons = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))
        lines += (f"  {count:,} × {reason}" for reason, count in reasons[:_REASONS])
        if len(reasons) > _REASONS:
            lines.append(f"  {sum(count for _, count in reasons[_REASONS:]):,} × other reasons")
        lines.append(f"{self.examples:,} examples in {self.sequences:,} sequences")
        if self.too_long:
            lines.append(f"{self.too_long:,} messages left out: too long for the context")
        names = sorted(self.tokens, key=lambda name: (-self.tokens[name], name))
        rows = [(_label(name), self.tokens[name], self.trainable[name]) for name in names]
        rows.append(("sum", self.tokens.total(), self.trainable.total()))
        width = max(12, *(_display_width(label) + 1 for label, _, _ in rows))
        lines += ["", f"{'tokens':<{width}}{'all':>16}{'trainable':>16}"]
        for label, count, trainable in rows:
            padding = " " * (width - _display_width(label))
            lines.append(f"{label}{padding}{count:>16,}{trainable:>16,}")
        lines += ["", f"{'length':<12}{'examples':>16}"]
        most = max(self.lengths.values(), default=1)
        for length, count in sorted(self.lengths.items()):
            bar = "█" * max(1, round(_BAR * count / most))
            lines.append(f"{f'≤ {length:,}':<12}{count:>16,}  {bar}")
        return "\n".join(lines)


def general_reason(problem: str) -> str:
    """Leave the names, the numbers and the remedy out of a problem, so that rows can share it.

    >>> general_reason("messages[3].role: expected text, found 7; write its name")
    'messages[…].role: expected text'
    """
    reason = problem.partition("; ")[0].partition(", found ")[0]
    return _VALUES.sub("…", reason)


def write_plot(report: TokenReport, path: Path) -> bool:
    """Draw tokens by channel, and examples by length, as SVG; return False without matplotlib."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter, MaxNLocator
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
    bounds = sorted(report.lengths)
    rows = max(len(names), len(bounds), 6)
    figure = Figure(figsize=(10, 1 + 0.3 * rows), layout="constrained")
    channels, lengths = figure.subplots(1, 2)
    # By position, not by label: two names can be shortened to the same label.
    channels.barh(range(len(names)), tokens, color="#c8ccd0", label="all")
    channels.barh(range(len(names)), trainable, color="#2f6f9f", height=0.5, label="trainable")
    channels.set_yticks(range(len(names)), [_label(name).replace("$", r"\$") for name in names])
    channels.set_xlabel("tokens")
    if names:
        channels.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    counts = [report.lengths[bound] for bound in bounds]
    lengths.barh(range(len(bounds)), counts, color="#2f6f9f")
    lengths.set_yticks(range(len(bounds)), [f"≤ {bound:,}" for bound in bounds])
    lengths.set_ylabel("tokens of an example")
    lengths.set_xlabel("examples")
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


def _label(name: str) -> str:
    """Shorten the name of a channel, which may be any text, to a label of one line."""
    words = " ".join(name.split())
    return words if len(words) <= _LABEL else f"{words[: _LABEL - 1]}…"


def _display_width(text: str) -> int:
    """Count the columns that a text takes on a terminal: two for a wide character."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
