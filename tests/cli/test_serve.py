"""``harmony serve`` as a process: how it starts and ends, and what it finds again."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.cli.chat_backend import REPETITION
from gpt_oss_harmony.cli.input import InputError
from gpt_oss_harmony.cli.listening import bind, start_listening
from gpt_oss_harmony.cli.options import add_api_keys, api_keys
from gpt_oss_harmony.engines import EngineError, SampledToken, Sampling
from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.app import make_server
from gpt_oss_harmony.server.auth.api_keys import ApiKeys
from gpt_oss_harmony.server.store import Store
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, sdk, server_process, serving

KEYS = ("a secret", "another")
OPTIONS = (
    "demo", "--port", "0", "--served-model-name", "tiny", "demo", "--date", "2026-01-02",
    "--api-key", KEYS[0], "--api-key", KEYS[1],
)  # fmt: skip
ASK: dict[str, Any] = {"temperature": 0, "input": "What is 27 + 45?"}
SUM = "27 + 45 = 72."
ANSWER = "<|channel|>final<|message|>Four.<|return|>"
ENDLESS = "<|channel|>final<|message|>One and on and..."


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo model's folder is made, once for all workers."""
    return tmp_path_factory.getbasetemp().parent


def database(state: Path) -> str:
    return f"sqlite:///{state / 'gpt-oss-harmony' / 'responses.db'}"


@pytest.mark.slow
def test_it_starts_answers_ends_and_remembers(tmp_path: Path, cache: Path) -> None:
    with (
        server_process(tmp_path, cache, *OPTIONS) as server,
        sdk(server.url, KEYS[0]) as client,
    ):
        storing, needed, loading, described, serving_line = server.log
        path = tmp_path / "gpt-oss-harmony" / "responses.db"
        assert storing == f"storing responses in the SQLite file {path}\n"
        assert needed.startswith("each request needs an API key; 'harmony keys list' shows")
        assert loading == "loading demo ...\n"
        assert described.startswith("demo: a toy of 2 MB for sums")
        assert described.endswith("float32 in NumPy on one core; 4,096 tokens of context\n")
        assert serving_line == f"serving demo at {server.url}\n"
        assert [model.id for model in client.models.list()] == ["tiny", "demo"]
        first = client.responses.create(model="tiny", **ASK)
        assert (first.model, first.output_text) == ("tiny", SUM)
        with pytest.raises(openai.NotFoundError, match="use tiny or demo"):
            client.responses.create(model="gpt-oss-20b", **ASK)
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="none").responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError):
            client.with_options(api_key=KEYS[1]).responses.retrieve(first.id)
        begun = client.responses.create(model="demo", **ASK, stream=True)
        next(iter(begun))
        server.process.send_signal(signal.SIGTERM)
        *_, last = begun
        assert last.type == "response.completed"
        assert server.ended() == 0
    assert "Traceback" not in "".join(server.log)
    keep = Settings(database=database(tmp_path), api_keys=KEYS)
    with serving(ScriptedEngine(), keep) as url, sdk(url, KEYS[0]) as client:
        for response in (first, last.response):
            assert client.responses.retrieve(response.id).output_text == SUM


@pytest.mark.slow
def test_what_was_completed_outlives_a_kill(tmp_path: Path, cache: Path) -> None:
    """The killed server has its tokens from another, as it has them from vLLM."""
    ask: dict[str, Any] = {"model": "script", "input": "2 + 2?"}
    with (
        serving(ScriptedEngine(ANSWER, ENDLESS)) as engine,
        server_process(tmp_path, cache, engine.removesuffix("/v1"), "--port", "0") as server,
        sdk(server.url) as client,
    ):
        completed = client.responses.create(**ask)
        begun = client.responses.create(**ask, stream=True, background=True)
        cut = next(iter(begun)).response.id
        server.process.kill()
        with pytest.raises((openai.APIConnectionError, httpx2.HTTPError)):
            list(begun)
        assert server.ended() == -signal.SIGKILL
    with serving(ScriptedEngine(), Settings(database=database(tmp_path))) as url, sdk(url) as again:
        assert again.responses.retrieve(completed.id).output_text == "Four."
        assert again.responses.retrieve(cut).status == "failed"
    with closing(sqlite3.connect(tmp_path / "gpt-oss-harmony" / "responses.db")) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_occupied_port_is_one_clear_line(tmp_path: Path, cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = str(occupied.getsockname()[1])
        with server_process(tmp_path, cache, "demo", "--port", port) as server:
            assert server.ended() == 1
    assert server.log == [
        f"harmony: error: cannot listen at 127.0.0.1:{port}: Address already in use; "
        "choose another --port\n"
    ]


class Endless(ScriptedEngine):
    """Tells when it has begun, and ends only when it is closed."""

    def __init__(self) -> None:
        super().__init__(ENDLESS)
        self.began = threading.Event()

    def generate(
        self, prompt: Sequence[int], sampling: Sampling | None = None
    ) -> AsyncGenerator[SampledToken, None]:
        self.began.set()
        return super().generate(prompt, sampling)


def respond(client: Any) -> str:
    return str(client.responses.create(model="script", input="Hi!"))


def stream_response(client: Any) -> str:
    *_, last = client.responses.create(model="script", input="Hi!", stream=True)
    return str(last.response.error)


def chat(client: Any) -> str:
    asked = [{"role": "user", "content": "Hi!"}]
    return str(client.chat.completions.create(model="script", messages=asked))


def stream_chat(client: Any) -> str:
    asked = [{"role": "user", "content": "Hi!"}]
    return str(list(client.chat.completions.create(model="script", messages=asked, stream=True)))


@pytest.mark.parametrize("ask", [respond, stream_response, chat, stream_chat])
def test_the_end_is_told_to_clients_that_wait(ask: Callable[[Any], str]) -> None:
    """What goes on at the deadline is cancelled; nobody is left without a word."""
    engine = Endless()
    told: list[str] = []

    def wait(url: str) -> None:
        with sdk(url) as client:
            try:
                told.append(ask(client))
            except openai.APIError as error:
                told.append(str(error))

    with serving(engine, Settings(shutdown_seconds=0.1)) as url:
        client = threading.Thread(target=wait, args=(url,))
        client.start()
        assert engine.began.wait(PATIENCE)
    client.join(PATIENCE)
    (said,) = told
    assert "the server is shutting down; try again later" in said
    assert engine.freed == 1


def test_what_is_written_is_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this option each answer waits for the client to confirm its first packet."""
    options: list[int] = []
    begin = H11Protocol.connection_made

    def noted(self: Any, transport: Any) -> None:
        connection = transport.get_extra_info("socket")
        options.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        begin(self, transport)

    monkeypatch.setattr(H11Protocol, "connection_made", noted)
    with serving(ScriptedEngine()) as url:
        assert httpx2.get(f"{url}/models", timeout=PATIENCE).status_code == 200
    assert options == [1]


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        (("--port", "99999"), "--port must be a port from 0 to 65535, not 99999"),
        (("--date", "2026-13-01"), "is not a date"),
        (("--database", "mysql://somewhere"), "mysql"),
        (("--allowed-origin", "*"), "'*' is not an origin; write the scheme"),
        (("--allowed-host", "http://a.example"), "'http://a.example' is not a host"),
        (("--database", "localhost:5432/harmony"), "is neither a URL nor a path; write sqlite:///"),
        (("--api-key", " "), "--api-key: there is no key; write one, or leave the option out"),
        (("--api-key", ""), "--api-key: there is no key; write one, or leave the option out"),
        (("--api-key-file", "/nowhere"), "--api-key-file /nowhere cannot be read: No such file"),
        (("--api-key-file", "/dev/null"), "--api-key-file /dev/null has no key"),
        (("--engine-option", "dtype"), "must be NAME=VALUE, not 'dtype'"),
        (("--engine-option", "d-type=x"), "must be NAME=VALUE, not 'd-type=x'"),
        (("--upstream-api-key-file", "/nowhere"), "/nowhere cannot be read: No such file"),
        (("--upstream-api-key-file", "/dev/null"), "/dev/null has no key"),
        (("--upstream-api-key-file", "TWO_KEYS"), "must have one key"),
        (("--api-key-file", __file__), "has a key that no header can carry"),
        (("--max-running", "0"), "--max-running must be an integer from 1, not 0"),
        (("--max-waiting", "-1"), "--max-waiting must be an integer from 0, not -1"),
        (("--max-tool-calls", "x"), "--max-tool-calls must be an integer from 0, not x"),
        (("--keep-days", "-1"), "--keep-days must be days from 0 to 36,500, not -1"),
        (("--keep-days", "inf"), "--keep-days must be days from 0 to 36,500, not inf"),
        (("--keep-days", "nan"), "--keep-days must be days from 0 to 36,500, not nan"),
        (("--context-length", "0"), "--context-length must be an integer from 1, not 0"),
        (("--context-length", "4k"), "--context-length must be an integer from 1, not 4k"),
        (("--context-length", "2000"), "--context-length 2000: demo has a context of 1000 tokens"),
        (("--threads", "0"), "--threads must be an integer from 1, not 0"),
        (("--host", "0.0.0.0"), "everyone who reaches 0.0.0.0 can use this server"),
    ],
)
def test_wrong_options_are_one_clear_line(
    option: tuple[str, str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def opened(_: str, **__: Any) -> ScriptedEngine:
        return ScriptedEngine()

    monkeypatch.setattr("gpt_oss_harmony.engines.open_engine", opened)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "keys").write_text("sk-one\nsk-two\n")
    given = [str(tmp_path / "keys") if word == "TWO_KEYS" else word for word in option]
    assert main(["serve", "demo", "--port", "0", *given]) != 0
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("harmony: error: ")
    assert problem in error


@pytest.mark.parametrize(
    ("model", "given", "options"),
    [
        ("demo", (), {"max_requests": 16}),
        ("demo", ("--max-running", "64"), {"max_requests": 64}),
        (
            "openai/gpt-oss-20b",
            ("--engine-option", "dtype=bfloat16", "--engine-option", "max_requests=8"),
            {"dtype": "bfloat16", "max_requests": 8},
        ),
        (
            "demo",
            ("--context-length", "9000", "--threads", "3"),
            {"max_requests": 16, "context_length": 9000, "threads": 3},
        ),
        ("http://localhost:1", ("--max-running", "64", "--context-length", "9000"), {}),
        (
            "http://localhost:1",
            ("--engine-option", "llguidance=true", "--engine-option", "endpoint=a=b"),
            {"llguidance": True, "endpoint": "a=b"},
        ),
        ("http://localhost:1", ("--upstream-api-key-file", "KEY_FILE"), {"api_key": "secret"}),
    ],
    ids=("default", "max-running", "transformers", "context", "upstream", "llama.cpp", "key"),
)
def test_options_reach_the_engine(
    model: str,
    given: tuple[str, ...],
    options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[tuple[str, dict[str, Any]]] = []

    async def open_nothing(model: str, **options: Any) -> ScriptedEngine:
        opened.append((model, options))
        raise EngineError("no engine here")

    key_file = tmp_path / "key.txt"
    key_file.write_text("secret\n")
    given = tuple(str(key_file) if word == "KEY_FILE" else word for word in given)
    monkeypatch.setattr("gpt_oss_harmony.engines.open_engine", open_nothing)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["serve", model, "--port", "0", *given]) != 0
    assert opened == [(model, options)]


class Loading:
    """Stands for `open_engine`: loads no model, and says where that would have been begun."""

    def __init__(self) -> None:
        self.begun = False
        self.is_refused = False
        self.port = 0

    async def __call__(self, model: str, **options: Any) -> ScriptedEngine:
        self.begun = True
        with closing(socket.socket()) as client:
            self.is_refused = client.connect_ex(("127.0.0.1", self.port)) != 0
        raise EngineError("no engine here")


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Loading:
    loading = Loading()
    monkeypatch.setattr("gpt_oss_harmony.engines.open_engine", loading)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return loading


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("--database", "{folder}"), "the SQLite file {folder} cannot be opened: Is a directory"),
        (("--database", "{text}"), "the SQLite file {text} failed: file is not a database"),
        (("--database", "{used}"), "another server uses the database"),
        (("--database", "postgresql://a:hush@127.0.0.1:1/b"), "postgresql+psycopg://a:***@127.0.0"),
        (("--key-file", "{text}"), "the key file {text} has no valid keys"),
        (("--key-file", "{folder}"), "the key file {folder} cannot be used: Is a directory"),
        (("--browser", "{missing}"), "--browser: there is no folder '{missing}'"),
        (("--mcp", "{missing}"), "{missing}"),
    ],
)
def test_what_is_wrong_is_found_before_a_model_is_loaded(
    given: tuple[str, str],
    problem: str,
    loading: Loading,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = {name: str(tmp_path / name) for name in ("folder", "text", "used", "missing")}
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("neither a database nor keys")
    with Store(paths["used"]) as store:
        store.start_serving()
        words = [word.format(**paths) for word in given]
        assert main(["serve", "demo", "--port", "0", *words]) == (2 if "--browser" in words else 1)
    (error,) = capsys.readouterr().err.splitlines()
    assert problem.format(**paths) in error
    assert "hush" not in error
    assert not loading.begun


def test_no_connection_is_accepted_while_a_model_is_loaded(loading: Loading) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        loading.port = free.getsockname()[1]
    assert main(["serve", "demo", "--port", str(loading.port)]) == 1
    assert loading.begun
    assert loading.is_refused


def test_it_says_that_it_serves_once_requests_are_answered() -> None:
    settings = Settings()
    app = create_app(ScriptedEngine(), settings)
    states: list[bool] = []

    def started() -> None:
        with closing(socket.create_connection(listener.getsockname()[:2], PATIENCE)):
            states.append(app.state.services.admission.is_closed)
        server.should_exit = True

    server = make_server(app, settings, started)
    with closing(bind("127.0.0.1", 0)) as listener:
        asyncio.run(server.serve(sockets=[listener]))
    assert states == [False]


def test_a_port_that_another_program_takes_meanwhile_is_one_clear_line() -> None:
    with closing(bind("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with closing(bind("127.0.0.1", port)) as other:
            start_listening(other)
            with pytest.raises(InputError, match=rf"cannot listen at 127.0.0.1:{port}: Address"):
                start_listening(listener)


MISSING = "there is no folder '{path}'; name a folder with a model, a model on the Hugging Face hub"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nowhere", MISSING),
        ("a file", "{path} is a file; name the folder that it is in"),
        pytest.param("cut", "cannot load the model '{path}': ", marks=pytest.mark.slow),
        ("no model", "the folder '{path}' has no config.json"),
        ("models/nowhere", "there is no model 'models/nowhere' on this disk, and "),
    ],
)
def test_a_model_that_cannot_be_loaded_is_one_clear_line(
    name: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A cut file is what a download that was broken off leaves."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    path = Path(name) if "/" in name else tmp_path / name
    if name == "a file":
        path.write_text("no model")
    elif not name.endswith("nowhere"):
        path.mkdir()
    if name == "cut":
        (path / "config.json").write_text(json.dumps(SMALL_MODEL))
        (path / "model.safetensors").write_bytes((1000).to_bytes(8, "little") + b'{"lm_head')
    alone = ("--engine-option", "local_files_only=true")  # no test asks the hub
    assert main(["serve", str(path), "--port", "0", *alone]) == 1
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith(f"harmony: error: {problem.format(path=path)}")
    assert "Traceback" not in error
    is_found = name in ("cut", "models/nowhere")  # what else is wrong is seen before a database
    assert (tmp_path / "state").exists() == is_found


SMALL_MODEL = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "layer_types": ["full_attention"],
}


# Who may ask


@pytest.fixture(scope="module")
def script() -> Iterator[str]:
    """An engine that starts at once, for servers whose model is of no interest."""
    with serving(ScriptedEngine()) as url:
        yield url.removesuffix("/v1")


@pytest.mark.slow
def test_a_server_that_others_reach_needs_a_key(tmp_path: Path, cache: Path, script: str) -> None:
    """The key that it names as the remedy is one: the same command starts then."""
    everywhere = (script, "--host", "0.0.0.0", "--port", "0")
    with server_process(tmp_path, cache, *everywhere) as server:
        assert server.ended() == 2
    (problem,) = server.log
    assert problem.startswith("harmony: error: everyone who reaches 0.0.0.0 can use this server")
    assert "harmony keys create NAME" in problem
    with Store(database(tmp_path)) as store:
        key = ApiKeys(store.keys).create("a test").key
    with server_process(tmp_path, cache, *everywhere) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        with sdk(url) as nobody, pytest.raises(openai.AuthenticationError):
            nobody.models.list()
        with sdk(url, key) as client:
            assert [model.id for model in client.models.list()] == ["script"]


@pytest.mark.slow
def test_a_server_can_be_open_to_everyone(tmp_path: Path, cache: Path, script: str) -> None:
    options = ("--host", "0.0.0.0", "--port", "0", "--open-to-everyone")
    names = ("--allowed-host", "harmony.internal", "--allowed-origin", "https://app.example")
    with server_process(tmp_path, cache, script, *options, *names) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert any(line.startswith("warning: everyone who reaches 0.0.0.0") for line in server.log)
        with httpx2.Client(base_url=url, timeout=PATIENCE) as client:
            for headers, status in (
                ({}, 200),
                ({"Host": "harmony.internal"}, 200),
                ({"Origin": "https://app.example"}, 200),
                ({"Host": "attacker.example"}, 400),
                ({"Origin": "https://attacker.example"}, 403),
            ):
                assert client.get("/models", headers=headers).status_code == status


@pytest.mark.slow
def test_keys_come_from_a_file_and_from_the_environment(
    tmp_path: Path, cache: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("first-key\n\n  second-key  \n")
    monkeypatch.setenv("HARMONY_API_KEY", "third-key")
    options = (script, "--port", "0", "--api-key-file", str(file))
    with server_process(tmp_path, cache, *options) as server:
        for key in ("first-key", "second-key", "third-key"):
            with sdk(server.url, key) as client:
                assert client.models.list().data
        with sdk(server.url) as nobody, pytest.raises(openai.AuthenticationError):
            nobody.models.list()
        arguments = Path(f"/proc/{server.process.pid}/cmdline")
        assert not arguments.exists() or b"first-key" not in arguments.read_bytes()


def test_an_empty_variable_is_no_key(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was meant to have a key does not start without one."""
    monkeypatch.setenv("HARMONY_API_KEY", "")
    with server_process(tmp_path, cache, "demo", "--port", "0") as server:
        assert server.ended() == 1
    assert server.log == [
        "harmony: error: HARMONY_API_KEY: there is no key; write one, or leave the option out\n"
    ]


@pytest.mark.slow
def test_the_key_of_an_engine_comes_from_the_environment(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARMONY_ENGINE_API_KEY", "of-the-engine")
    with (
        serving(ScriptedEngine(ANSWER), Settings(api_keys=("of-the-engine",))) as engine,
        server_process(tmp_path, cache, engine.removesuffix("/v1"), "--port", "0") as server,
        sdk(server.url) as client,
    ):
        assert client.responses.create(model="script", input="2 + 2?").output_text == "Four."


SHARED = {
    "keys that others can read": ("--api-key-file", "secret", 0o644, True),
    "keys that the group can read": ("--api-key-file", "secret", 0o640, True),
    "keys of one's own": ("--api-key-file", "secret", 0o600, False),
    "a secret in the settings": ("--config", 'api-key = ["secret"]', 0o644, True),
    "a password in the settings": ("--config", 'database = "postgresql://a:b@c/d"', 0o644, True),
    "settings without secrets": ("--config", "port = 1", 0o644, False),
}


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has these rights")
@pytest.mark.parametrize(("option", "text", "mode", "warns"), SHARED.values(), ids=SHARED)
def test_a_file_with_secrets_that_others_can_read_is_named(
    option: str,
    text: str,
    mode: int,
    warns: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "a\x1b[31mfile"
    file.write_text(text)
    file.chmod(mode)
    assert main(["serve", "/nowhere", option, str(file), "--threads", "1"])
    shown = capsys.readouterr().err
    assert (f"other users can read {option} " in shown) == warns
    assert "\x1b" not in shown


def test_a_chat_ends_repetitions_as_the_server_does() -> None:
    assert Settings().repetition == REPETITION


def test_a_file_of_keys_may_have_comments_and_a_mark_of_its_encoding(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_bytes("\ufeff# of the team\r\nsk-one\r\n\r\n  sk two \r\n# sk-old\n".encode())
    parser = argparse.ArgumentParser()
    add_api_keys(parser)
    assert api_keys(parser.parse_args(["--api-key-file", str(file)])) == ("sk-one", "sk two")
    assert api_keys(parser.parse_args(["--api-key", "#x"])) == ("#x",)  # only files have comments
    for wrong in ("sk-é", "sk-\x07"):
        file.write_text(wrong, "utf-8")
        with pytest.raises(InputError, match="no header can carry"):
            api_keys(parser.parse_args(["--api-key-file", str(file)]))
