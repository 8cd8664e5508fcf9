"""Run our structural tag through xgrammar, beside our grammar: ``make xgrammar``.

Prints which turns both accept and refuse alike, and which known differences remain. The exit status
is 1 where a difference is new, or is gone. ``make schemas`` compares schemas.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Any

from engine import TagMatcher, compiler
from turn_cases import DIFFERENCES, ENCODING, WHOLE, Case, cases

from gpt_oss_harmony.grammar import Matcher, structural_tag, turn_grammar
from gpt_oss_harmony.tokens.special_tokens import CALL, END_OF_TEXT, RETURN


def main() -> int:
    """Check, and print the problems."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # xgrammar warns of much that is tried here
    problems = turn_problems()
    for problem in problems:
        print("PROBLEM", problem)
    return 1 if problems else 0


def turn_problems() -> list[str]:
    """Compare turns; return the differences that are new, and those that are gone."""
    problems: list[str] = []
    found: Counter[str] = Counter()
    compile_tag = compiler(threads=2).compile_structural_tag
    for item in cases():
        ours = outcome(Matcher(turn_grammar(item.chat, item.options)), item)
        tag = compile_tag(structural_tag(item.chat, item.options))
        theirs = outcome(TagMatcher(tag), item)
        name = item.difference if ours != theirs else ""
        found[name] += 1
        if (ours != theirs) != bool(item.difference):
            text = ENCODING.decode(list(item.tokens))
            kind = "is gone" if item.difference else "is new"
            problems.append(f"a difference {kind}: {text!r}: ours {ours}, xgrammar {theirs}")
    problems += missing_turns()
    print(f"{found.pop('')} turns: both alike")
    for name, text in DIFFERENCES.items():
        print(f"{found[name]} turns: {name}: {text}")
        if not found[name]:
            problems.append(f"no turn shows {name}")
    return problems


def outcome(matcher: Any, item: Case) -> tuple[int, bool]:
    """How many tokens are taken, and whether that is the turn."""
    return matcher.accept_all(item.tokens), matcher.is_finished


def missing_turns() -> list[str]:
    """Whole turns must be accepted, whatever the engine's stop tokens are."""
    problems = []
    for stops in ([RETURN], [END_OF_TEXT], [RETURN, CALL, END_OF_TEXT]):
        compile_tag = compiler(threads=2, stop_tokens=stops).compile_structural_tag
        for item in WHOLE:
            matcher = TagMatcher(compile_tag(structural_tag(item.chat, item.options)))
            if matcher.accept_all(item.tokens) < len(item.tokens) or not matcher.is_whole:
                text = ENCODING.decode(list(item.tokens))
                problems.append(f"not accepted, with the stop tokens {stops}: {text!r}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
