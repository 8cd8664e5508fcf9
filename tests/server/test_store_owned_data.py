"""All that an owner has: exported and deleted in every table, and expired; copies of a database."""

from __future__ import annotations

import json
import sqlite3
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, LargeBinary, Table, func, insert, select
from sqlalchemy.types import BigInteger, Integer

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.server.store import (
    Conversation,
    KeyLimits,
    KeyRecord,
    NewFile,
    NewItem,
    NewResponse,
    NotFoundError,
    Store,
    StoreError,
)
from gpt_oss_harmony.server.store.owned_data import owned_tables
from gpt_oss_harmony.server.store.tables import METADATA, JsonText, TokenIds
from support.databases import Clock

pytest_plugins = ("support.postgres_server", "support.databases")

NO_OWNERS = {"api_keys", "stored_bytes"}
"""Tables without data of users. Say how a new table is deleted before you add it here.

The row of a key stays, without its name. The number of its bytes is deleted with the data.
"""

KEPT = {"conversations", "conversation_items", "conversation_sessions"}
"""What does not expire: as with OpenAI's API, a conversation stays until it is deleted."""


def value(column: Column[Any], owner: str, given: Mapping[str, Any]) -> Any:
    """Any value of the column's type, in a row that belongs to the owner."""
    if column.name in given:
        return given[column.name]
    if column.foreign_keys and not column.nullable:
        return f"{owner}-id"
    if column.nullable and not isinstance(column.type, LargeBinary):
        return None
    if isinstance(column.type, (Integer, BigInteger)):
        return 1
    if isinstance(column.type, Boolean):
        return False
    if isinstance(column.type, JsonText):
        return {"said": "hello"}
    if isinstance(column.type, TokenIds):
        return (200005, 1)
    if isinstance(column.type, LargeBinary):
        return zlib.compress(b'[{"type": "response.completed"}]')
    return f"{owner}-{column.name}"


def fill(store: Store, owner: str, **given: Any) -> None:
    """Write a row of the owner into every table, whatever its columns are."""
    with store._database.writing() as connection:
        for table in owned_tables():
            row = {
                column.name: value(column, owner, {"owner": owner, **given}) for column in table.c
            }
            connection.execute(insert(table), row)
    store.keys.add(KeyRecord(owner, f"hash of {owner}", "laptop", 1, None, KeyLimits()))


def counts(store: Store) -> dict[str, int]:
    def count(table: Table) -> int:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()

    with store._database.reading() as connection:
        return {name: count(table) for name, table in METADATA.tables.items()}


def test_every_table_belongs_to_owners_or_says_why_not() -> None:
    assert {table.name for table in owned_tables()} == METADATA.tables.keys() - NO_OWNERS


def test_deletion_leaves_nothing_of_the_owner_and_all_of_others(store: Store, clock: Clock) -> None:
    for owner in ("key_a", "key_b", ""):
        fill(store, owner)
    whole = counts(store)
    others = {owner: list(store.owned.export(owner)) for owner in ("key_b", "")}
    store.quota.limit = 10**9
    with store.quota.adding("key_a", 1, rows=0):
        pass
    assert store.owned.owners() == ["", "key_a", "key_b"]
    assert store.owned.delete("key_a") == {table.name: 1 for table in owned_tables()}
    assert counts(store) == {name: rows - (name not in NO_OWNERS) for name, rows in whole.items()}
    assert store.owned.count("key_a") == {}
    assert {owner: list(store.owned.export(owner)) for owner in others} == others
    key = store.keys.find("hash of key_a")
    assert key is not None
    assert (key.name, key.revoked_at) == ("deleted", int(clock()))
    assert store.owned.delete("key_a") == {}


def test_a_chain_of_responses_goes_as_a_whole(store: Store) -> None:
    table = METADATA.tables["responses"]
    with store._database.writing() as connection:
        for number in range(5):
            previous = f"resp_{number - 1}" if number else None
            given = {"owner": "key_a", "id": f"resp_{number}", "previous_response_id": previous}
            row = {column.name: value(column, "key_a", given) for column in table.c}
            connection.execute(insert(table), row)
    assert store.owned.delete("key_a") == {"responses": 5}


def test_a_response_under_way_stores_nothing_afterwards(store: Store) -> None:
    store.conversations.create(Conversation("conv_1", "key_a", 0, {}))
    begun = NewResponse("resp_1", "key_a", 0, {}, [NewItem("m", {})], conversation_id="conv_1")
    store.responses.begin(begun)
    store.owned.delete("key_a")
    with pytest.raises(NotFoundError):
        store.files.add("resp_1", [NewFile("cfile_1", "cntr_1", "a", "text/plain", b"a")])
    output = [NewItem("n", {})]
    assert not store.responses.finish("resp_1", status="completed", body={}, output=output)
    assert store.owned.owners() == []
    assert set(counts(store).values()) == {0}


def test_an_export_has_every_row_and_no_hash(store: Store) -> None:
    fill(store, "key_a")
    fill(store, "key_b")
    rows = {row.table: row.columns for row in store.owned.export("key_a")}
    assert rows.keys() == METADATA.tables.keys() - {"stored_bytes"}
    text = json.dumps(rows)
    assert "key_b" not in text
    assert "hash of key" not in text
    assert "hash" not in rows["api_keys"]
    assert rows["files"]["hash"] == rows["contents"]["hash"]
    assert rows["responses"]["events"] == [{"type": "response.completed"}]
    assert rows["response_items"]["item"] == {"said": "hello"}


def test_what_expires_goes_from_every_table(store: Store, clock: Clock) -> None:
    fill(store, "key_a", expires_at=int(clock()))
    fill(store, "key_b", expires_at=int(clock()) + 1)
    store.maintain()
    left = {name: rows for name, rows in counts(store).items() if name not in NO_OWNERS | KEPT}
    assert set(left.values()) == {1}
    clock.time += 1
    store.maintain()
    left = {name: rows for name, rows in counts(store).items() if name not in NO_OWNERS | KEPT}
    assert set(left.values()) == {0}


def test_deleted_words_are_in_none_of_sqlites_files(tmp_path: Path) -> None:
    words = "a canary of considerable length " * 20
    with Store(tmp_path / "harmony.db") as store:
        store.conversations.create(Conversation("conv_1", "key_a", 0, {"said": words}))
        files = [path.read_bytes() for path in tmp_path.iterdir()]
        assert any(b"considerable" in data for data in files)
        store.owned.delete("key_a")
        for path in tmp_path.iterdir():
            assert b"considerable" not in path.read_bytes(), path


# Copies


def test_a_copy_is_a_database_for_its_owner_alone(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with Store(tmp_path / "harmony.db") as store:
        store.start_serving()
        fill(store, "key_a")
        # What another process writes, and has not committed, is not in it.
        with sqlite3.connect(tmp_path / "harmony.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("DELETE FROM conversations")
            store.back_up(copy)
            other.execute("ROLLBACK")
        other.close()
        whole = counts(store)
        with pytest.raises(StoreError, match=r"copy\.db cannot be made: File exists; name a new"):
            store.back_up(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with Store(copy, must_exist=True) as store:
        store.start_serving()
        assert counts(store) == whole


def test_postgres_has_a_program_for_copies(empty_postgres: str, tmp_path: Path) -> None:
    with (
        Store(empty_postgres) as store,
        pytest.raises(StoreError, match="pg_dump --format custom --file"),
    ):
        store.back_up(tmp_path / "copy.db")


# The command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "harmony.db"
    with Store(path) as store:
        store.conversations.create(Conversation("conv_1", "key_a", 5, {"topic": "é"}))
        store.conversations.create(Conversation("conv_2", "", 5, {}))

    def run(*arguments: str) -> str:
        assert main(["data", *arguments, "--database", str(path)]) == 0
        return capsys.readouterr().out

    assert run("owners") == "'' (requests without a key)  1 conversation\nkey_a  1 conversation\n"
    (line,) = run("export", "--owner", "key_a").splitlines()
    row = {"id": "conv_1", "owner": "key_a", "created_at": 5, "metadata": {"topic": "é"}}
    assert json.loads(line) == {"table": "conversations", "columns": {**row, "next_position": 0}}
    assert "repeat the command with --yes" in run("delete", "--owner", "key_a")
    assert run("backup", str(tmp_path / "copy.db")).startswith(str(tmp_path / "copy.db"))
    assert run("delete", "--owner", "key_a", "--yes") == "deleted: 1 conversation\n"
    assert run("owners") == "'' (requests without a key)  1 conversation\n"
    assert run("delete", "--owner", "", "--yes") == "deleted: 1 conversation\n"
    assert main(["data", "owners", "--database", str(path)]) == 0
    assert capsys.readouterr().err == "harmony: nobody has stored anything\n"
    with Store(tmp_path / "copy.db") as copied:
        assert copied.owned.owners() == ["", "key_a"]


def test_a_mistyped_database_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "owners", "--database", str(tmp_path / "none.db")]) == 1
    assert "there is no database" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
