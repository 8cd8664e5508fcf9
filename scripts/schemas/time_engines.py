"""Time engines of JSON Schema by the processor, from a schema to the mask of the first token.

::

    python scripts/schemas/time_engines.py FOLDER [--schemas 24] [--seconds 10] [--write]

Each engine has the vocabulary of harmony, with 200,000 tokens, and a process of its own. FOLDER
holds a clone of `jsonschemabench`. A schema that takes more than the given seconds is counted with
them. With ``--write`` the table goes into ``docs/reference/json-schema.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from typing import Any, TypeAlias

from schema_engines import EngineProcess, EngineStopped, EngineTooSlow
from score_suites import PAGE

START, END = "<!-- engine times -->", "<!-- /engine times -->"
GROUPS = {"functions": ("Glaiveai2K",), "real schemas": ("Github_easy", "Github_medium")}
FirstMask: TypeAlias = Callable[[str], object]


def ours() -> FirstMask:
    from gpt_oss_harmony.grammar import enforceable_schema
    from gpt_oss_harmony.grammar.json_schema import JSON_OPTIONS

    first_mask = llguidance()

    def compiled(text: str) -> object:
        enforced = enforceable_schema(json.loads(text))
        plain = enforced if isinstance(enforced, dict) else {}
        return first_mask(json.dumps({**plain, "x-guidance": JSON_OPTIONS}))

    return compiled


def llguidance() -> FirstMask:
    from llguidance import LLMatcher

    from gpt_oss_harmony.grammar.token_table import token_table

    table = token_table()

    def first_mask(text: str) -> object:
        matcher = LLMatcher(table, LLMatcher.grammar_from_json_schema(text), log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher.compute_bitmask()

    return first_mask


def xgrammar() -> FirstMask:
    import xgrammar  # type: ignore[import-not-found,unused-ignore]

    from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

    tokens = [*load_vocabulary(), b"</s>"]
    information = xgrammar.TokenizerInfo(tokens, stop_token_ids=len(tokens) - 1)
    compiler = xgrammar.GrammarCompiler(information, max_threads=1, cache_enabled=False)
    mask = xgrammar.allocate_token_bitmask(1, len(tokens))

    def first_mask(text: str) -> object:
        compiled = compiler.compile_json_schema(text, strict_mode=False)
        return xgrammar.GrammarMatcher(compiled).fill_next_token_bitmask(mask)

    return first_mask


def outlines() -> FirstMask:
    from outlines_core import (  # type: ignore[import-not-found,unused-ignore]
        Index,
        Vocabulary,
        json_schema,
    )

    from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

    ids = {text: [token] for token, text in enumerate(load_vocabulary())}
    vocabulary = Vocabulary(len(ids), ids)

    def first_mask(text: str) -> object:
        index = Index(json_schema.build_regex_from_schema(text), vocabulary)
        return index.get_allowed_tokens(index.get_initial_state())

    return first_mask


def lm_format_enforcer() -> FirstMask:
    from lmformatenforcer import (  # type: ignore[import-not-found,unused-ignore]
        JsonSchemaParser,
        TokenEnforcer,
        TokenEnforcerTokenizerData,
    )

    from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

    texts = [text.decode("utf-8", "replace") for text in load_vocabulary()]
    tokens = [(token, text, text.startswith(" ")) for token, text in enumerate(texts)]
    data = TokenEnforcerTokenizerData(
        tokens,
        lambda ids: "".join(texts[token] for token in ids),
        len(texts),
        False,
        len(texts) + 1,
    )

    def first_mask(text: str) -> object:
        return TokenEnforcer(data, JsonSchemaParser(json.loads(text))).get_allowed_tokens([])

    return first_mask


ENGINES: dict[str, tuple[str, Callable[[], FirstMask]]] = {
    "ours": ("llguidance", ours),
    "llguidance alone": ("llguidance", llguidance),
    "xgrammar": ("xgrammar", xgrammar),
    "outlines-core": ("outlines-core", outlines),
    "lm-format-enforcer": ("lm-format-enforcer", lm_format_enforcer),
}


def serve(connection: Connection, name: str) -> None:
    """Answer each schema with the seconds of processor time, or with why it is refused."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    first_mask = ENGINES[name][1]()
    connection.send(None)
    while True:
        text = connection.recv()
        before = process_time()
        try:
            first_mask(text)
        except Exception as error:  # noqa: BLE001 - engines refuse in many ways
            found: float | str = f"{type(error).__name__}: {error}"[:200]
        else:
            found = process_time() - before
        connection.send(found)


def timed(engine: EngineProcess, schema: Any, seconds: float) -> float | str:
    """Return the seconds of a schema, at most those that are allowed, or why it is refused."""
    try:
        found: float | str = engine.ask(json.dumps(schema))
    except EngineTooSlow:
        return seconds
    except EngineStopped as stopped:
        return f"{stopped}"
    return found


def schemas_of(folder: Path, sources: tuple[str, ...], count: int) -> list[Any]:
    """Draw schemas by the digests of their names."""
    data = folder / "jsonschemabench" / "maskbench" / "data"
    files = [path for source in sources for path in data.glob(f"{source}---*.json")]
    files.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())
    return [json.loads(path.read_text("utf-8"))["schema"] for path in files[:count]]


def table(folder: Path, count: int, seconds: float) -> str:
    """Time all engines; return a table."""
    lines = [
        f"| Schemas | Engine | median | slowest | in all | refused | over {seconds:g} s |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for group, sources in GROUPS.items():
        schemas = schemas_of(folder, sources, count)
        for name in ENGINES:
            engine = EngineProcess(serve, name, seconds)
            timed(engine, {"type": "null"}, seconds)  # what is built once
            found = [timed(engine, schema, seconds) for schema in schemas]
            engine.close()
            times = sorted(time for time in found if isinstance(time, float))
            refused = sum(isinstance(time, str) for time in found)
            cells = [
                *(f"{1000 * time:,.1f} ms" for time in (statistics.median(times), times[-1])),
                f"{sum(times):,.2f} s",
                f"{refused}",
                f"{sum(time >= seconds for time in times)}",
            ]
            lines.append(f"| {count} {group} | {name} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    packages = sorted({package for package, _ in ENGINES.values()})
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    lines += ["", f"Measured on {date.today():%d %B %Y} with {versions}."]
    return "\n".join(lines)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--schemas", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args()
    written = table(options.folder, options.schemas, options.seconds)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{START}\n\n{written}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
