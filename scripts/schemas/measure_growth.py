"""Measure how the work for a schema grows with its size, and what real tools cost.

::

    python scripts/schemas/measure_growth.py [FOLDER]

For each shape of `tests/support/growing_schemas` it prints the seconds of processor time by the
number of parts; a cross means that the schema is refused. FOLDER holds a clone of
`jsonschemabench`: then real schemas are compiled as the tools of a turn, 1, 16 and 128 together, by
this library and by llguidance alone.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from gpt_oss_harmony import (  # noqa: E402
    Conversation,
    DeveloperContent,
    Message,
    Role,
    ToolDescription,
)
from gpt_oss_harmony.grammar import (  # noqa: E402
    GrammarError,
    Matcher,
    TurnOptions,
    enforceable_schema,
    matcher,
    turn,
    turn_constraint,
)
from gpt_oss_harmony.grammar.engine_trial import try_schema  # noqa: E402
from support.growing_schemas import SHAPES  # noqa: E402

COUNTS = (10, 40, 160, 640)
SOURCES = ("Glaiveai2K", "Github_easy", "Github_medium")
"""Groups of schemas. The first are of functions."""

SETS = {1: 48, 16: 12, 128: 1}
"""How many sets of each size are compiled."""

ROUNDS = 3
OPTIONS = TurnOptions(on_unsupported="loosen", tool_choice="required")


def growth() -> Iterator[str]:
    """Yield the rows of the table of shapes."""
    try_schema("{}")  # loads the table of tokens
    heads = [f"{count}" for count in COUNTS]
    yield f"| Parts | {' | '.join(heads)} |"
    yield f"|---|{'--:|' * len(heads)}"
    for name, shape in SHAPES.items():
        cells = []
        for count in COUNTS:
            before, mark = process_time(), ""
            try:
                enforceable_schema(shape(count))
            except GrammarError:
                mark = " ×"
            cells.append(f"{process_time() - before:.2f} s{mark}")
        yield f"| {name} | {' | '.join(cells)} |"


class Times(NamedTuple):
    """Milliseconds of processor time to compile the tools of a turn."""

    alone: float
    rewriting: float  # with the engine, where the grammar is so long that it is tried
    engine: float
    again: float  # in another conversation, with all the schemas in another order

    @property
    def together(self) -> float:
        """The time for schemas that the process has not seen."""
        return self.rewriting + self.engine


def tool_times(schemas: list[Any]) -> Times:
    """Return the best times of several rounds, each with empty caches."""
    options = OPTIONS
    conversation, other = with_tools(schemas), with_tools([*schemas[1:], schemas[0]])
    alone = alone_grammar(schemas)
    rounds: list[Times] = []
    for _ in range(ROUNDS):
        empty_caches()
        engine_alone = milliseconds(partial(Matcher, alone))
        rewriting = milliseconds(partial(turn_constraint, conversation, options))
        grammar = turn_constraint(conversation, options).grammar
        engine = milliseconds(partial(Matcher, grammar))
        matcher._compiled.set_limit(matcher._compiled._limit)
        again = milliseconds(lambda: Matcher(turn_constraint(other, options).grammar))
        rounds.append(Times(engine_alone, rewriting, engine, again))
    return Times(*map(min, zip(*rounds, strict=True)))


def alone_grammar(schemas: list[Any]) -> str:
    """Return the grammar of a turn with the schemas as they are."""
    frame = turn_constraint(with_tools([{} for _ in schemas]), OPTIONS).grammar
    approximate = {"coerce_one_of": True, "lenient": True}  # else llguidance refuses some
    rest = iter([{"x-guidance": approximate, **schema} for schema in schemas])
    lines = [
        f"{line.partition('%json')[0]}%json {json.dumps(next(rest))}" if "%json" in line else line
        for line in frame.splitlines()
    ]
    return "\n".join([*lines, ""])


def schemas_of(paths: list[Path]) -> Iterator[Any]:
    """Yield the schemas that llguidance alone can compile."""
    for path in paths:
        schema = json.loads(path.read_text(encoding="utf-8"))["schema"]
        try:
            Matcher(alone_grammar([schema]))
        except GrammarError:
            continue
        yield schema


def with_tools(schemas: list[Any]) -> Conversation:
    declared = [ToolDescription.new(f"f{at}", "", schema) for at, schema in enumerate(schemas)]
    content = DeveloperContent.new().with_function_tools(declared)
    return Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, content)])


def milliseconds(work: Callable[[], object]) -> float:
    before = process_time()
    work()
    return 1000 * (process_time() - before)


def empty_caches() -> None:
    """Empty the caches of the grammar, but keep the table of tokens."""
    for cache in (matcher._compiled, turn._written):
        cache.set_limit(cache._limit)
    for function in _cached_functions():
        function.cache_clear()


@functools.cache
def _cached_functions() -> list[Any]:
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, functools._lru_cache_wrapper)
        and one.__module__.startswith("gpt_oss_harmony.grammar")
        and not one.__module__.endswith("token_table")
    ]


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.name.encode()).digest()


def real_tools(folder: Path) -> Iterator[str]:
    """Yield the rows of the comparison with llguidance alone."""
    data = folder / "jsonschemabench" / "maskbench" / "data"
    heads = ("Sets", "llguidance alone", "rewriting", "the engine", "slowest, together")
    yield f"| {' | '.join(heads)} | unseen | p95 | seen | p95 |"
    yield f"|---|{'--:|' * (len(heads) + 3)}"
    for size, sets in SETS.items():
        for source in SOURCES:
            paths = sorted(data.glob(f"{source}---*.json"), key=_digest)
            schemas = list(islice(schemas_of(paths), sets * size))
            times = [tool_times(schemas[at * size : (at + 1) * size]) for at in range(sets)]
            cells = [
                *(f"{median(one):.1f} ms" for one in list(zip(*times, strict=True))[:3]),
                f"{max(one.together for one in times):.0f} ms",
            ]
            for ratios in (
                sorted(one.together / one.alone for one in times),
                sorted(one.again / one.alone for one in times),
            ):
                cells += [f"{median(ratios):.2f}×", f"{ratios[int(0.95 * len(ratios))]:.2f}×"]
            yield f"| {sets} of {size} of {source} | {' | '.join(cells)} |"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    options = parser.parse_args()
    for line in growth():
        print(line)
    for line in real_tools(options.folder) if options.folder else ():
        print(line, flush=True)


if __name__ == "__main__":
    main()
