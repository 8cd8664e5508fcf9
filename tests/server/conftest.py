"""What holds in all tests of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@pytest.fixture(autouse=True)
def _no_query_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse the server's queries in the thread of an event loop: a database may be locked.

    Short chats are planned in that thread, so they may ask for nothing that is stored.
    """
    from gpt_oss_harmony.server.store.database import Database

    asked = Database.errors_named

    @contextmanager
    def asked_in_a_thread(self: Database) -> Iterator[None]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        with asked(self):
            yield

    monkeypatch.setattr(Database, "errors_named", asked_in_a_thread)
