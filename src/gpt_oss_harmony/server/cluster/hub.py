"""The engine and the queue that the workers of one server share.

The process that starts the workers is the hub. It has the engine, unless the engine is another
server, and manages the places at the engine. Each worker is a complete server that requests tokens
and places from the hub.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...engines.engine import (
    ContextLengthError,
    Engine,
    EngineError,
    FinishReason,
    Health,
    SampledToken,
    Sampling,
    SamplingError,
)
from ..admission import Admission
from ..http.errors import ApiError
from ..http.requests import cancel_all
from ..http.server_sent_events import Event, EventLog
from .peers import ANSWER_SECONDS, PeerError, Peers, SocketChannel

__all__ = ["Hub", "HubAdmission", "HubEngine", "Worker"]

_HUB = "hub"
_DESCRIBED = ("model", "context_length", "origin", "skips_forced", "closes_in_time")  # of an engine
_SILENCE = 60.0  # seconds; if the hub dies, its workers end


class Hub:
    """Answers workers, whose sockets are in `folder`; without an engine, it has only the queue."""

    def __init__(self, folder: Path, engine: Engine | None, admission: Admission) -> None:
        self._engine = engine
        self._admission = admission
        self._peers = Peers(_HUB, SocketChannel(folder, _HUB), self._answer)
        self._serving: set[int] = set()
        self._change = asyncio.Event()

    async def has_workers(self, count: int) -> None:
        """Wait until this number of workers serve."""
        while len(self._serving) < count:
            self._change.clear()
            await self._change.wait()

    async def open(self) -> None:
        """Start to answer."""
        await self._peers.open()

    def forget(self, process: int) -> None:
        """Free the places of a worker that has died."""
        self._peers.forget(_worker_id(process))

    async def close(self) -> None:
        """End; running completions are cut off."""
        await self._peers.close()

    async def _answer(self, request: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        answers: Mapping[str, Callable[..., AsyncGenerator[Any, None]]] = {
            "describe": self._describe,
            "begin": self._begin,
            "health": self._health,
            "admit": self._admit,
            "place": self._place,
            "generate": self._generate,
        }
        parts = answers[request["action"]](**request["arguments"])
        try:
            async with aclosing(parts):
                async for part in parts:
                    yield part
        except ApiError as error:
            yield {"refusal": vars(error)}
        except EngineError as error:
            yield {"failure": _failure(error)}

    async def _describe(self) -> AsyncGenerator[Any, None]:
        engine = self._engine
        assert engine is not None
        yield {name: getattr(engine, name) for name in _DESCRIBED}

    async def _begin(self, process: int) -> AsyncGenerator[Any, None]:
        self._serving.add(process)
        self._change.set()
        yield True

    async def _health(self) -> AsyncGenerator[Any, None]:
        assert self._engine is not None
        yield await self._engine.health()

    async def _admit(self, owner: str) -> AsyncGenerator[Any, None]:
        self._admission.check(owner)
        yield True

    async def _place(self, owner: str, is_first: bool) -> AsyncGenerator[Any, None]:
        """Yield once a place is free; it is taken until the worker frees it or dies."""
        async with AsyncExitStack() as held:
            slot = self._admission.slot(owner, is_first=is_first)
            entering = asyncio.ensure_future(held.enter_async_context(slot))
            try:
                while not (await asyncio.wait({entering}, timeout=ANSWER_SECONDS))[0]:
                    yield None
                entering.result()
                yield True
                await asyncio.Event().wait()
            finally:
                await cancel_all(entering)

    async def _generate(
        self, prompt: list[int], sampling: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Yield the tokens in parts, each with all tokens since the last part."""
        assert self._engine is not None
        sampling["stop_tokens"] = frozenset(sampling["stop_tokens"])
        tokens = self._engine.generate(prompt, Sampling(**sampling))
        log = EventLog(forgets=True)

        async def read() -> None:
            try:
                async with aclosing(tokens):
                    async for sampled in tokens:
                        log.add(Event(None, json.dumps(sampled)))
            except Exception as error:  # noqa: BLE001 - it is sent to the worker
                log.close(error)
            else:
                log.close()

        reading = asyncio.ensure_future(read())
        try:
            async with aclosing(log.batches(patience=ANSWER_SECONDS)) as batches:
                async for batch in batches:
                    yield [event.data for event in batch]
        finally:
            await cancel_all(reading)


def _failure(error: EngineError) -> dict[str, Any]:
    if isinstance(error, ContextLengthError):
        return {"lengths": [error.prompt_length, error.context_length]}
    is_setting = isinstance(error, SamplingError)
    return {"problem": str(error), "retryable": error.retryable, "is_setting": is_setting}


def _error_of(failure: Mapping[str, Any]) -> EngineError:
    if "lengths" in failure:
        return ContextLengthError(*failure["lengths"])
    if failure["is_setting"]:
        return SamplingError(failure["problem"])
    return EngineError(failure["problem"], retryable=failure["retryable"])


class Worker:
    """One of several processes that serve together; `folder` has the sockets of all.

    ::

        async with Worker(folder) as worker:
            app = create_app(await HubEngine.connect(worker), settings, worker=worker)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        id = _worker_id(os.getpid())
        self._peers = Peers(id, SocketChannel(folder, id), _no_answer, silence=_SILENCE)

    async def __aenter__(self) -> Worker:
        _end_with_parent()
        await self._peers.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._peers.close()

    async def ask(self, action: str, **arguments: Any) -> AsyncGenerator[Any, None]:
        """Send a request to the hub; raise the errors that it sends."""
        request = {"action": action, "arguments": arguments}
        try:
            async with aclosing(self._peers.ask(_HUB, request)) as parts:
                async for part in parts:
                    if isinstance(part, dict) and "refusal" in part:
                        raise ApiError(**part["refusal"])
                    if isinstance(part, dict) and "failure" in part:
                        raise _error_of(part["failure"])
                    yield part
        except PeerError as error:
            problem = f"the process of the engine has ended: {error}"
            raise EngineError(problem, retryable=True) from error

    async def first(self, action: str, **arguments: Any) -> Any:
        """Return the first part of an answer."""
        async with aclosing(self.ask(action, **arguments)) as parts:
            return await anext(parts)


def _end_with_parent() -> None:
    """End this worker gracefully when the process that started it dies."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        loop, sentinel = asyncio.get_running_loop(), parent.sentinel

        def end() -> None:
            loop.remove_reader(sentinel)
            os.kill(os.getpid(), signal.SIGTERM)

        loop.add_reader(sentinel, end)


def _worker_id(process: int) -> str:
    return f"worker-{process}"


async def _no_answer(_: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
    parts: list[Any] = []  # the hub sends no requests
    for part in parts:
        yield part


class HubEngine(Engine):
    """The engine of the hub, for a worker."""

    def __init__(self, worker: Worker, description: Mapping[str, Any]) -> None:
        self._worker = worker
        for name in _DESCRIBED:
            setattr(self, name, description[name])

    @classmethod
    async def connect(cls, worker: Worker) -> HubEngine:
        """Connect to the hub and read the description of its engine."""
        return cls(worker, await worker.first("describe"))

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        settings = asdict(sampling)
        settings["stop_tokens"] = sorted(sampling.stop_tokens)
        settings["max_tokens"] = max_tokens
        answer = self._worker.ask("generate", prompt=prompt, sampling=settings)
        async with aclosing(answer) as parts:
            async for part in parts:
                for text in part:
                    token, logprob, tops, reason, *others = json.loads(text)
                    yield SampledToken(
                        token,
                        logprob,
                        None if tops is None else tuple((top, likely) for top, likely in tops),
                        None if reason is None else FinishReason(reason),
                        *others,
                    )

    async def health(self) -> Health:
        """Return the health of the engine in the hub."""
        try:
            return Health(*await self._worker.first("health"))
        except EngineError as error:
            return Health(False, detail=str(error))

    async def close(self) -> None:
        """Do nothing: the hub closes the engine."""


class HubAdmission(Admission):
    """The queue of the hub, for a worker; `running` and `waiting` are this worker's."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(0, 0)
        self._worker = worker

    def check(self, owner: str = "") -> None:
        """Raise `ApiError` if this worker is closing; only the hub can check the queue."""
        self.check_open()

    async def admit(self, owner: str) -> None:
        """Raise `ApiError` if the queue is full or the server is shutting down."""
        self.check_open()
        await self._worker.first("admit", owner=owner)

    @asynccontextmanager
    async def _place(self, owner: str, *, is_first: bool) -> AsyncGenerator[None, None]:
        """Keep a place of the hub, as long as the hub's answer lasts."""
        answer = self._worker.ask("place", owner=owner, is_first=is_first)
        async with aclosing(answer) as parts:
            async for is_free in parts:
                if is_free:
                    break
            yield
