"""The base of engines behind a server: one HTTP request for each completion."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, ClassVar

from ..grammar import Matcher
from ..grammar.json_spelling import with_any_spelling
from ..tokens.special_tokens import VOCABULARY_SIZE
from .engine import (
    ContextLengthError,
    Engine,
    EngineError,
    Health,
    SampledToken,
    Sampling,
    SamplingError,
)
from .http_client import HttpClient, RefusalError


@asynccontextmanager
async def connecting(
    url: str, program: str, options: Mapping[str, Any]
) -> AsyncGenerator[HttpClient, None]:
    """Open a client while a server is asked what it runs; close it if that fails.

    An answer in another form than that of the `program` becomes an `EngineError`.
    """
    client = HttpClient(url, **options)
    try:
        yield client
    except BaseException as error:
        await client.close()
        if isinstance(error, EngineError) or not isinstance(
            error, (ValueError, TypeError, LookupError)
        ):
            raise
        problem = f"{client.url} does not report its model and settings; is it {program}?"
        raise EngineError(problem) from error


class AnswerReader(ABC):
    """Reads the events of one completion."""

    cached_tokens: int | None = None
    """The number of prompt tokens from the server's cache, once an event reports it."""

    usage_comes_last = False
    """Whether the server reports `cached_tokens` after the last token."""

    @abstractmethod
    def read(self, event: Any) -> Iterator[SampledToken]:
        """Yield the tokens of an event."""


class ServerEngine(Engine):
    """Sends a request for each completion, and reads the events of the answer."""

    owner: ClassVar[str]
    """The `owned_by` of the models in the server's list."""

    path: str
    """The path for requests."""

    grammar_remedy: str
    """The remedy for a server that does not apply a grammar."""

    def __init__(self, client: HttpClient, model: str, context_length: int) -> None:
        self.model = model
        self.context_length = context_length
        self._client = client
        self._running = 0

    @classmethod
    async def answers(cls, url: str, **options: Any) -> bool:
        """Return whether the server at `url` is of this kind; this method raises no error."""
        # No second request: `open_engine` tries the kinds one after the other.
        client = HttpClient(url, **{"timeout": 10, "pauses": (), **options})
        try:
            models = await client.get("/v1/models")
            return any(model.get("owned_by") == cls.owner for model in models["data"])
        except (EngineError, KeyError, TypeError, AttributeError):
            return False
        finally:
            await client.close()

    @abstractmethod
    def request_body(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> dict[str, Any]:
        """Return the body of the request; raises `SamplingError` for unsupported settings."""

    def goes_on_without(self, token: int) -> bool:
        """Return whether `go_on` can take the place of a server that sampled a wrong token."""
        return False

    def go_on(
        self, prompt: list[int], sampling: Sampling, max_tokens: int, done: list[int]
    ) -> AsyncGenerator[SampledToken, None]:
        """Sample what follows the tokens of a completion that are `done`."""
        raise NotImplementedError

    @abstractmethod
    def answer_reader(self, sampling: Sampling, max_tokens: int) -> AnswerReader:
        """Return a reader for the events of one completion."""

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        # The models have no embedding for the last token of the encoding.
        SamplingError.check_tokens(prompt, VOCABULARY_SIZE - 1)
        body = self.request_body(prompt, sampling, max_tokens)
        reader = self.answer_reader(sampling, max_tokens)
        check = None
        if sampling.grammar is not None:
            check = await asyncio.to_thread(GrammarCheck, sampling.grammar)
        self._running += 1
        done: list[int] = []
        try:
            async with aclosing(self._answer(body, reader)) as tokens:
                async for sampled in tokens:
                    # A server may be configured to ignore the grammar.
                    if check is not None and not check.accept(sampled.token):
                        if self.goes_on_without(sampled.token):
                            break
                        raise EngineError(
                            f"{self._client.url} sampled the token {sampled.token} against the "
                            f"grammar; {self.grammar_remedy}"
                        )
                    done.append(sampled.token)
                    yield sampled
                else:
                    return
            async with aclosing(self.go_on(prompt, sampling, max_tokens, done)) as rest:
                async for sampled in rest:
                    yield sampled
        except RefusalError as refusal:
            details = refusal.details
            if details.get("type") == "exceed_context_size_error":
                lengths = details["n_prompt_tokens"], details["n_ctx"]
                raise ContextLengthError(*lengths) from refusal
            if refusal.status in (400, 422):
                raise SamplingError(str(refusal)) from refusal
            raise
        finally:
            self._running -= 1

    async def _answer(
        self, body: dict[str, Any], reader: AnswerReader
    ) -> AsyncGenerator[SampledToken, None]:
        """Yield the tokens of an answer; the last one waits for the usage if that follows it."""
        last = None
        try:
            async with aclosing(self._client.ask("POST", self.path, body)) as events:
                async for event in events:
                    for sampled in self._read(reader, event):
                        if sampled.finish_reason is None:
                            yield sampled
                        else:
                            last = sampled
                    complete = reader.cached_tokens is not None or not reader.usage_comes_last
                    if last is not None and complete:
                        break
        except EngineError:
            if last is None:  # otherwise the completion is complete
                raise
        if last is None:
            raise EngineError(
                f"{self._client.url} ended its answer before the completion", retryable=True
            )
        yield last._replace(cached_tokens=reader.cached_tokens)

    def _read(self, reader: AnswerReader, event: Any) -> Iterator[SampledToken]:
        try:
            yield from reader.read(event)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, EngineError):
                raise
            raise EngineError(
                f"{self._client.url} answered in another form than expected: {str(event)[:300]}"
            ) from error

    async def health(self) -> Health:
        """Request the server's health; the running requests are those of this engine."""
        try:
            await self._client.get("/health")
        except EngineError as error:
            return Health(False, self._running, str(error))
        return Health(True, self._running)

    async def close(self) -> None:
        """Close the connections; the server keeps running."""
        await self._client.close()


class GrammarCheck:
    """Checks the tokens that a server samples under a grammar.

    Any white space and any escapes are accepted, because engines with another version of llguidance
    may allow more of them.
    """

    def __init__(self, grammar: str) -> None:
        self._grammar = grammar
        self._matcher = Matcher(grammar)
        self._tokens: list[int] = []
        self._is_lenient = False

    def accept(self, token: int) -> bool:
        """Take a token; return False if it is against the grammar."""
        self._tokens.append(token)
        if self._matcher.accept(token):
            return True
        if self._is_lenient:
            return False
        self._is_lenient = True
        self._matcher = Matcher(with_any_spelling(self._grammar))
        return self._matcher.accept_all(self._tokens) == len(self._tokens)


def best_tokens(
    logprobs: Iterable[tuple[int, float]], count: int | None
) -> tuple[tuple[int, float], ...] | None:
    """Return the `count` likeliest tokens; servers also list the sampled token."""
    if count is None:
        return None
    return tuple(sorted(logprobs, key=lambda item: -item[1])[:count])
