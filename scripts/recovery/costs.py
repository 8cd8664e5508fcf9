"""Measure the costs of the reader of damaged headers, or fit them.

    python scripts/recovery/costs.py [--fit LEVELS ...]

The measure is the number of damaged turns that are read as meant: the conformance kit's cases, in
two halves, and turns that `damage` generates. `--fit 0.3 1 3` forgets the costs by hand: every edit
begins with the middle level, and gets the level with which most of the first half and of other
generated turns are read as meant. The second half, which the fit has not seen, shows what the
costs are worth.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from damage import TOOLS, Damaged, damaged_turn

from gpt_oss_harmony import Message, Role, load_harmony_encoding
from gpt_oss_harmony.parsing import least_cost
from gpt_oss_harmony.parsing.edits import COST, Edit

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "packages/conformance/gpt_oss_harmony_conformance/cases/recovery.json"
ENCODING = load_harmony_encoding("HarmonyGptOss")
SEEDS = {"fit": 7, "test": 1}


class Turn:
    """A damaged turn and its meaning."""

    def __init__(self, tokens: list[int], tools: Sequence[str]) -> None:
        self.tokens = tokens
        self.tools = tools

    def messages(self) -> list[Message]:
        """Read the turn with the costs in use."""
        least_cost._read_header.cache_clear()
        return ENCODING.parse_messages_from_completion_tokens(
            self.tokens, Role.ASSISTANT, strict=False, tools=self.tools
        )

    def is_read_as_meant(self) -> bool:
        """Whether the turn is read as meant."""
        raise NotImplementedError

    @cached_property
    def edits(self) -> frozenset[Edit]:
        """The edits in all readings of the turn: other costs make no difference to it."""
        found: set[Edit] = set()
        having = least_cost._Path.having

        def noting(path: Any, edit: Edit, *rest: Any, **fields: Any) -> Any:
            found.add(edit)
            return having(path, edit, *rest, **fields)

        with patch.object(least_cost._Path, "having", noting):
            self.messages()
        return frozenset(found)


class KitCase(Turn):
    """A case of the conformance kit."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__(case["input"]["tokens"], case["input"]["tools"])
        self.meant = [Message.from_dict(message) for message in case["expected"]["messages"]]

    def is_read_as_meant(self) -> bool:
        """Whether all messages are those of the case."""
        return self.messages() == self.meant


class Generated(Turn):
    """A turn that `damage` generates."""

    def __init__(self, turn: Damaged) -> None:
        super().__init__(ENCODING.encode(turn.text, allowed_special="all"), TOOLS)
        self.turn = turn

    def result(self) -> str:
        """Compare what is read with what was meant; the worst comes first."""
        meant, messages = self.turn.meant, self.messages()
        if tuple((m.channel, m.recipient, m.text) for m in messages) == meant:
            return "as meant"
        calls = {message.recipient for message in messages} - {None, "assistant"}
        if calls - {message.recipient for message in meant}:
            return "another call"
        answers = {message.text for message in meant if message.channel == "final"}
        shown = {m.text for m in messages if m.channel == "final" and not m.recipient} - {""}
        return "reasoning shown" if shown and not answers else "another reading"

    def is_read_as_meant(self) -> bool:
        """Whether the turn has the meant channels, recipients and texts."""
        return self.result() == "as meant"


def halves() -> tuple[list[Turn], list[Turn]]:
    """Split the kit's cases by the hash of their names."""
    found: tuple[list[Turn], list[Turn]] = ([], [])
    for case in json.loads(CASES.read_text(encoding="utf-8"))["cases"]:
        found[hashlib.sha256(case["id"].encode()).digest()[0] & 1].append(KitCase(case))
    return found


def generated(count: int, use: str) -> list[Generated]:
    """Generate damaged turns; those to test with differ from those to fit with."""
    random = Random(SEEDS[use])
    return [Generated(damaged_turn(random)) for _ in range(count)]


def right(turns: Iterable[Turn]) -> int:
    """Count the turns that are read as meant."""
    return sum(turn.is_read_as_meant() for turn in turns)


def fit(turns: Sequence[Turn], levels: Sequence[float]) -> None:
    """Give each edit the level with which most turns are read as meant, until none changes."""
    COST.update(dict.fromkeys(Edit, sorted(levels)[len(levels) // 2]))
    of_edit = defaultdict(list)
    for turn in turns:
        for edit in turn.edits:
            of_edit[edit].append(turn)
    changed = True
    while changed:
        changed = False
        for edit, affected in of_edit.items():
            counts = {COST[edit]: right(affected)}  # the first of equal ones is kept
            for level in levels:
                COST[edit] = level
                counts.setdefault(level, right(affected))
            best = max(counts, key=counts.__getitem__)
            changed |= counts[best] > next(iter(counts.values()))
            COST[edit] = best


def main() -> None:
    """Print the counts."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--fit", type=float, nargs="+", metavar="LEVEL")
    options.add_argument("--generated", type=int, default=3000)
    options.add_argument("--to-fit", type=int, default=1000, help="generated turns to fit with")
    chosen = options.parse_args()
    first, second = halves()
    if chosen.fit:
        fit([*first, *generated(chosen.to_fit, "fit")], chosen.fit)
        print(json.dumps({edit.name: COST[edit] for edit in Edit}))
    print(f"first half: {right(first)} of {len(first)}")
    print(f"second half: {right(second)} of {len(second)}")
    turns = generated(chosen.generated, "test")
    results = [turn.result() for turn in turns]
    print(f"generated: {dict(Counter(results))} of {len(turns)}")
    of_damage: dict[str, Counter[bool]] = defaultdict(Counter)
    for turn, result in zip(turns, results, strict=True):
        for name in turn.turn.damage:
            of_damage[name][result == "as meant"] += 1
    for name, counted in sorted(of_damage.items()):
        print(f"  {name}: {counted[True]} of {counted.total()}")


if __name__ == "__main__":
    main()
