"""Batches: ``/v1/batches`` in OpenAI's form, ``/v1/messages/batches`` in Anthropic's.

Every request of a batch is a request of its owner to this application, like one from outside: the
same reader, limits, logs and errors. A refusal that passes (429, 503) is tried again until the
deadline. A server works on one batch of an owner at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import anyio
import httpx2
from fastapi import APIRouter, FastAPI, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ..apis.batches import (
    MESSAGES_ENDPOINT,
    Batch,
    BatchAnswer,
    BatchBody,
    BatchBodyError,
    MessagesBatchBody,
    batch_json,
    batch_line,
    messages_batch_line,
    read_batch_file,
    read_batch_requests,
)
from ..apis.wire_events import json_text
from .auth.api_keys import AuthenticatedCaller, Caller, as_caller
from .http.errors import MESSAGES_ERRORS, ApiError
from .http.json import list_json, read_json
from .http.requests import cancel_all
from .limited_route import LimitedRoute
from .repeated_requests import IdempotencyKey, RequestKey, stored_once
from .services import Services, services_of
from .settings import Settings
from .store import (
    CHECK_SECONDS,
    BatchRequest,
    BatchResult,
    NotFoundError,
    Store,
    StoreError,
    UploadedFile,
    new_id,
)

_LOG = logging.getLogger(__name__)

_DAY = 24 * 60 * 60
_PAGE = 500  # answers that are read at a time
_LONGEST_WAIT = 30.0  # seconds before a refused request is tried again
_SERVER = "the server"  # whose turn it is, beside owners; that of clients without a key is empty

router = APIRouter(prefix="/v1/batches", tags=["Batches"], route_class=LimitedRoute)
messages_router = APIRouter(
    prefix="/v1/messages/batches", tags=["Batches"], route_class=LimitedRoute
)

# The work


class BatchRunner:
    """Answers the batches that this server has taken; `run` never ends."""

    def __init__(self, app: FastAPI, services: Services) -> None:
        self._app = app
        self._services = services
        self._tasks: dict[str, tuple[Batch, str, asyncio.Task[None]]] = {}  # with their ends

    async def run(self) -> None:
        """Look for batches that are new, cancelled or too late, and work on them."""
        try:
            while True:
                with anyio.move_on_after(CHECK_SECONDS):
                    await self._services.new_batches.wait()
                # Before the look, so that a batch that comes during it is seen by the next one.
                self._services.new_batches.clear()
                try:
                    await self._look()
                except StoreError:
                    _LOG.debug("the batches could not be read; it will be tried again")
                except Exception:  # noqa: BLE001 - it is logged; else no batch would ever go on
                    _LOG.exception("the batches could not be read; it will be tried again")
        finally:
            await cancel_all(*(task for _, _, task in self._tasks.values()))

    async def _look(self) -> None:
        busy = {batch.owner for batch, _, _ in self._tasks.values()}
        claimed = await self._services.store.run(_SERVER, Store.claim_batches, busy)
        gone = self._tasks.keys() - {batch.id for batch in claimed}  # such as deleted ones
        await cancel_all(*(self._tasks[id][2] for id in gone))
        for batch in claimed:
            caller = await self._services.pools.keys.run(
                _SERVER, self._services.keys.of_owner, batch.owner
            )
            is_cancelled = batch.status == "cancelling" or caller is None  # of a revoked key
            is_late = batch.deadline <= time.time()
            end = "cancelled" if is_cancelled else "expired" if is_late else ""
            _, ending, task = self._tasks.get(batch.id, (batch, "", None))
            if task is None or task.done() or end != ending:
                await cancel_all(*filter(None, [task]))
                task = asyncio.ensure_future(self._work(batch, caller, end))
                task.add_done_callback(partial(self._ended, batch.id))
                self._tasks[batch.id] = batch, end, task

    def _ended(self, id: str, task: asyncio.Task[None]) -> None:
        # Another task may have taken its place: one that ends the batch.
        if id in self._tasks and self._tasks[id][2] is task:
            del self._tasks[id]
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._services.new_batches.set()  # its owner may have another one
        else:
            level = logging.DEBUG if isinstance(error, StoreError) else logging.ERROR
            _LOG.log(level, "the batch %s waits for another try", id, exc_info=error)

    async def _work(self, batch: Batch, caller: Caller | None, end: str) -> None:
        """Answer the requests of a batch, unless its `end` is known, and store its end."""
        store = self._services.store
        if caller is not None and not end:
            waiting = iter(await store.batches.open(batch.id, batch.owner))
            # Half of the places, so that the owner's other requests find one.
            places, limits = self._services.settings.max_running, caller.limits
            if limits.concurrent_requests is not None:
                places = min(places, limits.concurrent_requests)
            count = max(1, places // 2)
            workers = [
                asyncio.ensure_future(self._answer(batch, caller, waiting)) for _ in range(count)
            ]
            try:
                await asyncio.gather(*workers)
            finally:
                await cancel_all(*workers)
        settings = self._services.settings
        while not await store.run(batch.owner, _finish, batch, end or "completed", settings):
            _LOG.debug("an answer of the batch %s came at its end; it is ended again", batch.id)

    async def _answer(
        self, batch: Batch, caller: Caller, waiting: Iterator[tuple[int, BatchRequest]]
    ) -> None:
        async def as_owner(scope: Scope, receive: Receive, send: Send) -> None:
            await self._app(as_caller(scope, caller), receive, send)

        # With exceptions, an error in the application would stop the batch; this way it is a 500.
        transport = httpx2.ASGITransport(as_owner, raise_app_exceptions=False)
        # No limit on time: a model may reason for minutes, and the batch has its own deadline.
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=None
        ) as client:
            for position, (_, body) in waiting:
                while True:
                    answer = await client.post(
                        batch.endpoint,
                        content=json_text(body).encode(),
                        headers={"content-type": "application/json"},
                    )
                    # Limits and full queues pass. Any other status is the answer to the request.
                    if answer.status_code not in (429, 503):
                        break
                    seconds = float(answer.headers.get("retry-after", 1))
                    await asyncio.sleep(min(seconds, _LONGEST_WAIT))
                said = {"request_id": answer.headers["x-request-id"], "body": answer.json()}
                headers = {name.title(): text for name, text in answer.headers.items()}
                if told := {name: headers[name] for name in headers if name.startswith("Harmony-")}:
                    said["headers"] = told
                result = BatchResult(position, answer.status_code, said)
                await self._services.store.batches.answer(batch.id, batch.owner, result)


def _answers(rows: Store, batch: Batch, places: range) -> list[BatchAnswer | None]:
    """Read the answers to the requests at some positions; None for a request without one."""
    found = map(rows.batches.results(batch.id, batch.owner, places).get, places)
    return [None if one is None else BatchAnswer(one.status, **one.answer) for one in found]


def _pages(names: Sequence[str]) -> Iterator[tuple[Sequence[str], range]]:
    """Split the requests with these names into pages, each with its positions."""
    for start in range(0, len(names), _PAGE):
        page = names[start : start + _PAGE]
        yield page, range(start, start + len(page))


def _finish(rows: Store, batch: Batch, end: str, settings: Settings) -> bool:
    """Store the end of a batch, with its files in OpenAI's API; return False to try it again."""
    now, counts = int(time.time()), rows.batches.counts(batch.id, batch.owner)
    state = {**batch.state, f"{end}_at": now, "counts": (counts[True], counts[False])}
    files: list[tuple[UploadedFile, bytes]] | None = None
    if not batch.is_of_messages:
        files, seconds = [], batch.state["seconds"]
        expires_at = settings.expires_at(now) if seconds is None else now + seconds
        lines: dict[str, list[str]] = {"output": [], "error": []}
        for names, places in _pages(rows.batches.names(batch.id, batch.owner)):
            found = _answers(rows, batch, places)
            for place, name, answer in zip(places, names, found, strict=True):
                kind = "output" if answer is not None and answer.status == 200 else "error"
                line = batch_line(f"{batch.id}_{place + 1}", name, answer, end)
                lines[kind].append(f"{json_text(line)}\n")
        for kind, data in ((kind, "".join(each).encode()) for kind, each in lines.items() if each):
            file = UploadedFile(
                id=new_id("file-"),
                owner=batch.owner,
                container_id=None,
                purpose="batch_output",
                filename=f"{batch.id}_{kind}.jsonl",
                size=len(data),
                created_at=now,
                expires_at=expires_at,
            )
            files.append((file, data))
            state[f"{kind}_file_id"] = file.id
    return rows.batches.finish(replace(batch, status=end, state=state), files)


# Routes


async def _create(
    request: Request,
    owner: str,
    key: RequestKey,
    body: BatchBody | MessagesBatchBody,
    requests: list[BatchRequest],
    state: Mapping[str, Any],
) -> dict[str, Any]:
    services, now = services_of(request), int(time.time())
    is_openai = isinstance(body, BatchBody)
    batch = Batch(
        id=new_id("batch" if is_openai else "msgbatch"),
        owner=owner,
        endpoint=body.endpoint if isinstance(body, BatchBody) else MESSAGES_ENDPOINT,
        status="in_progress" if requests else "failed",
        created_at=now,
        deadline=now + _DAY,
        expires_at=services.settings.expires_at(now + _DAY),
        total=len(requests),
        metadata=dict(body.metadata or {}) if isinstance(body, BatchBody) else {},
        state=dict(state),
    )

    def store(rows: Store) -> Batch:
        rows.batches.add(batch, requests)
        return batch

    def find(rows: Store, id: str) -> Batch:
        return rows.batches.get(id, owner)

    claims = partial(key.claims, body)
    stored = await stored_once(services, owner, claims, batch.id, store, find)
    services.new_batches.set()
    return await _json(services, stored)


async def _json(services: Services, batch: Batch) -> dict[str, Any]:
    if "counts" in batch.state:
        return batch_json(batch, *batch.state["counts"])
    counts = await services.store.batches.counts(batch.id, batch.owner)
    return batch_json(batch, counts[True], counts[False])


@router.post("")
async def create(
    body: BatchBody, request: Request, caller: AuthenticatedCaller, key: IdempotencyKey
) -> dict[str, Any]:
    """Answer the requests of a file, within a day; the answers are in other files."""
    services, owner = services_of(request), caller.owner
    file = await services.store.uploads.get(body.input_file_id, owner)
    if file.purpose != "batch":
        problem = f"the file has the purpose {file.purpose!r}; upload it with the purpose batch"
        raise ApiError(400, problem, param="input_file_id", code="invalid_value")
    data = await services.store.uploads.data(file.id, owner)
    expiry, requests = body.output_expires_after, list[BatchRequest]()
    seconds = None if expiry is None else expiry.seconds
    state: dict[str, Any] = {"input_file_id": file.id, "seconds": seconds}
    try:
        most = services.settings.max_request_bytes
        requests = await services.pools.encoding.run(
            owner, read_batch_file, data, body.endpoint, most, read_json
        )
    except BatchBodyError as error:
        errors = {"object": "list", "data": error.errors}
        state |= {"failed_at": int(time.time()), "errors": errors, "counts": (0, 0)}
    return await _create(request, owner, key, body, requests, state)


@messages_router.post("", responses=MESSAGES_ERRORS)
async def create_of_messages(
    body: MessagesBatchBody, request: Request, caller: AuthenticatedCaller, key: IdempotencyKey
) -> dict[str, Any]:
    """Answer requests of the Messages API within a day."""
    requests = read_batch_requests(body.requests)
    return await _create(request, caller.owner, key, body, requests, {})


@router.get("")
@messages_router.get("", responses=MESSAGES_ERRORS)
async def list_batches(
    request: Request,
    caller: AuthenticatedCaller,
    after: str | None = None,
    before_id: str | None = None,
    after_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the batches, the newest first; `before_id` and `after_id` are Anthropic's names."""
    services = services_of(request)
    page = await services.store.batches.page(
        caller.owner,
        after=before_id or after_id or after,
        limit=limit,
        order="asc" if before_id else "desc",
        of_messages=_is_of_messages(request),
    )
    newest_first = page.items[::-1] if before_id else page.items
    listed = [await _json(services, batch) for batch in newest_first]
    return dict(list_json(listed, has_more=page.has_more))


def _is_of_messages(request: Request) -> bool:
    return request.url.path.startswith(messages_router.prefix)


async def _found(request: Request, id: str, owner: str) -> Batch:
    batch = await services_of(request).store.batches.get(id, owner)
    if batch.is_of_messages is not _is_of_messages(request):
        raise NotFoundError("batch", id)
    return batch


@router.get("/{batch_id}")
@messages_router.get("/{batch_id}", responses=MESSAGES_ERRORS)
async def retrieve(batch_id: str, request: Request, caller: AuthenticatedCaller) -> dict[str, Any]:
    """Describe a batch."""
    batch = await _found(request, batch_id, caller.owner)
    return await _json(services_of(request), batch)


@router.post("/{batch_id}/cancel")
@messages_router.post("/{batch_id}/cancel", responses=MESSAGES_ERRORS)
async def cancel(batch_id: str, request: Request, caller: AuthenticatedCaller) -> dict[str, Any]:
    """End a batch; the answers so far are kept."""
    services = services_of(request)
    await _found(request, batch_id, caller.owner)
    batch = await services.store.batches.cancel(batch_id, caller.owner)
    services.new_batches.set()
    return await _json(services, batch)


async def _ended(request: Request, id: str, owner: str) -> Batch:
    batch = await _found(request, id, owner)
    if batch.is_running:
        problem = f"the batch {id!r} has not ended; cancel it, or wait for its end"
        raise ApiError(400, problem, code="invalid_value")
    return batch


@messages_router.delete("/{batch_id}", responses=MESSAGES_ERRORS)
async def delete(batch_id: str, request: Request, caller: AuthenticatedCaller) -> dict[str, Any]:
    """Delete a batch that has ended, with its results."""
    await _ended(request, batch_id, caller.owner)
    await services_of(request).store.batches.delete(batch_id, caller.owner)
    return {"id": batch_id, "type": "message_batch_deleted"}


@messages_router.get(
    "/{batch_id}/results",
    response_class=Response,
    responses={**MESSAGES_ERRORS, 200: {"content": {"application/x-jsonl": {}}}},
)
async def results(
    batch_id: str, request: Request, caller: AuthenticatedCaller
) -> StreamingResponse:
    """Send the answers of a batch that has ended, a line of JSON for each request."""
    services = services_of(request)
    batch = await _ended(request, batch_id, caller.owner)

    all_names = await services.store.batches.names(batch.id, batch.owner)

    async def lines() -> AsyncGenerator[bytes, None]:
        for names, places in _pages(all_names):
            found = await services.store.run(batch.owner, _answers, batch, places)
            for name, answer in zip(names, found, strict=True):
                yield f"{json_text(messages_batch_line(name, answer, batch.status))}\n".encode()

    return StreamingResponse(lines(), media_type="application/x-jsonl")
