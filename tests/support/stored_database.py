"""A database with rows in every table of a server, for the tests of later versions.

    PYTHONPATH=tests python -m support.stored_database

writes it as SQL into ``tests/data/databases``, under the name of this version, and beside it what
the server answers. It is run once for a release.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from gpt_oss_harmony import __version__
from gpt_oss_harmony.server.auth.api_keys import hash_key
from gpt_oss_harmony.server.store import Store
from gpt_oss_harmony.server.store.keys import KeyLimits, KeyRecord
from gpt_oss_harmony.server.store.tables import METADATA

from .responses_server import CALL, NOW, TEXT, THOUGHT, create
from .server_tools import COMPUTE, PretendedPython, RoomyEngine, compute, serving_tools

FOLDER = Path(__file__).parents[1] / "data" / "databases"
SETTINGS: dict[str, Any] = {"keep_days": None}
QUESTION = [{"role": "user", "content": "hi"}]
KEY = "sk-harmony-stored"
HEADERS = {"Authorization": f"Bearer {KEY}"}
COMPUTED = (compute("write a.txt 1"), TEXT)
COMPLETIONS = (THOUGHT + CALL, TEXT, TEXT, *COMPUTED, *COMPUTED, TEXT, TEXT, TEXT)


def fill(client: TestClient) -> list[str]:
    """Have things stored; return the paths at which the server shows them."""
    talk = posted(client, "conversations", items=[{"type": "message", **QUESTION[0]}])
    first = create(client, input="hi", tools=[NOW], metadata={"a": "b"})["id"]
    second = create(client, input="and?", previous_response_id=first)["id"]
    third = create(client, input="so?", conversation=talk)["id"]
    computed = create(client, input="1?", conversation=talk, tools=[COMPUTE])
    alone = create(client, input="1?", tools=[COMPUTE])  # it keeps the session of the tool itself
    written = f"/v1/containers/{computed['output'][0]['container_id']}/files"
    (code_file,) = client.get(written).json()["data"]
    chat = posted(client, "chat/completions", messages=QUESTION, store=True, metadata={"a": "b"})
    ask = {"model": "script", "max_tokens": 99, "messages": QUESTION}
    posted(client, "messages", **ask, thread={"type": "create"})
    batch = posted(client, "messages/batches", requests=[{"custom_id": "a", "params": ask}])
    deadline = time.monotonic() + 60
    while client.get(f"/v1/messages/batches/{batch}").json()["processing_status"] != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    part = {"data": ("a.txt", b"kept", "text/plain")}
    about = {"purpose": "user_data", "filename": "a.txt", "bytes": 4, "mime_type": "text/plain"}
    upload = posted(client, "uploads", **about)
    part_id = client.post(f"/v1/uploads/{upload}/parts", files=part).json()["id"]
    done = client.post(f"/v1/uploads/{upload}/complete", json={"part_ids": [part_id]}).json()
    file = done["file"]["id"]
    body = {"name": "work", "file_ids": [file]}
    client.post("/v1/containers", json=body, headers={"Idempotency-Key": "a"}).raise_for_status()
    responses = (first, second, third, computed["id"], alone["id"])
    return [
        *(f"/v1/responses/{id}{part}" for id in responses for part in ("", ITEMS)),
        *(f"/v1/conversations/{talk}{part}" for part in ("", "/items")),
        *(f"/v1/chat/completions/{chat}{part}" for part in ("", "/messages")),
        *(f"/v1/files/{file}{part}" for part in ("", "/content")),
        *(written, f"{written}/{code_file['id']}/content"),
        *(f"/v1/messages/batches/{batch}{part}" for part in ("", "/results")),
    ]


ITEMS = "/input_items"


def posted(client: TestClient, path: str, **body: Any) -> str:
    """Have something made, and return its id."""
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def shown(client: TestClient, path: str) -> Any:
    """What the server shows at a path: JSON, or the text of a file."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    is_file = answer.headers["content-type"] == "application/octet-stream"
    return answer.text if is_file else answer.json()


def main() -> None:
    """Write the database and the answers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "harmony.db")
        with Store(file) as store:
            limits = KeyLimits(requests_per_minute=1000)
            store.keys.add(KeyRecord("key_stored", hash_key(KEY), "stored", 1, limits=limits))
        settings = {**SETTINGS, "database": f"sqlite:///{file}"}
        engine = RoomyEngine(*COMPLETIONS)
        with serving_tools(engine, PretendedPython(), **settings) as client:
            client.headers.update(HEADERS)
            answers = {path: shown(client, path) for path in fill(client)}
        with Store(file) as store:  # servers of one SQLite file count in memory
            request = store.key_requests.begin("key_stored", lambda *_: None)
            store.key_requests.end(str(request), tokens=3)
        with closing(sqlite3.connect(file)) as connection:
            for name in METADATA.tables:
                count = connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
                assert count, f"the table {name} is empty; let `fill` have something stored in it"
            script = "\n".join(connection.iterdump())
    (FOLDER / f"{__version__}.sql").write_text(script + "\n", encoding="utf-8")
    text = json.dumps(answers, indent=1, ensure_ascii=False)
    (FOLDER / f"{__version__}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
