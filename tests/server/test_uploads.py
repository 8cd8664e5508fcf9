"""Files and containers, by OpenAI's SDK: uploaded, listed, read by model and code, deleted."""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx2
import openai
import pytest
from openai import OpenAI

from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.server.fair_turns import FairPool
from gpt_oss_harmony.server.file_texts import FileTexts
from gpt_oss_harmony.server.store import PartialUpload, Store, UploadedFile, UploadError
from gpt_oss_harmony.server.tools.conversation_tools import ConversationTools
from gpt_oss_harmony.tools.python.python_tool import PythonTool
from gpt_oss_harmony.tools.python.session import PythonSession
from support.hostile_pages import pdf
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, sdk, serving
from support.server_tools import PretendedPython, RoomyEngine, _Memory, answer, compute

KEYS = ("mine", "another's")
MODEL = "script"
TABLE = b"town,people\nOslo,700000\n"


class Folder(_Memory):
    """The session of a notebook with files."""

    def __init__(self, cells: Sequence[str] = (), uploads: Sequence[str] = ()) -> None:
        super().__init__(cells)
        self.uploads = list(uploads)
        self.put: list[tuple[str, bytes]] = []

    def add_upload(self, id: str, path: str, data: bytes) -> None:
        self.uploads.append(id)
        self.put.append((path, data))

    def to_json(self) -> str:
        return json.dumps({"cells": self.cells, "uploads": self.uploads})


class PythonWithFiles(PretendedPython):
    """Keeps the sessions that it opened, whose files show what code would find."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[Folder] = []

    def new_session(self) -> Folder:
        self.sessions.append(Folder())
        return self.sessions[-1]

    def load_session(self, stored: str) -> Folder:
        self.sessions.append(Folder(**json.loads(stored)))
        return self.sessions[-1]


ENGINE = RoomyEngine()
PYTHON = PythonWithFiles()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(api_keys=KEYS, max_request_bytes=100_000)
    with serving(ENGINE, settings, [PYTHON]) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[OpenAI]:
    ENGINE.completions.clear()
    ENGINE.prompts.clear()
    PYTHON.sessions.clear()
    with sdk(url, KEYS[0]) as client:
        yield client


def upload(client: OpenAI, name: str = "towns.csv", data: bytes = TABLE) -> str:
    return client.files.create(file=(name, data), purpose="user_data").id


# Files


def test_a_file_is_uploaded_listed_read_and_deleted(client: OpenAI, url: str) -> None:
    made = client.files.create(
        file=("../a/tücken.csv", TABLE),
        purpose="assistants",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert (made.object, made.bytes, made.filename) == ("file", len(TABLE), "tücken.csv")
    assert (made.purpose, made.status) == ("assistants", "processed")
    assert made.expires_at == made.created_at + 3600
    kept = client.files.retrieve(upload(client))
    assert kept.expires_at == kept.created_at + 30 * 24 * 3600  # as responses
    assert client.files.retrieve(made.id) == made
    assert client.files.content(made.id).content == TABLE
    assert [file.id for file in client.files.list()] == [kept.id, made.id]
    assert [file.id for file in client.files.list(order="asc", limit=1)] == [made.id, kept.id]
    assert [file.id for file in client.files.list(purpose="assistants")] == [made.id]
    with sdk(url, KEYS[1]) as other:
        assert list(other.files.list()) == []
        for ask in (other.files.retrieve, other.files.content, other.files.delete):
            with pytest.raises(openai.NotFoundError):
                ask(made.id)
    for id in (made.id, kept.id):
        deleted = client.files.delete(id)
        assert (deleted.id, deleted.deleted, deleted.object) == (id, True, "file")
    with pytest.raises(openai.NotFoundError, match="there is no file"):
        client.files.content(made.id)
    assert list(client.files.list()) == []


WRONG: list[tuple[dict[str, Any], str, int]] = [
    ({"data": {"purpose": "user_data"}, "files": {}}, "", 415),
    ({"data": {}}, "purpose", 400),
    ({"data": {"purpose": "fun"}}, "purpose", 400),
    ({"data": {"purpose": "user_data", "expires_after[seconds]": "3600"}}, "expires_after", 400),
    (
        {
            "data": {
                "purpose": "user_data",
                "expires_after[anchor]": "created_at",
                "expires_after[seconds]": "3599",
            }
        },
        "expires_after[seconds]",
        400,
    ),
    ({"data": {"purpose": "user_data"}, "files": {"file": ("..", b"a")}}, "file", 400),
    ({"data": {"purpose": "user_data"}, "files": {"file": ("a", b"a" * 100_001)}}, "", 413),
    ({"json": {"purpose": "user_data", "file": "text"}}, "file", 400),
    ({"json": {"purpose": 1}}, "", 400),
    ({"content": b"a", "headers": {"Content-Type": "text/plain"}}, "", 415),
]


@pytest.mark.parametrize(("request_", "param", "status"), WRONG)
def test_a_wrong_upload_names_the_field(
    request_: dict[str, Any], param: str, status: int, url: str
) -> None:
    if "data" in request_:
        request_ = {"files": {"file": ("a.txt", b"a")}, **request_}
    headers = {"Authorization": f"Bearer {KEYS[0]}", **request_.pop("headers", {})}
    with httpx2.Client(base_url=url, timeout=PATIENCE, headers=headers) as client:
        answered = client.post("/files", **request_)
    assert answered.status_code == status
    assert (answered.json()["error"]["param"] or "") == param


# Files that the model reads


def data_url(data: bytes) -> str:
    return f"data:application/pdf;base64,{base64.b64encode(data).decode()}"


def test_the_model_reads_text_and_pdf(client: OpenAI) -> None:
    text, paper = upload(client), upload(client, "paper.pdf", pdf("Armadillos sleep."))
    parts: list[Any] = [
        {"type": "input_file", "file_id": text},
        {"type": "input_file", "file_id": paper},
        {"type": "input_file", "filename": "b.pdf", "file_data": data_url(pdf("Owls do not."))},
        {"type": "input_text", "text": "So?"},
    ]
    ENGINE.completions += [answer("Yes."), answer("Still."), answer("Again.")]
    first = client.responses.create(model=MODEL, input=[{"role": "user", "content": parts}])
    for shown in (
        "[file: towns.csv]\ntown,people\nOslo,700000\n",
        "[file: paper.pdf]\nArmadillos sleep.",
        "[file: b.pdf]\nOwls do not.",
    ):
        assert shown in ENGINE.prompts[0]
    client.files.delete(text)
    # What was read is a part of the conversation.
    client.responses.create(model=MODEL, input="Sure?", previous_response_id=first.id)
    assert ENGINE.prompts[1].startswith(ENGINE.prompts[0].removesuffix("<|start|>assistant"))
    chat: list[Any] = [
        {"type": "file", "file": {"file_id": paper}},
        {"type": "file", "file": {"filename": "b.pdf", "file_data": data_url(pdf("Owls."))}},
    ]
    client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": chat}])
    assert "[file: paper.pdf]\nArmadillos sleep." in ENGINE.prompts[2]
    assert "[file: b.pdf]\nOwls." in ENGINE.prompts[2]
    talk = client.conversations.create(
        items=[{"role": "user", "type": "message", "content": parts[1:2]}]
    )
    (item,) = client.conversations.items.list(talk.id)
    content: Any = item.to_dict()["content"]
    stored = content[0]
    assert stored["file_id"] == paper
    assert "file_data" not in stored  # the text that the model reads is not the file
    listed: Any = client.responses.input_items.list(first.id, order="asc").data[0].to_dict()
    csv, *papers, _ = listed["content"]
    assert csv["file_data"].startswith("data:text/plain;base64,")
    assert [sorted(part) for part in papers] == [
        ["file_id", "filename", "type"],
        ["filename", "type"],
    ]
    body = {"input": [{"role": "user", "content": parts[1:]}]}
    rendered = client.post("/tokens/render", cast_to=httpx2.Response, body=body)
    assert rendered.json()["text"] == ENGINE.prompts[0].replace(
        "[file: towns.csv]\ntown,people\nOslo,700000\n", ""
    )
    client.files.delete(paper)


@pytest.mark.parametrize(
    ("part", "param", "problem"),
    [
        ({"file_id": "file-0"}, "file_id", "there is no file 'file-0'; upload it to /v1/files"),
        (
            {"file_data": "data:application/pdf;base64,!"},
            "file_data",
            "this is not a PDF in base64",
        ),
        ({"file_data": "data:application/pdf,a"}, "file_data", "this is not a PDF in base64"),
        ({"file_data": data_url(b"%PDF-1.4 nothing")}, "file_data", "the PDF is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    part: dict[str, str], param: str, problem: str, client: OpenAI
) -> None:
    parts: Any = [{"type": "input_file", **part}]
    with pytest.raises(openai.BadRequestError, match=problem) as caught:
        client.responses.create(model=MODEL, input=[{"role": "user", "content": parts}])
    assert caught.value.param == f"input[0].content[0].{param}"


def test_a_file_that_is_no_text_is_named(client: OpenAI) -> None:
    id = upload(client, "a.bin", b"\xff\x00")
    parts: Any = [{"type": "file", "file": {"file_id": id}}]
    with pytest.raises(openai.BadRequestError, match="neither text in UTF-8 nor a PDF") as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    assert caught.value.param == "messages[0].content[0].file.file_id"
    client.files.delete(id)


# Containers


def test_a_container_is_made_filled_used_and_deleted(client: OpenAI, url: str) -> None:
    towns = upload(client)
    made = client.containers.create(
        name="work",
        file_ids=[towns],
        expires_after={"anchor": "last_active_at", "minutes": 20},
        network_policy={"type": "disabled"},
    )
    assert (made.object, made.name, made.status) == ("container", "work", "running")
    assert made.expires_after is not None
    assert (made.expires_after.anchor, made.expires_after.minutes) == ("last_active_at", 20)
    assert client.containers.retrieve(made.id).to_dict() == made.to_dict()
    assert [container.id for container in client.containers.list()] == [made.id]
    assert list(client.containers.list(extra_query={"name": "play"})) == []
    sent = client.containers.files.create(made.id, file=("b.txt", b"B"))
    assert (sent.path, sent.bytes, sent.source) == ("/mnt/data/b.txt", 1, "user")
    copied = client.containers.files.create(made.id, file_id=towns)
    assert copied.path == "/mnt/data/towns.csv"
    client.files.delete(towns)
    assert (
        client.containers.files.content.retrieve(copied.id, container_id=made.id).content == TABLE
    )

    ENGINE.completions += [compute("write c.txt C"), answer("One."), compute("2"), answer("Two.")]
    tools: Any = [{"type": "code_interpreter", "container": made.id}]
    response = client.responses.create(model=MODEL, input="Go!", tools=tools)
    assert response.output[0].to_dict()["container_id"] == made.id
    assert PYTHON.sessions[-1].put == [("towns.csv", TABLE), ("b.txt", b"B"), ("towns.csv", TABLE)]
    listed = client.containers.files.list(made.id, order="asc")
    assert [(file.path, file.source) for file in listed][-1] == ("/mnt/data/c.txt", "assistant")
    # Each file is put there once; a later one follows, and a deleted one does not.
    client.containers.files.delete(sent.id, container_id=made.id)
    client.containers.files.create(made.id, file=("d.txt", b"D"))
    client.responses.create(model=MODEL, input="And?", tools=tools)
    assert PYTHON.sessions[-1].put == [("d.txt", b"D")]
    with pytest.raises(openai.NotFoundError):
        client.containers.files.retrieve(sent.id, container_id=made.id)

    with sdk(url, KEYS[1]) as other:
        assert list(other.containers.list()) == []
        for ask in (other.containers.retrieve, other.containers.delete):
            with pytest.raises(openai.NotFoundError):
                ask(made.id)
        with pytest.raises(openai.NotFoundError):
            other.containers.files.create(made.id, file=("e.txt", b"E"))
        with pytest.raises(openai.NotFoundError, match="no container"):
            other.containers.files.list(made.id)
    client.containers.delete(made.id)
    with pytest.raises(openai.NotFoundError, match="there is no container"):
        client.containers.retrieve(made.id)
    with pytest.raises(openai.NotFoundError, match="there is no container"):
        client.containers.files.list(made.id)
    with pytest.raises(openai.BadRequestError, match="there is no container"):
        client.responses.create(model=MODEL, input="Go!", tools=tools)


def test_the_container_of_a_conversation_can_be_filled_and_deleted(client: OpenAI) -> None:
    towns = upload(client)
    ENGINE.completions += [compute("1"), answer("One."), compute("2"), answer("Two.")]
    auto: Any = [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": [towns]}}]
    first = client.responses.create(model=MODEL, input="Go!", tools=auto)
    assert PYTHON.sessions[-1].put == [("towns.csv", TABLE)]
    id = str(first.output[0].to_dict()["container_id"])
    assert client.containers.retrieve(id).name == "auto"
    assert id not in [container.id for container in client.containers.list()]
    client.containers.files.create(id, file=("b.txt", b"B"))
    client.responses.create(model=MODEL, input="On!", tools=auto, previous_response_id=first.id)
    assert PYTHON.sessions[-1].put == [("b.txt", b"B")]
    client.containers.delete(id)
    with pytest.raises(openai.NotFoundError):
        client.containers.retrieve(id)
    client.files.delete(towns)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": "a", "memory_limit": "4g"}, "memory_limit"),
        ({"name": "a", "network_policy": {"type": "allowlist"}}, "network_policy.type"),
        ({"name": "a", "skills": [{}]}, "skills"),
        (
            {"name": "a", "expires_after": {"anchor": "last_active_at", "minutes": 0}},
            "expires_after.minutes",
        ),
    ],
)
def test_what_a_container_cannot_have_is_refused(
    body: dict[str, Any], param: str, client: OpenAI
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.post("/containers", body=body, cast_to=httpx2.Response)
    assert caught.value.param == param


def test_files_that_are_nowhere_are_named(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no file 'file-0'"):
        client.containers.create(name="a", file_ids=["file-0"])
    auto: Any = [
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-0"]}}
    ]
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input="Go!", tools=auto)
    assert caught.value.param == "tools[0].container.file_ids[0]"
    assert list(client.containers.list()) == []


class Kept(PythonTool):
    """Python itself, without a notebook; its session can be looked at."""

    def new_session(self) -> PythonSession:
        self.session = super().new_session()
        return self.session


def test_a_file_is_put_once_into_the_folder_of_python() -> None:
    python = Kept()
    tools = ConversationTools({"python": python})
    file = UploadedFile("file-1", "", None, "user_data", "a.txt", 1, 0, None)
    tools.put_file("python", file, lambda id: id.encode())
    assert python.session.files == {"a.txt": b"file-1"}
    python.session.files["a.txt"] = b"changed by code"
    tools.put_file("python", file, lambda id: id.encode())
    assert PythonSession.from_json(python.session.to_json()).files == {"a.txt": b"changed by code"}
    assert python.session.uploads == ["file-1"]


def test_what_a_client_sent_is_not_changed_where_its_files_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file_read = {"type": "input_file", "file_data": "read"}

    async def read(*_: object) -> dict[str, Any]:
        return file_read

    monkeypatch.setattr(FileTexts, "_with_text", read)
    file = {"type": "input_file", "file_id": "file-1"}
    item = {"content": [file, "text"], "output": [file, file]}
    sent = copy.deepcopy(item)

    async def changed(*items: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Large requests are looked at in a thread."""
        pool = FairPool("test", 1)
        try:
            return await FileTexts(cast("Any", None), pool).in_items("", items, "input")
        finally:
            pool.close()

    read_item = {"content": [file_read, "text"], "output": [file_read, file_read]}
    assert asyncio.run(changed(item)) == [read_item]
    said = {"role": "user", "content": "hi"}
    assert asyncio.run(changed(*[said] * 200, item)) == [*[said] * 200, read_item]
    assert asyncio.run(changed({"content": ["text"] * 200})) is None
    assert item == sent


def test_a_file_in_parts(client: OpenAI) -> None:
    def begun(**fields: Any) -> Any:
        asked: dict[str, Any] = {"filename": "table.csv", "purpose": "user_data", "bytes": 25}
        return client.uploads.create(mime_type="text/csv", **{**asked, **fields})

    def part(id: str, data: bytes) -> str:
        return client.uploads.parts.create(id, data=data).id

    upload = begun(bytes=len(TABLE), expires_after={"anchor": "created_at", "seconds": 3600})
    last, first = part(upload.id, TABLE[10:]), part(upload.id, TABLE[:10])
    assert last not in {file.id for file in client.files.list()}
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(last)
    for parts, md5, problem in (
        ([first], None, "the parts have 10 bytes, not"),
        ([first, "part_1"], None, "has no part 'part_1'"),
        ([first] * 400, None, "the parts have 4,000 bytes, not"),  # counted, not read
        ([first, last], "0" * 32, "another md5"),
    ):
        with pytest.raises(openai.BadRequestError, match=problem):
            client.uploads.complete(upload.id, part_ids=parts, md5=md5 or openai.omit)
    md5 = hashlib.md5(TABLE, usedforsecurity=False).hexdigest()
    done = client.uploads.complete(upload.id, part_ids=[first, last], md5=md5)
    assert done.file is not None
    again = client.uploads.complete(upload.id, part_ids=[first, last], md5=md5)
    assert again == done  # the first answer may have been lost
    for parts, other_md5 in (([last, first], md5), ([first, last], "0" * 32), (["part_1"], md5)):
        with pytest.raises(openai.BadRequestError, match="with other parts or another md5"):
            client.uploads.complete(upload.id, part_ids=parts, md5=other_md5)
    assert (done.status, done.file.filename) == ("completed", "table.csv")
    assert client.files.content(done.file.id).content == TABLE
    assert client.files.retrieve(done.file.id).expires_at == upload.created_at + 3600
    with pytest.raises(openai.NotFoundError):
        client.files.content(first)
    with pytest.raises(openai.BadRequestError, match="is completed; create another one"):
        client.uploads.parts.create(upload.id, data=b"a")

    whole = client.uploads.upload_file_chunked(
        file=TABLE, filename="in.csv", bytes=len(TABLE), mime_type="text/csv",
        purpose="user_data", part_size=7,
    )  # fmt: skip
    assert whole.file is not None
    assert client.files.content(whole.file.id).content == TABLE

    client.files.delete(done.file.id)
    with pytest.raises(openai.NotFoundError, match="there is no file"):
        client.uploads.complete(upload.id, part_ids=[first, last], md5=md5)

    other = begun()
    part(other.id, b"a")
    assert client.uploads.cancel(other.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError, match="is cancelled"):
        client.uploads.complete(other.id, part_ids=[])
    with pytest.raises(openai.BadRequestError, match="a file needs a name"):
        begun(filename="..")
    with pytest.raises(openai.BadRequestError, match="a number up to 268435456"):
        begun(bytes=2**40)


def test_no_part_is_added_while_its_upload_ends(tmp_path: Path) -> None:
    """The server looks whether the upload is over in the transaction that stores the part."""
    database = f"sqlite:///{tmp_path / 'store.db'}"
    with (
        serving(ScriptedEngine(), Settings(database=database)) as root,
        OpenAI(base_url=root, api_key="none", max_retries=0) as client,
        ThreadPoolExecutor() as threads,
        Store(database) as store,
    ):
        upload = client.uploads.create(
            filename="a.txt", purpose="user_data", bytes=1, mime_type="text/plain"
        )
        with store._database.writing():
            adding = threads.submit(client.uploads.parts.create, upload.id, data=b"a")
            time.sleep(0.5)  # it waits for this transaction
            assert not adding.done()
            store.partial_uploads.end(upload.id, "", None, (), None)
        with pytest.raises(openai.BadRequestError, match="is cancelled; create another one"):
            adding.result()
        assert "files" not in store.owned.count("")


def test_an_upload_that_an_older_server_began(tmp_path: Path) -> None:
    """It has no id of the file, and a completed one no hash of its request."""
    about = {"purpose": "user_data", "filename": "a.txt", "size": 0}
    about.update(created_at=1, expires_at=None)
    hour = int(time.time()) + 3600
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        rows = store.partial_uploads
        rows.add(PartialUpload("upload_1", "", 1, hour, "pending", about))
        _, file = rows.complete("upload_1", "", [], None)
        assert store.uploads.get(file.id, "") == file
        assert rows.complete("upload_1", "", [], None)[1] == file
        rows.add(PartialUpload("upload_2", "", 1, hour, "completed", about))
        with pytest.raises(UploadError, match="create another one"):
            rows.complete("upload_2", "", [], None)


def test_parts_belong_to_their_owner(url: str, client: OpenAI) -> None:
    upload = client.uploads.create(
        filename="a.txt", purpose="user_data", bytes=1, mime_type="text/plain"
    )
    with sdk(url, KEYS[1]) as other:
        for ask in (
            lambda: other.uploads.parts.create(upload.id, data=b"a"),
            lambda: other.uploads.complete(upload.id, part_ids=[]),
            lambda: other.uploads.cancel(upload.id),
        ):
            with pytest.raises(openai.NotFoundError):
                ask()
