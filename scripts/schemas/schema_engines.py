"""Engines that enforce JSON Schema: a schema in, a function out that accepts texts or does not."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from llguidance import LLMatcher, LLTokenizer

from openai_harmony.grammar import GrammarError, enforceable_schema
from openai_harmony.grammar.json_schema import JSON_OPTIONS

__all__ = ["ENGINES", "Accepts", "Refused"]

Accepts: TypeAlias = Callable[[str], bool]
Compile: TypeAlias = Callable[[Any], Accepts]

_TOKENIZER = LLTokenizer("byte")
_SECONDS = 20


class Refused(Exception):
    """The engine refuses the schema."""


@contextmanager
def _ours() -> Iterator[Compile]:
    def compile_schema(schema: Any) -> Accepts:
        try:
            enforced = enforceable_schema(schema)
        except GrammarError as error:
            raise Refused(f"{error}") from error
        plain = enforced if isinstance(enforced, dict) else {}
        return _in_llguidance({**plain, "x-guidance": JSON_OPTIONS})

    yield compile_schema


@contextmanager
def _llguidance() -> Iterator[Compile]:
    yield _in_llguidance


def _in_llguidance(schema: Any) -> Accepts:
    try:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
    except ValueError as error:
        raise Refused(f"{error}") from error
    matcher = LLMatcher(_TOKENIZER, grammar, log_level=0)
    if matcher.is_error():
        raise Refused(matcher.get_error().partition("\n")[0])

    def accepts(text: str) -> bool:
        matcher.reset()
        tokens = list(text.encode())
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    return accepts


@contextmanager
def _xgrammar() -> Iterator[Compile]:
    """Run xgrammar in a process of its own, which is replaced when it hangs or crashes."""
    context = multiprocessing.get_context("spawn")
    workers: list[tuple[Any, Connection]] = []

    def ask(request: tuple[str, str]) -> Any:
        if not workers:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve_xgrammar, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            workers.append((process, ours))
        process, connection = workers[0]
        try:
            connection.send(request)
            if connection.poll(_SECONDS):
                return connection.recv()
            problem = f"it took more than {_SECONDS} s"
        except (EOFError, OSError):
            problem = "it crashed"
        process.kill()
        workers.clear()
        return problem

    def compile_schema(schema: Any) -> Accepts:
        answer = ask(("compile", json.dumps(schema)))
        if answer is not True:
            raise Refused(answer)
        return lambda text: ask(("accept", text)) is True

    yield compile_schema
    for process, _ in workers:
        process.kill()


def _serve_xgrammar(connection: Connection) -> None:
    import xgrammar  # type: ignore[import-not-found,unused-ignore]

    compiler = xgrammar.GrammarCompiler(
        xgrammar.TokenizerInfo([bytes([i]) for i in range(256)] + [b"</s>"], stop_token_ids=256),
        max_threads=1,
        cache_enabled=False,
    )
    compiled = None
    while True:
        kind, text = connection.recv()
        try:
            if kind == "compile":
                # Without strict_mode, as the specification has it: what is not said is open.
                compiled = compiler.compile_json_schema(text, strict_mode=False)
                connection.send(True)
            else:
                matcher = xgrammar.GrammarMatcher(compiled)
                connection.send(bool(matcher.accept_string(text) and matcher.is_completed()))
        except (RuntimeError, ValueError) as error:
            connection.send(f"{error}".partition("\n")[0])


ENGINES = {"ours": _ours, "llguidance alone": _llguidance, "xgrammar": _xgrammar}
"""By name, what opens an engine and gives its function to compile a schema."""
