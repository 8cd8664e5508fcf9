"""One of everything that the paths of the server name, made by its own requests."""

from __future__ import annotations

import json
from typing import Any

import httpx2


def make_named(client: httpx2.Client, path: str) -> dict[str, str]:
    """Make what a path of the OpenAPI document names, and return the ids by their names.

    The base URL of the client ends in ``/v1``.
    """
    ids = {"name": "script"}
    hi = [{"role": "user", "content": "Hi!"}]

    def new(place: str, **body: Any) -> str:
        answer = client.post(place, **({"json": body} if "files" not in body else body))
        assert answer.status_code == 200, answer.text
        id: str = answer.json()["id"]
        return id

    if "{response_id}" in path:
        ids["response_id"] = new("/responses", model="script", input="Hi!")
    if "{completion_id}" in path:
        ids["completion_id"] = new("/chat/completions", model="script", messages=hi, store=True)
    if "{conversation_id}" in path:
        talk = ids["conversation_id"] = new("/conversations", items=hi)
        ids["item_id"] = client.get(f"/conversations/{talk}/items").json()["data"][0]["id"]
    if "{upload_id}" in path:
        kinds = {"purpose": "user_data", "mime_type": "text/plain"}
        ids["upload_id"] = new("/uploads", filename="a.txt", bytes=2, **kinds)
    if "{container_id}" in path:
        ids["container_id"] = new("/containers", name="a")
        place = f"/containers/{ids['container_id']}/files"
        ids["file_id"] = new(place, files={"file": ("a.txt", b"Hi")})
    elif "{file_id}" in path:
        file = {"file": ("a.txt", b"Hi")}
        ids["file_id"] = new("/files", files=file, data={"purpose": "user_data"})
    if "/messages/batches/{batch_id}" in path:
        asked = {"model": "script", "max_tokens": 9, "messages": hi}
        requests = [{"custom_id": "a", "params": asked}]
        ids["batch_id"] = new("/messages/batches", requests=requests)
    elif "{batch_id}" in path:
        line = {"custom_id": "a", "method": "POST", "url": "/v1/responses"}
        lines = json.dumps({**line, "body": {"model": "script", "input": "Hi!"}})
        file = {"file": ("a.jsonl", lines.encode())}
        source = new("/files", files=file, data={"purpose": "batch"})
        times = {"endpoint": "/v1/responses", "completion_window": "24h"}
        ids["batch_id"] = new("/batches", input_file_id=source, **times)
    return {name: id for name, id in ids.items() if f"{{{name}}}" in path}
