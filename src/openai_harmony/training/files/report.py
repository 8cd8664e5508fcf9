"""Counts of the tokens of a data set, by channel and by length, as text and as a picture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...conversation.messages import Message, Role
from ..examples import TrainingExample
from .sources import atomic_file

__all__ = ["TokenReport", "general_reason", "write_plot"]

_BAR = 40  # characters of the longest bar
_REASONS = 8  # that are shown
_VALUES = re.compile(r"""(?<!\w)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d+""")


@dataclass
class TokenReport:
    """Counts, which can be added up.

    `tokens` and `trainable` are by channel for the assistant, else by role. `lengths` counts
    examples by their length, rounded up to a power of two. `too_long` counts messages that the
    context cannot hold. `reasons` counts rejected rows, by the reason without its names and
    numbers. `sequences` are the rows of the files: examples, or packed sequences.
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
        lines += ["", f"{'tokens':<12}{'in all':>16}{'trainable':>16}"]
        names = sorted(self.tokens, key=lambda name: (-self.tokens[name], name))
        rows = [(name, self.tokens[name], self.trainable[name]) for name in names]
        rows.append(("sum", self.tokens.total(), self.trainable.total()))
        lines += (f"{name:<12}{count:>16,}{trainable:>16,}" for name, count, trainable in rows)
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
    except ModuleNotFoundError:
        return False
    names = sorted(report.tokens, key=lambda name: (report.tokens[name], name))
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    channels, lengths = figure.subplots(1, 2)
    channels.barh(names, [report.tokens[name] for name in names], color="#c8ccd0", label="in all")
    channels.barh(
        names,
        [report.trainable[name] for name in names],
        color="#2f6f9f",
        height=0.5,
        label="trainable",
    )
    channels.set_xlabel("tokens")
    if names:
        channels.legend(frameon=False, loc="lower right")
    bounds = sorted(report.lengths)
    labels = [f"≤ {length:,}" for length in bounds]
    lengths.bar(labels, [report.lengths[length] for length in bounds], color="#2f6f9f")
    lengths.set_xlabel("tokens of an example")
    lengths.set_ylabel("examples")
    lengths.tick_params(axis="x", rotation=45)
    # Without a date and with fixed ids, so that equal reports make equal files.
    with (
        mpl.rc_context({"svg.hashsalt": "harmony", "svg.fonttype": "none"}),
        atomic_file(path) as temporary,
    ):
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    return True
