"""Write databases of the newest schema, with data, to `tests/data/schemas`; run at each release.

`tests/server/test_store_upgrade.py` upgrades them with later versions. Those of released schemas
are never written again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import sqlite3  # noqa: E402

from sqlalchemy import text  # noqa: E402

from gpt_oss_harmony.server.store import (  # noqa: E402
    Conversation,
    KeyLimits,
    KeyRecord,
    NewFile,
    NewItem,
    NewResponse,
    Store,
    StoredCompletion,
    StoredSession,
)
from support.postgres_server import new_database, postgres_programs, running_postgres  # noqa: E402

FOLDER = ROOT / "tests" / "data" / "schemas"
NOISE = ("--", "\\", "SET ", "SELECT pg_catalog.set_config")  # of pg_dump
LATER = 1_993_800_000  # seconds since 1970
TOKENS = (200005, 35644, 200008, 1)


def main() -> None:
    """Write both dumps."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "harmony.db")
        revision = fill(str(path))
        connection = sqlite3.connect(path)
        write(revision, "sqlite", list(connection.iterdump()))
        connection.close()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_postgres() as server,
        new_database(server) as url,
    ):
        fill(url)
        program = str(postgres_programs(Path(folder)) / "pg_dump")  # as new as the server
        command = [program, "--inserts", "--no-owner", "--no-privileges", url]
        dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines = [line for line in dump.splitlines() if line and not line.startswith(NOISE)]
        write(revision, "postgresql", lines)


def write(revision: str, kind: str, lines: list[str]) -> None:
    """Write a dump, unless it was released before."""
    path = FOLDER / f"{revision}.{kind}.sql"
    with path.open("x", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(path.relative_to(ROOT))


def fill(url: str) -> str:
    """Write one of everything; return the revision of the schema."""
    with Store(url, clock=lambda: 1_763_800_000) as store:
        store.keys.add(KeyRecord("key_1", "0" * 64, "laptop", 1, None, KeyLimits(60, None, 1000)))
        store.keys.add(KeyRecord("key_2", "1" * 64, "é \0 old", 2, 3))
        first = NewItem("msg_0", {"type": "message", "role": "user", "content": "Hi"})
        conversation = Conversation("conv_1", "key_1", 1, {"topic": "demo"})
        store.conversations.create(conversation, [first])
        question = {"type": "message", "role": "user", "content": "Où? \ud83d"}
        body = {"id": "resp_1", "model": "demo"}
        begun = NewResponse(
            "resp_1", "key_1", 2, body, [NewItem("msg_q", question)], expires_at=LATER
        )
        store.responses.begin(begun)
        store.files.add(
            "resp_1", [NewFile("cfile_1", "cntr_1", "plot.png", "image/png", b"\x89PNG\x00")]
        )
        answer = {"type": "message", "role": "assistant", "content": []}
        store.responses.finish(
            "resp_1",
            status="completed",
            body=body,
            output=[NewItem("msg_a", answer, TOKENS, [{"role": "tool", "text": "4"}])],
            events=['{"type":"response.completed"}'],
            completed_at=3,
            sessions=[StoredSession("python", "cntr_1", '{"cells": ["1"]}')],
        )
        follows = NewResponse(
            "resp_2",
            "key_1",
            4,
            {"id": "resp_2"},
            [NewItem("msg_q2", question)],
            status="queued",
            background=True,
            previous_response_id="resp_1",
            expires_at=LATER,
        )
        store.responses.begin(follows)
        messages = [{"role": "user", "content": "Hi"}]
        store.completions.add(
            StoredCompletion(
                "chatcmpl-1", "key_1", "demo", 5, LATER, {"a": "b"}, {"choices": []}, messages
            )
        )
        with store._database.reading() as connection:
            query = text("SELECT version_num FROM alembic_version")
            return str(connection.execute(query).scalar_one())


if __name__ == "__main__":
    main()
