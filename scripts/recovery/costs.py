"""Check the costs of the reader of damaged headers, or fit them.

`python scripts/recovery/costs.py` counts the damaged turns that are read as meant: both halves of
the conformance kit's cases, and turns that `damage` generates. `--fit` starts with the same cost
for every edit and fits on one half of the cases; the other half shows what the fit is worth.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from damage import TOOLS, damaged_turn

from gpt_oss_harmony import Message, Role, load_harmony_encoding
from gpt_oss_harmony.parsing import least_cost
from gpt_oss_harmony.parsing.edits import COST, Edit

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "packages/conformance/gpt_oss_harmony_conformance/cases/recovery.json"
ENCODING = load_harmony_encoding("HarmonyGptOss")
FACTORS = (0.1, 0.3, 0.6, 1.5, 3.0, 6.0)


def parsed(tokens: list[int], tools: list[str] | tuple[str, ...]) -> list[Message]:
    """Read a completion with the costs in use."""
    least_cost._read_header.cache_clear()
    return ENCODING.parse_messages_from_completion_tokens(
        tokens, Role.ASSISTANT, strict=False, tools=tools
    )


def halves() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split the kit's cases by the hash of their names."""
    found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for case in json.loads(CASES.read_text(encoding="utf-8"))["cases"]:
        found[hashlib.sha256(case["id"].encode()).digest()[0] & 1].append(case)
    return found


def read_as_meant(cases: list[dict[str, Any]]) -> int:
    """Count the cases that are read as meant."""
    right = 0
    for case in cases:
        messages = parsed(case["input"]["tokens"], case["input"]["tools"])
        right += messages == [Message.from_dict(m) for m in case["expected"]["messages"]]
    return right


def fit(cases: list[dict[str, Any]], rounds: int) -> None:
    """Change one cost at a time, as long as more cases are read as meant."""
    best = read_as_meant(cases)
    for _ in range(rounds):
        before = best
        for edit in Edit:
            old = COST[edit]
            for factor in FACTORS:
                COST[edit] = old * factor
                if (now := read_as_meant(cases)) > best:
                    best, old = now, COST[edit]
            COST[edit] = old
        if best == before:
            return


def generated(count: int, seed: int) -> None:
    """Count the generated turns that are read as meant, and what the others became."""
    random = Random(seed)
    results: Counter[str] = Counter()
    by_damage: dict[str, Counter[bool]] = {}
    for _ in range(count):
        turn = damaged_turn(random)
        messages = parsed(ENCODING.encode(turn.text, allowed_special="all"), TOOLS)
        channel, recipient, _ = turn.meant
        calls = {message.recipient for message in messages} - {None, "assistant"}
        shown = [m.text for m in messages if m.channel == "final" and not m.recipient]
        if [(m.channel, m.recipient, m.text) for m in messages] == [turn.meant]:
            result = "as meant"
        elif calls - {recipient}:
            result = "another call"
        elif channel == "analysis" and any(shown):
            result = "reasoning shown"
        else:
            result = "another reading"
        results[result] += 1
        for name in turn.damage:
            by_damage.setdefault(name, Counter())[result == "as meant"] += 1
    print(f"generated: {dict(results)} of {count}")
    for name, counted in sorted(by_damage.items()):
        print(f"  {name}: {counted[True]} of {counted.total()}")


def main() -> None:
    """Print the counts."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--fit", type=int, metavar="ROUNDS", default=0)
    options.add_argument("--generated", type=int, default=3000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    first, second = halves()
    if chosen.fit:
        COST.update(dict.fromkeys(Edit, 1.0))
        print(f"equal costs: {read_as_meant(first)} of {len(first)} in the half to fit on,")
        print(f"  {read_as_meant(second)} of {len(second)} in the other half")
        fit(first, chosen.fit)
        changed = {edit.name: round(COST[edit], 2) for edit in Edit if COST[edit] != 1.0}
        print(f"fitted costs: {json.dumps(changed)}")
    print(f"the half to fit on: {read_as_meant(first)} of {len(first)}")
    print(f"the other half: {read_as_meant(second)} of {len(second)}")
    generated(chosen.generated, chosen.seed)


if __name__ == "__main__":
    main()
