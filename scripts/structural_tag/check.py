"""Run our structural tag through xgrammar, beside our grammar: ``make xgrammar``.

Prints which turns both accept and refuse alike, which known differences remain, and how much of
JSON Schema each enforces; ``--update-docs`` writes the last into docs/schema-enforcement.md. The
exit status is 1 where a difference is new, or is gone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from engine import TagMatcher, compiler
from schema_scores import ENGINES, Score, score
from turn_cases import DIFFERENCES, ENCODING, WHOLE, Case, cases

from openai_harmony.grammar import Matcher, structural_tag, turn_grammar
from openai_harmony.tokens.special_tokens import CALL, END_OF_TEXT, RETURN

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "schema-enforcement.md"
START, END = "<!-- scores -->\n", "<!-- /scores -->"


def main() -> int:
    """Check, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update-docs", action="store_true", help="write the table, too")
    update = parser.parse_args().update_docs
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # xgrammar warns of much that is tried here
    problems = turn_problems()
    table = scores_table()
    print(table)
    if update:
        update_page(table)
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


def scores_table() -> str:
    """Score the engines on JSON Schema."""
    scores = {name: score(compile_schema) for name, compile_schema in ENGINES.items()}
    rows: dict[str, list[str]] = {
        "schemas refused with an error": [
            f"{one.schemas - one.compiled} of {one.schemas}" for one in scores.values()
        ],
        "schemas enforced exactly": [str(one.exact) for one in scores.values()],
        "schemas of which an invalid text is allowed": [
            str(one.too_open) for one in scores.values()
        ],
        "schemas of which a valid text is forbidden": [
            str(one.too_strict) for one in scores.values()
        ],
        "invalid texts allowed": [share(one, "invalid_accepted") for one in scores.values()],
        "valid texts forbidden": [share(one, "valid_refused") for one in scores.values()],
    }
    lines = [["", *scores], ["---", *["--:"] * len(scores)]]
    lines += [[name, *cells] for name, cells in rows.items()]
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("xgrammar", "llguidance")
    )
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table}\n\nMeasured with {versions}."


def share(one: Score, part: str) -> str:
    """A count of texts, and of how many."""
    whole = one.invalid if part == "invalid_accepted" else one.valid
    return f"{getattr(one, part)} of {whole:,}"


def update_page(table: str) -> None:
    """Write the table between its markers."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{START}\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
