"""Measure how the work for a schema grows with its size, and what real tools cost.

::

    python scripts/schemas/measure_growth.py [FOLDER]

For each shape of `tests/support/growing_schemas` it prints the seconds of processor time by the
number of parts; a cross means that the schema is refused. FOLDER holds a clone of
`jsonschemabench`: then real schemas are compiled as the tools of a turn, 16 together, by this
library and by llguidance alone.
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
from pathlib import Path
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
from gpt_oss_harmony.grammar.json_schema.formats import FORMATS  # noqa: E402
from support.growing_schemas import SHAPES  # noqa: E402

COUNTS = (10, 40, 160, 640)
TOOLS = 16
SOURCES = {"Glaiveai2K": 5, "Github_easy": 3, "Github_medium": 3}
"""Groups of schemas, and how many sets of each are compiled. The first are of functions."""

ROUNDS = 20


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
    rewriting: float
    rewriting_again: float  # with known formats
    engine: float


def tool_times(schemas: list[Any]) -> Times:
    """Return the best times of several rounds, each with empty caches."""
    options = TurnOptions(on_unsupported="loosen", tool_choice="required")
    conversation = with_tools(schemas)
    frame = turn_constraint(with_tools([{} for _ in schemas]), options).grammar
    approximate = {"coerce_one_of": True, "lenient": True}  # else llguidance refuses some
    rest = iter([{"x-guidance": approximate, **schema} for schema in schemas])
    alone = "\n".join(
        f"{line.partition('%json')[0]}%json {json.dumps(next(rest))}" if "%json" in line else line
        for line in frame.splitlines()
    )
    grammar = turn_constraint(conversation, options).grammar
    rounds: list[Times] = []
    for _ in range(ROUNDS):
        empty_caches()
        engines = [milliseconds(partial(Matcher, f"{text}\n")) for text in (alone, grammar)]
        rewriting = milliseconds(partial(turn_constraint, conversation, options))
        empty_caches()
        for name in FORMATS:
            enforceable_schema({"type": "string", "format": name})
        again = milliseconds(partial(turn_constraint, conversation, options))
        rounds.append(Times(engines[0], rewriting, again, engines[1]))
    return Times(*map(min, zip(*rounds, strict=True)))


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
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            module = getattr(one, "__module__", "")
            if module.startswith("gpt_oss_harmony.grammar") and "token_table" not in module:
                one.cache_clear()


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.name.encode()).digest()


def real_tools(folder: Path) -> Iterator[str]:
    """Yield the rows of the comparison with llguidance alone."""
    data = folder / "jsonschemabench" / "maskbench" / "data"
    heads = ("llguidance alone", "our rewriting", "with known formats", "our grammar in llguidance")
    yield f"| {TOOLS} schemas of | {' | '.join(heads)} | together | with known formats |"
    yield f"|---|{'--:|' * (len(heads) + 2)}"
    for source, sets in SOURCES.items():
        names = sorted(data.glob(f"{source}---*.json"), key=_digest)[: sets * TOOLS]
        for at in range(sets):
            paths = names[at * TOOLS : (at + 1) * TOOLS]
            schemas = [json.loads(path.read_text(encoding="utf-8"))["schema"] for path in paths]
            times = tool_times(schemas)
            ratios = [
                f"{(work + times.engine) / times.alone:.2f}×"
                for work in (times.rewriting, times.rewriting_again)
            ]
            cells = [*(f"{time:.1f} ms" for time in times), *ratios]
            yield f"| {source}, set {at + 1} | {' | '.join(cells)} |"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    options = parser.parse_args()
    for line in growth():
        print(line)
    for line in real_tools(options.folder) if options.folder else ():
        print(line)


if __name__ == "__main__":
    main()
