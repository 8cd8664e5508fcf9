"""The store for the event loop: ``await store.responses.get(id, owner)``.

Each call takes a turn of its owner in the threads of the database. Work that already runs in a
thread uses `AsyncStore.blocking`, the `Store` itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from .fair_turns import FairPool
from .store import (
    Batches,
    Claims,
    ContainerFiles,
    Containers,
    Conversations,
    MessageThreads,
    PartialUploads,
    Responses,
    Store,
    StoredCompletions,
    Uploads,
)

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Rows = TypeVar("_Rows")
_Method = Callable[Concatenate[Any, _Arguments], Awaitable[_Result]]


class _Turns(Generic[_Rows]):
    """One kind of rows, whose methods run in a pool."""

    def __init__(self, rows: _Rows, pool: FairPool) -> None:
        self._rows = rows
        self._pool = pool


def _in_turn(
    method: Callable[Concatenate[_Rows, _Arguments], _Result],
) -> _Method[_Arguments, _Result]:
    """Run a method in the turn of its argument ``owner``, or of the owner of its first argument.

    Both are given by position.
    """
    name, parameters = method.__name__, list(inspect.signature(method).parameters)
    place = parameters.index("owner") - 1 if "owner" in parameters else None  # without self

    @wraps(method)
    async def turn(self: Any, *arguments: Any, **keywords: Any) -> Any:
        owner = arguments[0].owner if place is None else arguments[place]
        return await self._pool.run(owner, getattr(self._rows, name), *arguments, **keywords)

    return cast("_Method[_Arguments, _Result]", turn)


class _Responses(_Turns[Responses]):
    begin = _in_turn(Responses.begin)
    get = _in_turn(Responses.get)
    events = _in_turn(Responses.events)
    input_items = _in_turn(Responses.input_items)
    delete = _in_turn(Responses.delete)

    async def finish(self, owner: str, id: str, **fields: Any) -> bool:
        """End a response of `owner`; `fields` are those of `Responses.finish`."""
        return await self._pool.run(owner, self._rows.finish, id, **fields)


class _Conversations(_Turns[Conversations]):
    get = _in_turn(Conversations.get)
    update = _in_turn(Conversations.update)
    delete = _in_turn(Conversations.delete)
    items = _in_turn(Conversations.items)
    list_items = _in_turn(Conversations.list_items)
    get_item = _in_turn(Conversations.get_item)
    delete_item = _in_turn(Conversations.delete_item)


class _Completions(_Turns[StoredCompletions]):
    add = _in_turn(StoredCompletions.add)
    page = _in_turn(StoredCompletions.page)
    get = _in_turn(StoredCompletions.get)
    update = _in_turn(StoredCompletions.update)
    delete = _in_turn(StoredCompletions.delete)


class _Threads(_Turns[MessageThreads]):
    add = _in_turn(MessageThreads.add)
    get = _in_turn(MessageThreads.get)


class _Uploads(_Turns[Uploads]):
    page = _in_turn(Uploads.page)
    get = _in_turn(Uploads.get)
    data = _in_turn(Uploads.data)
    delete = _in_turn(Uploads.delete)


class _PartialUploads(_Turns[PartialUploads]):
    add = _in_turn(PartialUploads.add)
    add_part = _in_turn(PartialUploads.add_part)
    complete = _in_turn(PartialUploads.complete)
    end = _in_turn(PartialUploads.end)


class _Batches(_Turns[Batches]):
    page = _in_turn(Batches.page)
    get = _in_turn(Batches.get)
    open = _in_turn(Batches.open)
    answer = _in_turn(Batches.answer)
    counts = _in_turn(Batches.counts)
    names = _in_turn(Batches.names)
    cancel = _in_turn(Batches.cancel)
    delete = _in_turn(Batches.delete)


class _Containers(_Turns[Containers]):
    page = _in_turn(Containers.page)
    get = _in_turn(Containers.get)
    touch = _in_turn(Containers.touch)
    delete = _in_turn(Containers.delete)
    delete_file = _in_turn(Containers.delete_file)


class _Files(_Turns[ContainerFiles]):
    page = _in_turn(ContainerFiles.page)
    get = _in_turn(ContainerFiles.get)
    data = _in_turn(ContainerFiles.data)


class _Claims(_Turns[Claims]):
    take = _in_turn(Claims.take)
    release = _in_turn(Claims.release)


class AsyncStore:
    """The rows of a `Store`, each kind under its own name; it belongs to one event loop."""

    def __init__(self, store: Store, pool: FairPool) -> None:
        self.blocking = store
        """The store for work in threads."""
        self._pool = pool
        self.responses = _Responses(store.responses, pool)
        self.conversations = _Conversations(store.conversations, pool)
        self.completions = _Completions(store.completions, pool)
        self.threads = _Threads(store.threads, pool)
        self.uploads = _Uploads(store.uploads, pool)
        self.partial_uploads = _PartialUploads(store.partial_uploads, pool)
        self.containers = _Containers(store.containers, pool)
        self.files = _Files(store.files, pool)
        self.batches = _Batches(store.batches, pool)
        self.claims = _Claims(store.claims, pool)

    async def run(
        self,
        owner: str,
        work: Callable[Concatenate[Store, _Arguments], _Result],
        *arguments: _Arguments.args,
        **keywords: _Arguments.kwargs,
    ) -> _Result:
        """Run work that uses the store several times, in one turn of its owner."""
        return await self._pool.run(owner, work, self.blocking, *arguments, **keywords)
