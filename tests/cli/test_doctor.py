"""`harmony doctor`: its report, as text and JSON, and its exit code."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpt_oss_harmony import engines
from gpt_oss_harmony.cli import doctor, main
from gpt_oss_harmony.cli.doctor import Finding, examine
from gpt_oss_harmony.engines import model_names
from gpt_oss_harmony.engines.batching_memory import PUBLISHED_FIGURES
from gpt_oss_harmony.engines.placement import Device, Machine
from gpt_oss_harmony.installation import requirement

GB = 10**9
OPTIONS: dict[str, Any] = {"max_requests": 16}
PACKAGES = {"accelerate": "1.10", "kernels": "0.18.2", "triton": "3.5.0"}
H100 = Machine(
    (Device("cuda", "NVIDIA H100", 85 * GB, 84 * GB, (9, 0)),), 100 * GB, PACKAGES, True, True
)
NO_KERNELS = H100._replace(has_kernels=False, kernels_range=">=0.18.2,<0.19.0")
SMALL_CARD = Machine(
    (Device("cuda", "RTX", 8 * GB, 8 * GB, (8, 9)),), 16 * GB, PACKAGES, True, True
)


@pytest.fixture(autouse=True)
def computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with PyTorch, whether or not it is installed, and with folders of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    versions = {
        "torch": "2.13.0+cpu",
        "transformers": "5.23.0",
        "accelerate": "1.10",
        "psutil": "7.1.0",
    }
    installed = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: installed(name) or versions.get(name))
    monkeypatch.setattr(engines, "devices", SimpleNamespace(find_machine=None), raising=False)


def findings(model: str, machine: Machine, **options: Any) -> list[Finding]:
    return list(examine(model, {**OPTIONS, **options}, "127.0.0.1", 0, lambda: machine))


def by_topic(found: list[Finding], topic: str) -> list[Finding]:
    return [finding for finding in found if finding.topic == topic]


@pytest.mark.parametrize("model", PUBLISHED_FIGURES)
def test_a_machine_that_serves(model: str) -> None:
    found = findings(model, H100)
    assert {finding.level for finding in found} == {"ok"}
    (placement,) = by_topic(found, "placement")
    assert "MXFP4 on cuda:0, attention: kernels-community/vllm-flash-attn3" in placement.text
    (memory,) = by_topic(found, "memory")
    assert "context 131,072" in memory.text


def test_what_is_missing_has_one_command() -> None:
    found = findings("openai/gpt-oss-20b", NO_KERNELS)
    warnings = [finding for finding in found if finding.level == "warning"]
    assert [finding.remedy.startswith("pip install 'kernels") for finding in warnings] == [True] * 2


def test_a_model_is_described_also_without_its_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "_problems", lambda extra: ["it is missing"] * (extra != "serve"))
    (model,) = by_topic(findings("nosuch", H100), "model")
    assert (model.level, model.text.partition("; ")[0]) == ("warning", "nosuch is not on this disk")
    (model,) = by_topic(findings("GPT-OSS-20B", H100), "model")
    assert model.remedy == "did you mean openai/gpt-oss-20b?"
    monkeypatch.setattr(doctor, "machine_memory", lambda: 24 * GB)
    (model,) = by_topic(findings("openai/gpt-oss-20b", H100), "model")
    sizes = "weights of 13.8 GB as MXFP4, 41.8 GB as bfloat16"
    assert (model.level, model.text) == ("ok", f"openai/gpt-oss-20b: {sizes}")

    monkeypatch.setattr(doctor, "machine_memory", lambda: 12 * GB)
    (model,) = by_topic(findings("openai/gpt-oss-20b", H100), "model")
    remedy = "they need a GPU with as much memory, or several"
    assert (model.level, model.remedy) == ("warning", remedy)
    (model,) = by_topic(findings("demo", H100, engine="transformers"), "model")
    assert (model.level, model.text.partition(":")[0]) == ("ok", "demo")
    broken = tmp_path / "broken.gguf"
    broken.touch()
    (model,) = by_topic(findings(str(broken), H100), "model")
    assert (model.level, model.text) == ("error", f"{broken} is empty; download it again")


def test_a_server_is_asked_for_its_model() -> None:
    pytest.importorskip("fastapi")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        url = f"http://127.0.0.1:{busy.getsockname()[1]}"
    (model,) = by_topic(findings(url, H100), "model")
    assert (model.level, model.text.partition(":")[0]) == ("error", "cannot connect to http")


@pytest.mark.parametrize(("host", "port", "option"), [
    ("127.0.0.1", None, "--port"), ("no.such.host.invalid", 0, "--host"), ("8.8.8.8", 0, "--host"),
])  # fmt: skip
def test_an_address_that_cannot_be_listened_at_names_the_option(
    host: str, port: int | None, option: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        used = busy.getsockname()[1] if port is None else port
        (found,) = by_topic(list(examine("demo", OPTIONS, host, used)), "port")
    assert (found.level, found.remedy) == ("error", f"choose another {option}")


def test_a_model_that_does_not_fit_is_an_error() -> None:
    found = findings("openai/gpt-oss-120b", SMALL_CARD)
    assert [finding.topic for finding in found if finding.level == "error"] == ["model"]


def test_a_folder_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(PUBLISHED_FIGURES["openai/gpt-oss-20b"]))
    assert by_topic(findings(str(folder), H100), "placement")[0].level == "ok"
    (folder / "config.json").write_text("{")
    assert "is not JSON" in by_topic(findings(str(folder), H100), "model")[0].text
    (folder / "config.json").write_text('{"model_type": "gpt_oss"}')
    assert "has no 'num_hidden_layers'" in by_topic(findings(str(folder), H100), "model")[0].text
    (folder / "config.json").unlink()
    assert "has no config.json" in by_topic(findings(str(folder), H100), "model")[0].text
    monkeypatch.setattr(model_names, "find_spec", lambda name: object())  # PEFT is there
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "openai/gpt-oss-20b"}')
    assert by_topic(findings(str(folder), H100), "placement")[0].level == "ok"
    (unknown,) = by_topic(findings("someone/something", H100), "model")
    assert unknown.level == "warning"


def test_a_port_in_use_and_a_missing_extra_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = list(examine("openai/gpt-oss-20b", OPTIONS, "127.0.0.1", port, lambda: H100))
    assert by_topic(found, "port")[0].level == "error"
    monkeypatch.setattr(doctor, "_version", {"torch": "2.13.0+cpu"}.get)
    (missing,) = by_topic(findings("http://localhost:8000", H100), "extra serve")
    assert (missing.level, missing.remedy) == ("error", f"pip install {requirement('serve')}")
    assert "fastapi, h11, httpx2, " in missing.text
    assert missing.text.endswith(" are missing")
    remedies = {finding.remedy for finding in findings("openai/gpt-oss-20b", H100)} - {""}
    assert remedies == {f"pip install {requirement('serve,transformers')}"}  # one command


def test_a_database_that_another_server_uses_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from gpt_oss_harmony.server.store import Store

    database = tmp_path / "state" / "gpt-oss-harmony" / "responses.db"
    assert not by_topic(findings("demo", H100), "database")
    with Store(f"sqlite:///{database}") as store:
        store.start_serving()
        (used,) = by_topic(findings("demo", H100), "database")
    assert (used.level, used.text) == ("error", f"another server uses the database {database}")
    assert "--database" in used.remedy
    assert not by_topic(findings("demo", H100), "database")


def test_the_packages_of_the_extras_are_those_of_the_project() -> None:
    assert doctor._required("http").keys() == {"httpx2", "jsonschema-rs", "llguidance"}
    assert {"torch", "transformers", "numpy"} < doctor._required("transformers").keys()


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        ({"torch": "1.13.0"}, "torch 1.13.0 is installed, but >=2.12.1 is needed"),
        ({"transformers": "6.0.0"}, "transformers 6.0.0 is installed, but <6,>=5.16.1 is needed"),
        ({"transformers": "5.23.0", "torch": "2.13.0+cpu"}, ""),
    ],
)
def test_versions_that_the_extras_exclude(
    versions: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name) or installed(name))
    found = by_topic(findings("openai/gpt-oss-20b", H100), "extra transformers")
    assert [finding.text for finding in found] == ([text] if text else [])
    assert bool(by_topic(findings("openai/gpt-oss-20b", H100), "placement")) == (not text)


@pytest.mark.parametrize("is_file", [True, False])
def test_a_state_folder_that_cannot_be_written_is_an_error(
    *, is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("file" if is_file else "folder")))
    if not is_file:  # root may write everywhere
        monkeypatch.setattr("os.access", lambda *_: False)
    (folder,) = by_topic(findings("openai/gpt-oss-20b", H100), "state folder")
    assert folder.level == "error"
    assert "XDG_STATE_HOME" in folder.remedy + folder.text


def test_servers_outside_the_tested_range_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"vllm": "0.40.1", "sglang": "0.5.23"}
    monkeypatch.setattr(doctor, "_version", versions.get)
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    found = findings("http://localhost:8000", H100)
    assert len(by_topic(found, "vllm")) == 2
    assert by_topic(found, "vllm")[0].text == (
        "0.40.1 is not tested (0.32 to 0.33 is), and the plugin does nothing with it"
    )
    assert by_topic(found, "sglang") == []
    assert by_topic(found, "placement") == []


def test_a_driver_that_fails_is_an_error() -> None:
    def fail() -> Machine:
        raise RuntimeError("the driver is too old")

    found = list(examine("openai/gpt-oss-20b", OPTIONS, "127.0.0.1", 0, fail))
    assert "the driver is too old" in by_topic(found, "devices")[0].text


@pytest.mark.parametrize(("machine", "code"), [(H100, 0), (SMALL_CARD, 1)])
def test_the_exit_code_and_the_json(
    machine: Machine, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "devices", SimpleNamespace(find_machine=lambda: machine))
    words = ["doctor", "openai/gpt-oss-120b", "--port", "0"]
    assert exit_code(words) == code
    text = capsys.readouterr().out
    assert exit_code([*words, "--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert report["serves"] == (code == 0)
    assert all(finding["text"] in text for finding in report["findings"])


def test_what_only_an_unnamed_model_lacks_is_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "torch" else version(name))
    assert exit_code(["doctor", "--port", "0"]) == 0
    assert "warning  extra transformers: torch is missing" in capsys.readouterr().out
    assert exit_code(["doctor", "openai/gpt-oss-20b", "--port", "0"]) == 1
    assert "error    extra transformers: torch is missing" in capsys.readouterr().out


def exit_code(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)
