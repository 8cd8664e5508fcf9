"""What the tokens of a data set are: by channel, by length, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...conversation.messages import Message, Role
from ..example import TrainingExample

__all__ = ["TokenReport"]

_BAR = 40  # characters of the longest bar


@dataclass
class TokenReport:
    """Counts, which can be added up.

    `tokens` and `learned` are by channel for the assistant, else by role. `lengths` counts examples
    by the power of two that they have at most. `too_long` counts messages that the context cannot
    hold. `sequences` are the rows of the files: examples, or packed sequences of them.
    """

    rows: int = 0
    rejected: int = 0
    examples: int = 0
    sequences: int = 0
    too_long: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    learned: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)

    def add_example(self, example: TrainingExample, messages: Sequence[Message]) -> None:
        """Count an example."""
        self.examples += 1
        self.lengths[1 << (len(example) - 1).bit_length()] += 1
        for one in example.messages:
            at, start, first, _, end, _ = one
            name = _name(messages[at])
            self.tokens[name] += end - start
            if example.learns(one):
                self.learned[name] += end - first

    def add(self, other: TokenReport) -> None:
        """Add what another report counted."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
            else:
                getattr(self, name).update(value)

    def as_json(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            name: value if isinstance(value, int) else {str(k): value[k] for k in sorted(value)}
            for name, value in vars(self).items()
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> TokenReport:
        """Read what `as_json` wrote."""
        lengths = {int(length): count for length, count in raw["lengths"].items()}
        names = ("forms", "tokens", "learned")
        counters = {name: Counter[str](raw[name]) for name in names}
        return cls(**{**raw, **counters, "lengths": Counter(lengths)})

    def text(self) -> str:
        """Write the report for people."""
        forms = ", ".join(f"{count:,} {form}" for form, count in sorted(self.forms.items()))
        lines: list[str] = [
            f"{self.rows:,} rows ({forms or 'none read'}), {self.rejected:,} rejected",
            f"{self.examples:,} examples in {self.sequences:,} sequences",
        ]
        if self.too_long:
            lines.append(f"{self.too_long:,} messages not learned: too long for the context")
        lines += ["", f"{'tokens':<12}{'in all':>16}{'learned':>16}"]
        names = sorted(self.tokens, key=lambda name: (-self.tokens[name], name))
        rows = [(name, self.tokens[name], self.learned[name]) for name in names]
        rows.append(("sum", self.tokens.total(), self.learned.total()))
        lines += (f"{name:<12}{count:>16,}{learned:>16,}" for name, count, learned in rows)
        lines += ["", f"{'length':<12}{'examples':>16}", *_bars(sorted(self.lengths.items()))]
        return "\n".join(lines)


def _bars(lengths: Iterable[tuple[int, int]]) -> list[str]:
    known = list(lengths)
    most = max((count for _, count in known), default=1)
    return [
        f"{f'≤ {length:,}':<12}{count:>16,}  {'█' * max(1, round(_BAR * count / most))}"
        for length, count in known
    ]


def _name(message: Message) -> str:
    if message.author.role is Role.ASSISTANT:
        return message.channel or "no channel"
    return str(message.author.role.value)
