"""Databases of earlier schemas, with data, as their own versions of the library wrote them.

`scripts/schema_fixture.py` writes those of the newest schema to `tests/data/schemas`.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gpt_oss_harmony.server.store import NewItem, NewResponse, Store
from gpt_oss_harmony.server.store.tables import METADATA

pytest_plugins = ("support.postgres_server", "support.databases")

DUMPS = sorted((Path(__file__).parents[1] / "data" / "schemas").glob("*.sql"))
CONVERSATION = {"topic": "demo"}
QUESTION = {"type": "message", "role": "user", "content": "Où? \ud83d"}


def restored(request: pytest.FixtureRequest, folder: Path, dump: Path) -> str:
    """Make a database of a dump; return its URL."""
    script = dump.read_text(encoding="utf-8")
    if ".sqlite." in dump.name:
        path = folder / "harmony.db"
        connection = sqlite3.connect(path)
        connection.executescript(script)
        connection.close()
        return str(path)
    url: str = request.getfixturevalue("postgres_url")
    with psycopg.connect(url) as server:
        server.execute(script.encode())
    return url


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.stem)
def test_a_database_of_an_earlier_schema_goes_on(
    request: pytest.FixtureRequest, tmp_path: Path, dump: Path
) -> None:
    with Store(restored(request, tmp_path, dump)) as store:
        with store._database.reading() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, METADATA) == []
        assert store.conversations.get("conv_1", "key_1").metadata == CONVERSATION
        assert store.responses.get("resp_1", "key_1").output[0].tokens == (200005, 35644, 200008, 1)
        assert store.responses.events("resp_1", "key_1") == [{"type": "response.completed"}]
        assert store.responses.history("resp_1", "key_1")[0].item == QUESTION
        assert [key.name for key in store.keys.all()] == ["laptop", "é \0 old"]
        assert store.keys.all()[0].limits.tokens_per_minute == 1000
        if dump.name >= "0002":
            assert store.files.data("cntr_1", "cfile_1", "key_1") == b"\x89PNG\x00"
            (session,) = store.sessions.after_response("resp_1", "key_1")
            assert session.data == '{"cells": ["1"]}'
        if dump.name >= "0003":
            assert store.completions.get("chatcmpl-1", "key_1").metadata == {"a": "b"}
        # What ran when the old version ended has failed, and the conversation goes on.
        assert store.start_serving() == 1
        assert store.responses.get("resp_2", "key_1").status == "failed"
        store.responses.begin(
            NewResponse("resp_3", "key_1", 5, {}, [NewItem("m", {})], previous_response_id="resp_1")
        )
        assert store.responses.finish("resp_3", status="completed", body={})
        assert len(store.responses.history("resp_3", "key_1")) == 3


def test_every_released_schema_is_here() -> None:
    assert {dump.name[:4] for dump in DUMPS} >= {"0001", "0002", "0003"}
