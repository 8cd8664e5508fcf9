"""Engines that enforce JSON Schema: a schema in, a function out that accepts texts or does not."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from llguidance import LLMatcher, LLTokenizer

from gpt_oss_harmony.grammar import GrammarError, enforceable_schema
from gpt_oss_harmony.grammar.json_schema import JSON_OPTIONS
from gpt_oss_harmony.grammar.xgrammar_schema import xgrammar_schema

__all__ = [
    "ENGINES",
    "SECONDS",
    "Accepts",
    "EngineProcess",
    "EngineStopped",
    "EngineTooSlow",
    "Refused",
]

Accepts: TypeAlias = Callable[[str], bool]
Compile: TypeAlias = Callable[[Any], Accepts]

_TOKENIZER = LLTokenizer("byte")
SECONDS = 5.0
"""The seconds of the processor that an engine may take for a schema, or for a text."""


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


class EngineStopped(Exception):
    """An engine crashed; its process has ended."""


class EngineTooSlow(EngineStopped):
    """An engine took too many seconds of the processor."""


class EngineProcess:
    """An engine in a process of its own, which is replaced when it takes too long or crashes.

    `serve` runs in the process. It sends None when the engine is there, and then an answer for each
    question.
    """

    def __init__(
        self, serve: Callable[[Connection, str], None], engine: str, seconds: float
    ) -> None:
        self._serve, self._engine, self._seconds = serve, engine, seconds
        self._process: Any = None

    def ask(self, question: Any) -> Any:
        """Return the answer to a question; raises `EngineStopped`."""
        if self._process is None:
            self._start()
        try:
            self._connection.send(question)
            latest = self._processor_seconds() + self._seconds
            while not self._connection.poll(0.2):
                if self._processor_seconds() > latest:
                    self.close()
                    raise EngineTooSlow(f"it took more than {self._seconds:g} s")
            return self._connection.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise EngineStopped("it crashed") from error

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self._engine)
        self._process = context.Process(target=self._serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        try:
            self._connection.recv()
        except EOFError:  # no schema was at fault
            raise RuntimeError(f"{self._engine} does not start; is it installed?") from None

    def _processor_seconds(self) -> float:
        """Read what the system has counted for the process."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process = None


@contextmanager
def _in_process(engine: str, write: Callable[[Any], Any] = _plain) -> Iterator[Compile]:
    process = EngineProcess(_serve, engine, SECONDS)

    def compile_schema(schema: Any) -> Accepts:
        try:
            answer = process.ask(("compile", json.dumps(write(schema))))
        except EngineStopped as stopped:
            raise Refused(f"{stopped}") from stopped
        if answer is not True:
            raise Refused(answer)
        return accepts

    def accepts(text: str) -> bool:
        try:
            return process.ask(("accept", text)) is True
        except EngineStopped:
            return False

    yield compile_schema
    process.close()


def _serve(connection: Connection, engine: str) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # xgrammar warns of much that is tried here
    compile_text = _OTHERS[engine]() if engine in _OTHERS else _xgrammar(engine)
    accepts: Accepts | None = None
    connection.send(None)
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
