"""Names that are no models: one error at once, after one request to the hub at most."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import constants

from gpt_oss_harmony.engines import EngineError, model_names, open_engine
from gpt_oss_harmony.engines.model_names import adapter_base


def load_with(monkeypatch: pytest.MonkeyPatch, load: Callable[..., None]) -> None:
    """Let Transformers load models in another way; it need not be installed."""
    module = SimpleNamespace(TransformersEngine=SimpleNamespace(load=load))
    monkeypatch.setitem(sys.modules, "gpt_oss_harmony.engines.transformers_engine", module)


class Hub:
    """A hub that has no model."""

    def __init__(self) -> None:
        self.status = 404
        self.paths: list[str] = []


@pytest.fixture(scope="module")
def running_hub() -> Iterator[tuple[Hub, str]]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            hub.paths.append(self.path)
            self.send_response(hub.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield hub, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def hub(running_hub: tuple[Hub, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    hub, url = running_hub
    hub.paths.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return hub


def problem(model: str, **options: Any) -> str:
    with pytest.raises(EngineError) as caught:
        asyncio.run(open_engine(model, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_name_that_the_hub_does_not_have_is_asked_for_once(hub: Hub, status: int) -> None:
    hub.status = status
    assert problem("nobody/nothing").startswith(
        "there is no model 'nobody/nothing' on this disk, and the Hugging Face hub has none that "
        f"you may read ({status}); "
    )
    assert [path for path in hub.paths if "nobody" in path] == ["/api/models/nobody/nothing"]


def test_a_hub_that_cannot_be_reached_is_asked_once(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    assert "and the Hugging Face hub cannot be reached (" in problem("nobody/nothing")


@pytest.mark.parametrize("by", ["variable", "option"])
def test_the_hub_is_not_asked_where_that_is_forbidden(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", by == "variable")
    options = {"local_files_only": True} if by == "option" else {}
    assert "hub is off (HF_HUB_OFFLINE or local_files_only)" in problem("nobody/nothing", **options)
    assert hub.paths == []


@pytest.mark.parametrize("name", ["a b", "nobody/no--thing", "x" * 200])
def test_words_that_cannot_be_a_name(hub: Hub, name: str) -> None:
    assert "cannot be the name of a model" in problem(name)
    assert hub.paths == []


def test_the_address_of_a_server_needs_its_scheme() -> None:
    assert "for a server, write http://localhost:8000" in problem("localhost:8000")


@pytest.mark.parametrize("name", ["./nothing", "/no/such/folder", "a/b/c"])
def test_missing_folders(hub: Hub, name: str) -> None:
    assert "there is no folder" in problem(name)
    assert hub.paths == []


def test_a_folder_without_a_model_is_refused_before_anything_is_loaded(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gpt_oss_harmony.engines.transformers_engine", None)
    assert "has no config.json" in problem(str(tmp_path))
    adapter = '{"base_model_name_or_path": "openai/gpt-oss-20b"}'
    for allowed, text in (("config.json", "{}"), ("adapter_config.json", adapter)):
        (tmp_path / allowed).write_text(text)
        assert "pip install" in problem(str(tmp_path))
        (tmp_path / allowed).unlink()


def test_an_adapter_names_its_base_and_needs_peft(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "adapter_config.json"
    monkeypatch.setattr(model_names, "find_spec", lambda name: None)
    config.write_text('{"base_model_name_or_path": "openai/gpt-oss-20b"}')
    assert adapter_base(tmp_path) == "openai/gpt-oss-20b"
    needed = f"the folder {str(tmp_path)!r} has an adapter of openai/gpt-oss-20b, which needs PEFT"
    assert problem(str(tmp_path)).startswith(needed)
    for text in ("{", "[]", "{}", '{"base_model_name_or_path": null}'):
        config.write_text(text)
        assert problem(str(tmp_path)).startswith(str(config))
    (tmp_path / "config.json").write_text("{}")  # a whole model, which was merged here
    assert adapter_base(tmp_path) is None


@pytest.mark.parametrize(("name", "close"), [("dtpye", "dtype"), ("device_mpa", "device_map")])
def test_a_misspelled_option_is_refused_before_anything_is_loaded(name: str, close: str) -> None:
    expected = f"the engine has no option {name!r}; did you mean {close}?"
    assert problem("demo", engine="transformers", **{name: "x"}) == expected


@pytest.mark.parametrize("name", ["dmeo", "demoo", "Demo"])
def test_a_misspelled_demo_is_found_without_the_hub(hub: Hub, name: str) -> None:
    assert problem(name) == f"there is no model {name!r} on this disk; did you mean demo?"
    assert hub.paths == []


def test_somebodys_demo_is_asked_for(hub: Hub) -> None:
    assert "the Hugging Face hub has none" in problem("me/demo")
    assert hub.paths


def test_a_name_that_the_hub_has_is_left_to_transformers(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: None)
    loaded: list[str] = []

    def load(folder: str, *, name: str) -> None:
        loaded.append(name)

    load_with(monkeypatch, load)
    asyncio.run(open_engine("somebody/something"))
    assert loaded == ["somebody/something"]


def test_a_name_on_this_disk_is_not_asked_for(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stored = tmp_path / "cache" / "models--somebody--something"
    (stored / "refs").mkdir(parents=True)
    (stored / "refs" / "main").write_text("abc")
    (stored / "snapshots" / "abc").mkdir(parents=True)
    (stored / "snapshots" / "abc" / "config.json").write_text("{}")
    load_with(monkeypatch, lambda *_, **__: None)
    asyncio.run(open_engine("somebody/something", cache_dir=str(tmp_path / "cache")))
    assert hub.paths == []
