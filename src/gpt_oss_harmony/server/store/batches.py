"""Batches: requests that are answered within a day, and their answers, for the APIs that have them.

A batch belongs to the server that works on it. When that has died, another one goes on with the
requests that have no answer yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from sqlalchemy import delete, func, insert, select, update

from ...apis.batches import MESSAGES_ENDPOINT, Batch
from ...apis.files import UploadedFile
from .database import lock_key
from .files import changing_files, insert_file
from .owned_data import size_of
from .rows import DescribedRows, Order, Page
from .running_servers import Lease
from .tables import batch_results, batches

BatchRequest: TypeAlias = tuple[str, dict[str, Any]]
"""The client's id of a request, and its body."""

_RUNNING = ("in_progress", "cancelling")


@dataclass(frozen=True)
class BatchResult:
    """The answer to the request at `position`; `status` is that of HTTP."""

    position: int
    status: int
    answer: Mapping[str, Any]


class Batches(DescribedRows[Batch]):
    """The batches in a database; `Store` makes it."""

    kind = "batch"
    table = batches
    record = Batch

    def add(self, batch: Batch, requests: Sequence[BatchRequest]) -> None:
        """Store a batch. Raises `StorageFullError` if the owner has no room for it."""
        adding = self._quota.adding(batch.owner, size_of(list(requests), batch.state), rows=1)
        with adding, self._database.writing() as connection:
            connection.execute(insert(batches).values(**vars(batch), requests=list(requests)))

    def page(
        self, owner: str, *, after: str | None, limit: int, order: Order, of_messages: bool
    ) -> Page[Batch]:
        """Read at most `limit` batches of one of the APIs after the one with the id `after`."""
        is_of_messages = batches.c.endpoint == MESSAGES_ENDPOINT
        query = self._visible(owner).where(is_of_messages if of_messages else ~is_of_messages)
        return self._page(query, owner, after=after, limit=limit, order=order)

    def counts(self, id: str, owner: str) -> Counter[bool]:
        """Count the answers so far: True for those that succeeded."""
        column, counts = batch_results.c.status, Counter[bool]()
        query = select(column, func.count()).where(batch_results.c.batch_id == id).group_by(column)
        with self._database.reading() as connection:
            self.read(connection, id, owner)
            for status, count in connection.execute(query):
                counts[status == 200] += count
        return counts

    def claim(self, lease: Lease, busy: Collection[str]) -> list[Batch]:
        """Return the batches of this server, and take those of dead servers.

        New ones are taken of owners that are not `busy` here, the oldest of each.
        """
        here, busy = self._server.id, set(busy)
        running = batches.c.status.in_(_RUNNING)
        query = select(*(batches.c[each.name] for each in fields(Batch)), batches.c.server_id)
        claimed: list[Batch] = []
        with self._database.reading() as connection:  # mostly there is none
            if connection.execute(select(batches.c.id).where(running).limit(1)).first() is None:
                return claimed
        with self._database.writing() as connection:
            self._database.lock(connection, lock_key("batches"))
            for row in connection.execute(
                query.where(running).order_by(batches.c.created_at)
            ).all():
                server = row.server_id
                if server != here:
                    # To end a batch takes no place at the engine, so a cancelled one waits for no
                    # other.
                    if row.owner in busy and row.status != "cancelling":
                        continue
                    if server is not None and not lease.is_gone(connection, server):
                        continue
                    taken = update(batches).where(batches.c.id == row.id)
                    connection.execute(taken.values(server_id=here))
                busy.add(row.owner)
                claimed.append(Batch(*row[:-1]))
        return claimed

    def open(self, id: str, owner: str) -> list[tuple[int, BatchRequest]]:
        """Read the requests of a running batch that have no answer, with their positions."""
        done = select(batch_results.c.position).where(batch_results.c.batch_id == id)
        query = self._visible(owner).where(batches.c.id == id, batches.c.status.in_(_RUNNING))
        with self._database.reading() as connection:
            requests = connection.execute(query.with_only_columns(batches.c.requests)).scalar()
            answered = set(connection.execute(done).scalars())
        return [each for each in enumerate(requests or ()) if each[0] not in answered]

    def answer(self, id: str, owner: str, result: BatchResult) -> None:
        """Store an answer, unless the batch has ended or was deleted."""
        running = (batches.c.id == id) & batches.c.status.in_(_RUNNING)
        with self._database.writing() as connection:
            # Locked until the answer is stored: `finish` counts the answers under the same lock.
            if connection.execute(select(batches.c.id).where(running).with_for_update()).first():
                values = {"batch_id": id, **vars(result)}
                connection.execute(insert(batch_results).values(**values))
                self._quota.note(connection, owner, size_of(result.answer), rows=1)

    def names(self, id: str, owner: str) -> list[str]:
        """Read the clients' ids of all requests. All requests are read for it: ask once."""
        query = self._visible(owner).where(batches.c.id == id)
        with self._database.reading() as connection:
            requests = connection.execute(query.with_only_columns(batches.c.requests)).scalar()
        return [name for name, _ in requests or ()]

    def results(self, id: str, owner: str, places: range) -> dict[int, BatchResult]:
        """Read the answers to the requests at some positions, by position."""
        table, place = batch_results, batch_results.c.position
        wanted = (table.c.batch_id == id, place >= places.start, place < places.stop)
        query = select(place, table.c.status, table.c.answer).where(*wanted)
        with self._database.reading() as connection:
            self.read(connection, id, owner)
            rows = connection.execute(query).all()
        return {row.position: BatchResult(**row._mapping) for row in rows}

    def cancel(self, id: str, owner: str) -> Batch:
        """Let the server that works on a batch end it; return it."""
        with self._database.writing() as connection:
            batch = self.read(connection, id, owner, to_write=True)
            if batch.status == "in_progress":
                now = int(self._server.now())
                state = {**batch.state, "cancelling_at": now}
                batch = replace(batch, status="cancelling", state=state)
                change = update(batches).where(batches.c.id == id)
                connection.execute(change.values(status=batch.status, state=state))
        return batch

    def finish(self, batch: Batch, files: Sequence[tuple[UploadedFile, bytes]] | None) -> bool:
        """Store the end of a batch; `files` have its answers in place of the batch itself.

        Return False, and store nothing, if there are other answers than its `counts`: one came
        while these were read.
        """
        which = (batches.c.id == batch.id) & batches.c.status.in_(_RUNNING)
        of_batch = batch_results.c.batch_id == batch.id
        number = select(func.count()).select_from(batch_results).where(of_batch)
        with changing_files(self._database, batch.owner) as connection:
            query = select(batches.c.requests).where(which).with_for_update()
            requests = connection.execute(query).scalar()
            if requests is None:  # it was deleted, or has ended: its answers are no longer here
                return True
            if connection.execute(number).scalar_one() != sum(batch.state["counts"]):
                return False
            # Anthropic's results name their requests, so the names stay when the bodies go.
            left: list[BatchRequest] = [(name, {}) for name, _ in requests] if files is None else []
            change = {"status": batch.status, "state": batch.state, "requests": left}
            connection.execute(update(batches).where(which).values(**change, server_id=None))
            if files is not None:
                connection.execute(delete(batch_results).where(of_batch))
            for file, data in files or ():
                insert_file(connection, file, data)
                self._quota.note(connection, batch.owner, len(data), rows=2)
        return True
