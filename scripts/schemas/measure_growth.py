"""Measure how the work for a schema grows with its size, and what real tools cost.

::

    python scripts/schemas/measure_growth.py [FOLDER]

For each shape of `tests/support/growing_schemas` it prints the seconds of processor time by the
number of parts; a cross means that the schema is refused. FOLDER holds a clone of
`jsonschemabench`: then schemas of real functions are compiled, 16 together, by this library and by
llguidance alone, each in a fresh process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

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
    turn_constraint,
)
from gpt_oss_harmony.grammar.engine_trial import try_schema  # noqa: E402
from support.growing_schemas import SHAPES  # noqa: E402

COUNTS = (10, 40, 160, 640)
TOOLS = 16


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


def seconds(schemas: list[Any], engine: str) -> float:
    """Return the processor time to compile schemas as tools of a turn, in this process."""
    Matcher('start: "a"')  # loads the table of tokens
    declared = [ToolDescription.new(f"f{at}", "", schema) for at, schema in enumerate(schemas)]
    developer = Message.from_role_and_content(
        Role.DEVELOPER, DeveloperContent.new().with_function_tools(declared)
    )
    options = TurnOptions(on_unsupported="loosen", tool_choice="required")
    conversation = Conversation.from_messages([developer])
    if engine == "llguidance":
        objects = [ToolDescription.new(f"f{at}", "", {}) for at in range(len(schemas))]
        empty = DeveloperContent.new().with_function_tools(objects)
        turn = [Message.from_role_and_content(Role.DEVELOPER, empty)]
        lines = turn_constraint(Conversation.from_messages(turn), options).grammar.splitlines()
        approximate = {"coerce_one_of": True, "lenient": True}  # else it refuses some
        rest = ({"x-guidance": approximate, **schema} for schema in schemas)
        grammar = "\n".join(
            f"{line.partition('%json')[0]}%json {json.dumps(next(rest))}"
            if "%json" in line
            else line
            for line in lines
        )
        before = process_time()
    else:
        before = process_time()
        grammar = turn_constraint(conversation, options).grammar
    Matcher(f"{grammar}\n")
    return process_time() - before


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.name.encode()).digest()


def real_tools(folder: Path) -> Iterator[str]:
    """Yield the comparison with llguidance alone."""
    data = folder / "jsonschemabench" / "maskbench" / "data"
    names = sorted(data.glob("Glaiveai2K---*.json"), key=_digest)[: 5 * TOOLS]
    sets = [names[start : start + TOOLS] for start in range(0, len(names), TOOLS)]
    for engine in ("llguidance", "ours"):
        times = []
        for paths in sets:
            command = [sys.executable, __file__, "--compile", engine, *map(str, paths)]
            times.append(float(subprocess.run(command, check=True, capture_output=True).stdout))
        shown = ", ".join(f"{1000 * time:.1f}" for time in times)
        yield f"{TOOLS} real tools, {engine}: median {1000 * median(times):.1f} ms ({shown})"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--compile", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        engine, *paths = options.compile
        schemas = [json.loads(Path(path).read_text(encoding="utf-8"))["schema"] for path in paths]
        print(seconds(schemas, engine))
        return
    for line in growth():
        print(line)
    for line in real_tools(options.folder) if options.folder else ():
        print(line)


if __name__ == "__main__":
    main()
