"""A database with one of everything that a server keeps, for the tests of later versions.

    PYTHONPATH=tests python -m support.stored_database

writes it as SQL into ``tests/data/databases``, under the name of this version, and beside it what
the server answers. It is run once for a release.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from gpt_oss_harmony import __version__

from .responses_server import CALL, NOW, TEXT, THOUGHT, create, serving

FOLDER = Path(__file__).parents[1] / "data" / "databases"
SETTINGS: dict[str, Any] = {"keep_days": None}
QUESTION = [{"role": "user", "content": "hi"}]


def fill(client: TestClient) -> list[str]:
    """Have things stored; return the paths at which the server shows them."""
    talk = posted(client, "conversations", items=[{"type": "message", **QUESTION[0]}])
    first = create(client, input="hi", tools=[NOW], metadata={"a": "b"})["id"]
    second = create(client, input="and?", previous_response_id=first)["id"]
    third = create(client, input="so?", conversation=talk)["id"]
    chat = posted(client, "chat/completions", messages=QUESTION, store=True, metadata={"a": "b"})
    upload = {"file": ("a.txt", b"kept", "text/plain")}
    answer = client.post("/v1/files", data={"purpose": "user_data"}, files=upload)
    file = answer.json()["id"]
    return [
        *(f"/v1/responses/{id}{part}" for id in (first, second, third) for part in ("", ITEMS)),
        *(f"/v1/conversations/{talk}{part}" for part in ("", "/items")),
        *(f"/v1/chat/completions/{chat}{part}" for part in ("", "/messages")),
        f"/v1/files/{file}",
    ]


ITEMS = "/input_items"


def posted(client: TestClient, path: str, **body: Any) -> str:
    """Have something made, and return its id."""
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def main() -> None:
    """Write the database and the answers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "harmony.db")
        completions = (THOUGHT + CALL, TEXT, TEXT, TEXT)
        with serving(*completions, database=f"sqlite:///{file}", **SETTINGS) as client:
            answers = {path: client.get(path).json() for path in fill(client)}
        with closing(sqlite3.connect(file)) as connection:
            script = "\n".join(connection.iterdump())
    (FOLDER / f"{__version__}.sql").write_text(script + "\n", encoding="utf-8")
    text = json.dumps(answers, indent=1, ensure_ascii=False)
    (FOLDER / f"{__version__}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
