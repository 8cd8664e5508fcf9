"""Time one engine's masks and compilations: ``python -m benchmarks.grammar_worker ours``.

``ours`` is `turn_grammar` under llguidance, ``xgrammar`` is `structural_tag` under xgrammar, which
needs that in the interpreter. Prints one JSON object: seconds of each token's mask by completion,
and seconds of each compilation by work.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from benchmarks.grammar_inputs import COMPLETIONS, tools
from gpt_oss_harmony import Conversation

RUNS = 5
"""How often each mask and each compilation is measured; one more run comes before, as a warm-up."""

COMPILED = {
    "12 tools": (12, True, RUNS),
    "128 tools": (128, True, RUNS),
    "12 tools, open objects": (12, False, 1),  # xgrammar takes ten seconds
}
"""Tools, whether their objects forbid further properties, and the runs."""


class Matching(Protocol):
    """What both engines can do."""

    def fill(self) -> object:
        """Compute the mask."""

    def accept(self, token: int) -> bool:
        """Take a token."""


class Engine(Protocol):
    """How an engine compiles what we write for it."""

    def write(self, conversation: Conversation) -> Any:
        """Write the grammar, or the tag."""

    def compile(self, written: Any) -> Callable[[], Matching]:
        """Compile it; return what makes matchers."""


class Ours:
    """`turn_grammar` under llguidance."""

    def __init__(self) -> None:
        from gpt_oss_harmony.grammar import Matcher, turn_grammar

        self.write = turn_grammar
        self._matcher = Matcher

    def compile(self, written: str) -> Callable[[], Matching]:
        """Compile, or find what was compiled."""
        matcher = self._matcher(written)

        class Copy:
            def __init__(self) -> None:
                twin = matcher.copy()
                self.fill = twin.bitmask
                self.accept = twin.accept

        return Copy


class Theirs:
    """`structural_tag` under xgrammar."""

    def __init__(self) -> None:
        sys.path.insert(
            0, str(Path(__file__).resolve().parent.parent / "scripts" / "structural_tag")
        )
        from engine import TagMatcher, compiler

        from gpt_oss_harmony.grammar import structural_tag

        self.write = structural_tag
        self._compiler = compiler(threads=2)
        self._matcher = TagMatcher

    def compile(self, written: dict[str, Any]) -> Callable[[], Matching]:
        """Compile, or find what was compiled."""
        compiled = self._compiler.compile_structural_tag(written)
        return lambda: self._matcher(compiled)


def masks(engine: Engine) -> dict[str, list[float]]:
    """Measure each token's mask: the median of the runs."""
    make = engine.compile(engine.write(tools(0, 12)))
    seconds: dict[str, list[float]] = {}
    for name, tokens in COMPLETIONS.items():
        runs = [along(make(), tokens) for _ in range(1 + RUNS)][1:]
        seconds[name] = [median(run[at] for run in runs) for at in range(len(tokens))]
    return seconds


def along(matcher: Matching, tokens: list[int]) -> list[float]:
    """Compute the mask before each token."""
    seconds = []
    for token in tokens:
        start = time.perf_counter()
        matcher.fill()
        seconds.append(time.perf_counter() - start)
        if not matcher.accept(token):
            raise AssertionError(f"a completion is no turn, at the token {len(seconds)}")
    return seconds


def compilations(engine: Engine) -> dict[str, dict[str, list[float]]]:
    """Measure writing and compiling, each time for tools that were never seen."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, (count, closed, runs) in COMPILED.items():
        found[name] = {"write": [], "compile": []}
        for run in range(1 + runs):
            conversation = tools(1000 * count + run, count, closed=closed)
            gc.collect()
            start = time.perf_counter()
            written = engine.write(conversation)
            middle = time.perf_counter()
            engine.compile(written)
            end = time.perf_counter()
            if run:
                found[name]["write"].append(middle - start)
                found[name]["compile"].append(end - middle)
    return found


def main(name: str) -> None:
    """Measure one engine."""
    engine: Engine = Ours() if name == "ours" else Theirs()
    gc.disable()
    print(json.dumps({"masks": masks(engine), "compilations": compilations(engine)}))


if __name__ == "__main__":
    main(sys.argv[1])
