"""Engines that enforce JSON Schema: a schema in, a function out that accepts texts or does not."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from llguidance import LLMatcher, LLTokenizer

from gpt_oss_harmony.grammar import GrammarError, enforceable_schema
from gpt_oss_harmony.grammar.json_schema import JSON_OPTIONS
from gpt_oss_harmony.grammar.xgrammar_schema import xgrammar_schema

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
        enforced = _enforced(schema)
        plain = enforced if isinstance(enforced, dict) else {}
        return _in_llguidance({**plain, "x-guidance": JSON_OPTIONS})

    yield compile_schema


def _enforced(schema: Any) -> Any:
    try:
        return enforceable_schema(schema)
    except GrammarError as error:
        raise Refused(f"{error}") from error


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


def _plain(schema: Any) -> Any:
    return schema


def _tag(schema: Any) -> Any:
    """Write our schema for xgrammar, as `structural_tag` does."""
    wanted = {"type": "json_schema", "json_schema": xgrammar_schema(_enforced(schema))}
    return {"type": "structural_tag", "format": wanted}


@contextmanager
def _in_process(engine: str, write: Callable[[Any], Any] = _plain) -> Iterator[Compile]:
    """Run an engine in a process of its own, which is replaced when it hangs or crashes."""
    context = multiprocessing.get_context("spawn")
    workers: list[tuple[Any, Connection]] = []

    def ask(request: tuple[str, str]) -> Any:
        if not workers:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, engine), daemon=True)
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
        answer = ask(("compile", json.dumps(write(schema))))
        if answer is not True:
            raise Refused(answer)
        return lambda text: ask(("accept", text)) is True

    yield compile_schema
    for process, _ in workers:
        process.kill()


def _serve(connection: Connection, engine: str) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # xgrammar warns of much that is tried here
    compile_text = _OTHERS[engine]() if engine in _OTHERS else _xgrammar(engine)
    accepts: Accepts | None = None
    while True:
        kind, text = connection.recv()
        try:
            if kind == "compile":
                accepts = compile_text(text)
                connection.send(True)
            else:
                connection.send(accepts is not None and accepts(text))
        except Exception as error:  # noqa: BLE001 - engines refuse in many ways
            connection.send(f"{error}".partition("\n")[0] or type(error).__name__)


def _llguidance(text: str) -> Accepts:
    return _in_llguidance(json.loads(text))


def _xgrammar(engine: str) -> Callable[[str], Accepts]:
    import xgrammar  # type: ignore[import-not-found,unused-ignore]

    compiler = xgrammar.GrammarCompiler(
        xgrammar.TokenizerInfo([bytes([i]) for i in range(256)] + [b"</s>"], stop_token_ids=256),
        max_threads=1,
        cache_enabled=False,
    )

    def compile_text(text: str) -> Accepts:
        if engine == "tag":
            compiled = compiler.compile_structural_tag(text)
        else:  # Without strict_mode, as the specification has it: what is not said is open.
            compiled = compiler.compile_json_schema(text, strict_mode=False)

        def accepts(text: str) -> bool:
            matcher = xgrammar.GrammarMatcher(compiled)
            return bool(matcher.accept_string(text) and matcher.is_completed())

        return accepts

    return compile_text


def _outlines() -> Callable[[str], Accepts]:
    from outlines_core import (  # type: ignore[import-not-found,unused-ignore]
        Index,
        Vocabulary,
        json_schema,
    )

    bytes_alone = Vocabulary(256, {bytes([byte]): [byte] for byte in range(256)})

    def compile_text(text: str) -> Accepts:
        index = Index(json_schema.build_regex_from_schema(text), bytes_alone)

        def accepts(text: str) -> bool:
            state = index.get_initial_state()
            for byte in text.encode():
                state = index.get_next_state(state, byte)
                if state is None:
                    return False
            return bool(index.is_final_state(state))

        return accepts

    return compile_text


def _lm_format_enforcer() -> Callable[[str], Accepts]:
    from lmformatenforcer import (  # type: ignore[import-not-found,unused-ignore]
        CharacterLevelParserConfig,
        JsonSchemaParser,
    )

    plain = CharacterLevelParserConfig().alphabet

    def compile_text(schema: str) -> Accepts:
        JsonSchemaParser(json.loads(schema)).get_allowed_characters()

        def accepts(text: str) -> bool:
            alphabet = "".join({*plain, *text})  # others are forbidden in texts
            parser = JsonSchemaParser(json.loads(schema), CharacterLevelParserConfig(alphabet))
            for character in text:
                if character not in parser.get_allowed_characters():
                    return False
                parser = parser.add_character(character)
            return bool(parser.can_end())

        return accepts

    return compile_text


_OTHERS: dict[str, Callable[[], Callable[[str], Accepts]]] = {
    "llguidance": lambda: _llguidance,
    "outlines": _outlines,
    "lm-format-enforcer": _lm_format_enforcer,
}

ENGINES: dict[str, Callable[[], AbstractContextManager[Compile]]] = {
    "ours": _ours,
    "our structural tag in xgrammar": partial(_in_process, "tag", _tag),
    "llguidance alone": partial(_in_process, "llguidance"),
    "xgrammar": partial(_in_process, "xgrammar"),
    "outlines-core": partial(_in_process, "outlines"),
    "lm-format-enforcer": partial(_in_process, "lm-format-enforcer"),
}
"""By name, what opens an engine and gives its function to compile a schema."""
