"""What the engines in this process share: checked prompts, queues of tokens, scores, cancelling.

The event loop makes a `RunningRequest` and reads its queue. A `Batching` owns the thread that runs
the model, and ends what the other side has ended. `ModelThread` is such a thread for models that
are run step by step.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from .engine import (
    ContextLengthError,
    Engine,
    EngineError,
    Health,
    SampledToken,
    Sampling,
    SamplingError,
)
from .token_sampler import RunningRequest, TokenSampler


class Batching(Protocol):
    """The thread that runs a model, and takes its requests by name from the engine's table."""

    @property
    def is_running(self) -> bool:
        """Return whether the thread is alive."""

    @property
    def problem(self) -> str:
        """The error that ended the thread."""

    @property
    def cached_tokens(self) -> int | None:
        """The cached tokens of every prompt, unless its request has a number of its own."""

    def add(self, name: str, prompt: list[int], max_tokens: int) -> bool:
        """Start a request; return False if the thread has stopped."""

    def cancel(self, name: str) -> None:
        """End a request early."""

    def stop(self) -> None:
        """Stop the thread and wait for its end."""


def _failure(error: Exception) -> str:
    return f"the model failed: {error}"


class ModelThread(ABC):
    """A `Batching` that runs a model step by step while it has requests.

    What other threads want is done between two steps. A subclass starts `_thread`; all of its other
    methods run in it. `requests` has the running requests by name.
    """

    cached_tokens: int | None = None
    problem = "its thread has ended"
    _is_over = False

    def __init__(self, requests: dict[str, RunningRequest], name: str) -> None:
        self._requests = requests
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name)

    def add(self, name: str, prompt: list[int], max_tokens: int) -> bool:
        """Start a request; return False if the thread has ended."""

        def insert() -> None:
            request = self._requests.get(name)
            if request is not None and not request.is_finished:
                try:
                    self._insert(name, request, prompt, max_tokens)
                except Exception as error:
                    request.fail(_failure(error))  # it may not be among those that are closed
                    raise

        self._commands.put(insert)
        return self.is_running

    def cancel(self, name: str) -> None:
        """End a request early."""
        self._commands.put(lambda: self._withdraw(name))

    @property
    def is_running(self) -> bool:
        """Return whether the thread is alive, and takes requests."""
        return self._thread.is_alive() and not self._is_over

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._commands.put(None)
        self._thread.join()

    def _run(self) -> None:
        problem = "the engine was closed"
        try:
            self._open()
            while True:
                try:
                    if not self._take_commands():
                        break
                    self._step()
                except Exception as error:  # noqa: BLE001 - it would end the thread and all requests
                    self._restart(_failure(error))
            self._close(problem)
        except Exception as error:  # noqa: BLE001 - no request may wait for a thread that is over
            self.problem = problem = _failure(error)
        # First, so that a request that comes now is refused, and does not wait for ever.
        self._is_over = True
        self._fail_all(problem)

    def _restart(self, problem: str) -> None:
        """End all requests with an error, and begin without any."""
        try:
            self._close(problem)
        except Exception as error:  # noqa: BLE001 - what it could not free is lost
            self._fail_all(f"{problem}; its requests could not be ended: {error}")
        self._open()

    def _fail_all(self, problem: str) -> None:
        for request in list(self._requests.values()):
            request.fail(problem)

    def _take_commands(self) -> bool:
        """Do what other threads want; wait for it without requests. Return False at the end."""
        while True:
            try:
                command = self._commands.get(block=self._is_idle)
            except queue.Empty:
                return True
            if command is None:
                return False
            command()

    @property
    @abstractmethod
    def _is_idle(self) -> bool:
        """Whether there is no request to step."""

    @abstractmethod
    def _open(self) -> None:
        """Begin without requests."""

    @abstractmethod
    def _close(self, problem: str) -> None:
        """End all requests with an error, and free what they used."""

    @abstractmethod
    def _insert(
        self, name: str, request: RunningRequest, prompt: list[int], max_tokens: int
    ) -> None:
        """Let a request take part in the next step."""

    @abstractmethod
    def _withdraw(self, name: str) -> None:
        """Forget a request that nobody reads any more."""

    @abstractmethod
    def _step(self) -> None:
        """Run the model once for all requests, and deliver what was sampled."""


class InProcessEngine(Engine):
    """Runs a model in a thread of this process.

    A subclass opens a `Batching` over `_requests`, and stores it in `_batching`.
    """

    closes_in_time = True
    _batching: Batching

    def __init__(self, model: str, vocabulary_size: int) -> None:
        self.model = model
        self._vocabulary = vocabulary_size
        self._requests: dict[str, RunningRequest] = {}
        self._names = map("request-{}".format, itertools.count())

    async def score(self, tokens: Sequence[int], logprobs: int = 0) -> list[SampledToken]:
        """Return the log-probability of each token; it takes one step of the model for each."""
        if not tokens:
            return []
        ContextLengthError.check(len(tokens) - 1, self.context_length)
        SamplingError.check_tokens(tokens, self._vocabulary)
        first, *rest = tokens
        scored = [SampledToken(first)]
        if rest:
            # No token ends the text: it may have stop tokens in its midst.
            sampling = Sampling(temperature=0, logprobs=logprobs, stop_tokens=frozenset())
            stream = self._generate([first], sampling, len(rest), script=rest)
            async with contextlib.aclosing(stream):
                async for token in stream:
                    scored.append(token)
        return scored

    async def _generate(
        self,
        prompt: list[int],
        sampling: Sampling,
        max_tokens: int,
        *,
        script: Sequence[int] = (),
    ) -> AsyncGenerator[SampledToken, None]:
        SamplingError.check_tokens(prompt, self._vocabulary)
        # Compiling a grammar would block the event loop for too long.
        sampler = await asyncio.to_thread(
            TokenSampler, prompt, sampling, max_tokens, self._vocabulary, script
        )
        forced = sampler.take_forced()
        request = RunningRequest(sampler, forced)
        name = next(self._names)
        self._requests[name] = request
        try:
            if not request.is_finished:
                prompt = prompt + [sampled.token for sampled in forced]
                if not self._batching.add(name, prompt, max_tokens - len(forced)):
                    problem = self._batching.problem
                    raise EngineError(
                        f"the engine is closed, or its model failed ({problem}); open it again"
                    )
            while True:
                item = await request.items.get()
                if isinstance(item, EngineError):
                    raise item
                if item.finish_reason is not None:
                    own = request.cached_tokens
                    cached = self._batching.cached_tokens if own is None else own
                    yield item._replace(cached_tokens=cached)
                    break
                yield item
        finally:
            if not request.is_finished:
                request.is_finished = True
                self._batching.cancel(name)
            self._requests.pop(name, None)

    async def health(self) -> Health:
        """Return whether the thread that runs the model is alive."""
        running = self._batching.is_running
        detail = "" if running else f"the model has stopped: {self._batching.problem}"
        return Health(running, len(self._requests), detail)

    async def close(self) -> None:
        """Stop the thread; running requests end with an error."""
        for request in list(self._requests.values()):
            request.fail("the engine was closed")
        await asyncio.to_thread(self._batching.stop)
