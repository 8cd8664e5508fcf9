"""Chat completions of requests with ``store``, with their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert

from .owned_data import size_of
from .rows import DescribedRows, Order, Page
from .tables import chat_completions


@dataclass(frozen=True)
class StoredCompletion:
    """A completion in the form for clients, its metadata, and the messages of its request."""

    id: str
    owner: str
    model: str
    created_at: int
    expires_at: int | None
    metadata: dict[str, str]
    completion: Mapping[str, Any]
    messages: list[Any]


class StoredCompletions(DescribedRows[StoredCompletion]):
    """The chat completions in a database; `Store` makes it."""

    kind = "completion"
    table = chat_completions
    record = StoredCompletion

    def add(self, completion: StoredCompletion) -> None:
        """Store a completion. Raises `StorageFullError` if the owner has no room for it."""
        size = size_of(completion.completion, completion.messages)
        adding = self._quota.adding(completion.owner, size, rows=1)
        with adding, self._database.writing() as connection:
            connection.execute(insert(chat_completions).values(**vars(completion)))

    def page(
        self,
        owner: str,
        *,
        after: str | None = None,
        limit: int = 20,
        order: Order = "asc",
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Page[StoredCompletion]:
        """Read at most `limit` completions after the one with the id `after`.

        `model` and `metadata` select completions.
        """
        query = self._visible(owner)
        if model is not None:
            query = query.where(chat_completions.c.model == model)
        return self._page(
            query,
            owner,
            after=after,
            limit=limit,
            order=order,
            is_wanted=lambda stored: (metadata or {}).items() <= stored.metadata.items(),
        )
