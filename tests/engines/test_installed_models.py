"""The weights on this computer: folders as each program leaves them, whole, damaged, unfinished."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.engines import EngineError, open_engine
from gpt_oss_harmony.engines.batching_memory import PUBLISHED_FIGURES
from gpt_oss_harmony.engines.gguf_conversion import converted_file
from gpt_oss_harmony.engines.installed_models import (
    InstalledModel,
    find_installed,
    installed_models,
)
from gpt_oss_harmony.engines.model_names import find_source
from support.gguf_files import write_model

CONFIG = PUBLISHED_FIGURES["openai/gpt-oss-20b"]
DIGEST = "a" * 64


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path


def write_folder(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    (folder / "model.safetensors").write_bytes(bytes(1000))
    return folder


def write_ollama(home: Path, path: str = "registry.ollama.ai/library/gpt-oss/20b") -> Path:
    """Write a manifest, and the file that it names; return that file."""
    models = home / ".ollama" / "models"
    blob = write_model(models / "blobs" / f"sha256-{DIGEST}", "gptoss", of_ollama=True)
    manifest = models / "manifests" / path
    manifest.parent.mkdir(parents=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:b", "size": 1},
        {
            "mediaType": "application/vnd.ollama.image.model",
            "digest": f"sha256:{DIGEST}",
            "size": blob.stat().st_size,
        },
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return blob


def only() -> InstalledModel:
    (model,) = installed_models()
    return model


def test_a_computer_without_any() -> None:
    assert installed_models() == []


# Hugging Face


def hub(home: Path, name: str = "models--openai--gpt-oss-20b") -> Path:
    return home / ".cache" / "huggingface" / "hub" / name / "snapshots" / "abc"


def test_the_cache_of_the_hub(home: Path) -> None:
    write_folder(hub(home))
    write_folder(hub(home, "models--meta--llama"), model_type="llama")
    model = only()
    assert model.name == "openai/gpt-oss-20b"
    assert (model.quantization, model.engines, model.size) == (
        "MXFP4",
        ("transformers", "mlx"),
        1000,
    )


def test_weights_that_only_mlx_reads(home: Path) -> None:
    write_folder(hub(home, "models--mlx-community--gpt-oss-20b"), quantization={"bits": 8})
    assert (only().quantization, only().engines) == ("MLX, 8 bits", ("mlx",))


def test_a_gguf_file_of_the_hub_is_named_by_its_path(home: Path) -> None:
    file = write_model(hub(home, "models--ggml-org--gpt-oss-20b-GGUF") / "gpt-oss-20b-mxfp4.gguf")
    assert (only().name, only().engines) == (str(file), ("llamacpp",))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "its weights are missing"),
        (
            lambda folder: (folder / "model.safetensors").write_bytes(b""),
            "model.safetensors is empty; download it again",
        ),
        (
            lambda folder: (folder / "model.safetensors.index.json").write_text(
                '{"weight_map": {"a": "model-1.safetensors", "b": "model.safetensors"}}'
            ),
            "1 of its 2 files are missing, such as model-1.safetensors",
        ),
        (
            lambda folder: (folder / "model.safetensors.index.json").write_text("{"),
            "model.safetensors.index.json is damaged",
        ),
    ],
)
def test_damaged_folders(home: Path, damage: Callable[[Path], object], problem: str) -> None:
    damage(write_folder(hub(home)))
    assert problem in only().problem
    assert only().engines == ()


# Ollama


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("registry.ollama.ai/library/gpt-oss/20b", "ollama:gpt-oss:20b"),
        ("registry.ollama.ai/library/gpt-oss/latest", "ollama:gpt-oss:latest"),
        ("registry.ollama.ai/someone/mine/v1", "ollama:someone/mine:v1"),
        ("hf.co/unsloth/gpt-oss/Q4", "ollama:hf.co/unsloth/gpt-oss:Q4"),
    ],
)
def test_ollama_by_its_names(home: Path, path: str, name: str) -> None:
    blob = write_ollama(home, path)
    assert only().name == name
    assert only().problem.startswith("it is in a form that only Ollama reads; 'harmony models")
    assert only().place == blob


def test_ollama_names_are_opened_after_the_copy(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blob = write_ollama(home)
    with pytest.raises(EngineError, match="'harmony models --convert ollama:gpt-oss:20b' copies"):
        asyncio.run(open_engine("ollama:gpt-oss:20b"))
    assert main(["models", "--convert", "ollama:gpt-oss:20b"]) == 0
    copy = converted_file(blob)
    assert capsys.readouterr().out == f"{copy}\n"
    assert find_source("ollama:gpt-oss:20b") == ("llamacpp", str(copy))
    assert find_source(str(copy)) == ("llamacpp", str(copy))
    assert only().engines == ("llamacpp",)
    with pytest.raises(EngineError, match="cannot be opened with the engine mlx"):
        find_source("ollama:gpt-oss:20b", "mlx")


def test_the_tag_latest_may_be_left_out(home: Path) -> None:
    write_ollama(home, "registry.ollama.ai/library/gpt-oss/latest")
    assert find_installed("ollama", "gpt-oss", convertible=True).name == "ollama:gpt-oss:latest"


def cut(blob: Path) -> None:
    blob.write_bytes(blob.read_bytes()[:-5])


def half(blob: Path) -> None:
    blob.rename(f"{blob}-partial")


def manifest_of(blob: Path) -> Path:
    return blob.parents[1] / "manifests/registry.ollama.ai/library/gpt-oss/20b"


OLLAMA_DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (cut, r"has [\d,]+ of [\d,]+ bytes; pull it again"),
    "half downloaded": (half, r"its download is not complete; ollama pull gpt-oss:20b"),
    "gone": (Path.unlink, r"its file .* is missing; ollama pull gpt-oss:20b"),
    "no JSON": (lambda blob: manifest_of(blob).write_text("{"), "its manifest .* is damaged"),
    "no layer": (lambda blob: manifest_of(blob).write_text('{"layers": []}'), "is damaged; pull"),
    "a path": (
        lambda blob: manifest_of(blob).write_text(
            manifest_of(blob).read_text().replace(f"sha256:{DIGEST}", "../../../etc/passwd")
        ),
        "its manifest .* is damaged",
    ),
    "not GGUF": (lambda blob: blob.write_bytes(b"x" * blob.stat().st_size), "is not a GGUF file"),
}


@pytest.mark.parametrize("damage", OLLAMA_DAMAGES)
def test_damaged_ollama_models_are_listed_and_not_opened(home: Path, damage: str) -> None:
    blob = write_ollama(home)
    change, problem = OLLAMA_DAMAGES[damage]
    change(blob)
    if damage == "not GGUF":  # nothing says that it is a gpt-oss, except the name
        assert only().name == "ollama:gpt-oss:20b"
    assert re.search(problem, only().problem), only().problem
    assert only().engines == ()
    with pytest.raises(EngineError, match="ollama:gpt-oss:20b: "):
        find_source("ollama:gpt-oss:20b")


def test_other_models_of_ollama_are_left_out(home: Path) -> None:
    blob = write_ollama(home, "registry.ollama.ai/library/llama3/8b")
    blob.unlink()
    assert installed_models() == []
    with pytest.raises(EngineError, match=r"no model 'gpt-oss:20b' of ollama .* has no gpt-oss"):
        find_source("ollama:gpt-oss:20b")


def test_the_folder_of_the_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ollama(home)
    (home / ".ollama" / "models").rename(home / "elsewhere")
    assert installed_models() == []
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "elsewhere"))
    assert only().name == "ollama:gpt-oss:20b"


# LM Studio and llama.cpp


def test_lm_studio_has_files_and_folders(home: Path) -> None:
    models = home / ".lmstudio" / "models"
    file = write_model(models / "ggml-org" / "gpt-oss-20b-GGUF" / "gpt-oss-20b-MXFP4.gguf")
    folder = write_folder(models / "mlx-community" / "gpt-oss-20b-8bit", quantization={"bits": 8})
    gguf, mlx = installed_models()
    assert (gguf.name, mlx.name) == (
        "lmstudio:ggml-org/gpt-oss-20b-GGUF",
        "lmstudio:mlx-community/gpt-oss-20b-8bit",
    )
    assert find_source(gguf.name) == ("llamacpp", str(file))
    assert find_source(mlx.name) == ("mlx", str(folder))
    write_model(file.with_name("gpt-oss-20b-Q8_0.gguf"))
    assert [model.name for model in installed_models()[:2]] == [
        f"{gguf.name}/gpt-oss-20b-MXFP4",
        f"{gguf.name}/gpt-oss-20b-Q8_0",
    ]


def test_the_other_folder_of_lm_studio(home: Path) -> None:
    (home / ".lmstudio").mkdir()
    settings = home / ".lmstudio" / "settings.json"
    settings.write_text(json.dumps({"downloadsFolder": str(home / "disk")}))
    write_model(home / "disk" / "a" / "gpt-oss" / "m.gguf")
    assert only().name == "lmstudio:a/gpt-oss"
    for damaged in ("[", '{"downloadsFolder": "a\\u0000b"}', '{"downloadsFolder": 1}'):
        settings.write_text(damaged)
        assert installed_models() == []


def test_downloads_of_lm_studio_and_llama_cpp_that_are_not_complete(home: Path) -> None:
    studio = home / ".lmstudio" / "models" / "a" / "gpt-oss-GGUF"
    studio.mkdir(parents=True)
    (studio / "downloading_gpt-oss.gguf.part").write_bytes(b"GGUF")
    cache = home / ".cache" / "llama.cpp"
    cache.mkdir(parents=True)
    (cache / "ggml-org_gpt-oss-20b.gguf.downloadInProgress").write_bytes(b"GGUF")
    whole = write_model(cache / "ggml-org_gpt-oss-20b-mxfp4.gguf")
    write_model(cache / "llama.gguf", "llama")
    assert {(model.name, model.problem) for model in installed_models()} == {
        ("lmstudio:a/gpt-oss-GGUF", "its download is not complete"),
        (
            str(cache / "ggml-org_gpt-oss-20b.gguf.downloadInProgress"),
            "its download is not complete",
        ),
        (str(whole), ""),
    }
    with pytest.raises(EngineError, match="lmstudio:a/gpt-oss-GGUF: its download is not complete"):
        find_source("lmstudio:a/gpt-oss-GGUF")


# One bad entry beside good ones


def write_all(home: Path) -> None:
    """Write a model of each program."""
    write_folder(hub(home))
    write_ollama(home)
    write_folder(home / ".lmstudio" / "models" / "a" / "gpt-oss-8bit")
    write_model(home / ".cache" / "llama.cpp" / "gpt-oss.gguf")


def by_program() -> dict[str, InstalledModel]:
    models = installed_models()
    listed = {model.program: model for model in models}
    assert len(listed) == len(models), "an entry is listed twice"
    return listed


def owner_of(path: Path) -> str:
    owners = {"huggingface": "Hugging Face", ".ollama": "ollama", ".lmstudio": "lmstudio"}
    return next((owners[part] for part in path.parts if part in owners), "llama.cpp")


Facts = tuple[int, tuple[str, ...], str]


def facts() -> dict[str, Facts]:
    return {name: (one.size, one.engines, one.problem) for name, one in by_program().items()}


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    make(path)


REPLACEMENTS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a dangling link": lambda path: path.symlink_to("gone"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "an empty file": Path.touch,
    "text": lambda path: path.write_text('{"model_type": "gpt_oss", "weight_map": 1}'),
    "deep JSON": lambda path: path.write_text("[" * 100_000),
    "a list": lambda path: path.write_text("[[]]"),
    "bytes": lambda path: path.write_bytes(b"GGUF\xff" * 1000),
    "a folder": Path.mkdir,
}
if sys.platform != "win32":
    REPLACEMENTS["a pipe"] = os.mkfifo


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_no_entry_hides_another(
    home: Path, replacement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(home / "whole")
    monkeypatch.setenv("HOME", str(home / "whole"))
    before = facts()
    assert len(before) == 4
    paths = sorted(path.relative_to(home / "whole") for path in (home / "whole").rglob("*"))
    paths.remove(Path(".cache"))  # of several programs
    for number, path in enumerate(paths):
        one = home / str(number)
        shutil.copytree(home / "whole", one)
        replaced(one / path, REPLACEMENTS[replacement])
        monkeypatch.setenv("HOME", str(one))
        after = facts()
        for program, known in before.items():
            if program != owner_of(path):
                assert after[program] == known, path
            elif program in after:
                _, engines, problem = after[program]
                assert bool(engines) is not bool(problem), path


@contextmanager
def ordinary_user(folder: Path) -> Iterator[None]:
    """Give a folder to an ordinary user, and be that one, for whom modes are in force."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_what_may_not_be_read_is_listed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to others
        home = Path(name)
        monkeypatch.setenv("HOME", name)
        write_all(home)
        with ordinary_user(home):
            before = facts()
            assert len(before) == 4
            for path in sorted(home.rglob("*")):
                usual = path.stat().st_mode
                for mode in (0, 0o100, 0o400, 0o200):
                    path.chmod(mode)
                    if path == home / ".cache":
                        problems = {one.program for one in installed_models() if one.problem}
                        path.chmod(usual)
                        assert mode == 0o100 or problems >= {"Hugging Face", "llama.cpp"}
                        continue
                    after = facts()
                    path.chmod(usual)
                    owner = owner_of(path)
                    for program in before.keys() - {owner}:
                        assert after[program] == before[program]
                    assert after[owner] == before[owner] or after[owner][2], (path, mode)


def test_damage_is_named(home: Path) -> None:
    folder = write_folder(hub(home))
    (folder / "model-2.safetensors").symlink_to("../../blobs/gone")
    assert only().problem.startswith("the file behind model-2.safetensors is missing")
    (folder / "model.safetensors").unlink()
    assert only().problem.startswith("the file behind model-2.safetensors is missing")
    (folder / "model.safetensors").touch()
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model-2.safetensors", "b": ["x"]}}'
    )
    assert only().problem.startswith("2 of its 2 files are missing, such as ")
    (folder / "config.json").write_text("{")
    assert only().problem == "config.json is damaged; download it again"
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("../../blobs/gone")
    assert re.search(r"config\.json cannot be read: No such file", only().problem)
    gguf = hub(home, "models--ggml-org--gpt-oss-20b-GGUF") / "a.gguf"
    gguf.parent.mkdir(parents=True)
    gguf.symlink_to("../../blobs/gone")
    assert re.search(r"a\.gguf cannot be read: No such file", installed_models()[0].problem)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": "x"},
        {"num_hidden_layers": -1},
        {"layer_types": 3},
        {"num_attention_heads": 0, "head_dim": None},
        {"vocab_size": 1e9},
        {"hidden_size": 10**300},
        {"sliding_window": [1]},
        {"quantization_config": []},
        {"quantization_config": "mxfp4"},
    ],
)
def test_a_damaged_config_is_named(
    home: Path, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(hub(home), quantization={"bits": 4}, **changes)
    assert main(["models"]) == 0
    assert "openai/gpt-oss-20b" in capsys.readouterr().out
    assert changes == {"quantization_config": []} or "is damaged; download" in only().problem


@pytest.mark.parametrize("count", [3, 2**31 - 1])
def test_a_count_of_parts_that_is_not_that_of_the_name_is_damage(home: Path, count: int) -> None:
    cache = home / ".cache" / "llama.cpp"
    write_model(cache / "gpt-oss-00001-of-00002.gguf", values={"split.count": 2})
    write_model(cache / "gpt-oss-00002-of-00002.gguf", values={"split.count": 2})
    assert only().problem == ""
    write_model(cache / "gpt-oss-00001-of-00002.gguf", values={"split.count": count})
    assert "is damaged or cut short (it has" in only().problem


@pytest.mark.skipif(sys.platform == "win32", reason="such a name cannot be")
def test_names_are_escaped(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = home / ".cache" / "llama.cpp"
    file = write_model(cache / "gpt-oss\x1b[31m\n\x9b\ttrue.gguf")
    (cache / "gpt-oss-\x1b[2J\n.gguf").write_bytes(b"GGUF")
    for options in ([], ["--color", "always"]):
        assert main(["models", *options]) == 0
        lines = re.sub("\x1b\\[[0-9]*m", "", capsys.readouterr().out).splitlines()
        assert len(lines) == 4
        assert any(r"gpt-oss\x1b[31m\n\x9b\ttrue.gguf" in line for line in lines)
        assert "\x1b" not in "".join(lines)
    with suppress(SystemExit):  # without llama.cpp it says what is missing, and ends with 1
        main(["doctor", str(file)])
    assert r"gpt-oss\x1b[31m\n\x9b\ttrue.gguf" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert str(file) in [model["name"] for model in json.loads(capsys.readouterr().out)]


# The command


def test_the_list_says_what_opens_each(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    assert "there are no weights of gpt-oss" in capsys.readouterr().out
    write_folder(hub(home))
    write_ollama(home)
    write_model(home / ".lmstudio" / "models" / "a" / "gpt-oss" / "m.gguf")
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "openai/gpt-oss-20b  0.0 GB  MXFP4  transformers"
    assert (
        lines[1] == "  'harmony doctor openai/gpt-oss-20b' says where it runs and whether it fits"
    )
    assert lines[4] == "lmstudio:a/gpt-oss  0.0 GB  F32  llamacpp"
    assert lines[5] == "  fits, with a context of 4,096 tokens"
    assert main(["models", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in found] == [model.name for model in installed_models()]
    assert [bool(model["problem"]) for model in found] == [False, True, False]


def test_what_does_not_fit_is_said(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(home / ".lmstudio" / "models" / "a" / "gpt-oss" / "m.gguf")
    monkeypatch.setattr("gpt_oss_harmony.cli.models.machine_memory", lambda: 1000)
    assert main(["models"]) == 0
    assert "does not fit into the memory" in capsys.readouterr().out


# Names of files and of other programs


def test_names_without_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    for name, problem in {
        "gpt-oss:20b": "is a name of Ollama's; write ollama:gpt-oss:20b .* openai/gpt-oss-20b",
        "gpt-oss:120b": "openai/gpt-oss-120b for the same",
        "m.gguf": "there is no file '.*m.gguf'; 'harmony models' lists",
        "ggml-org/gpt-oss-20b-GGUF": "has GGUF files; download one",
    }.items():
        with pytest.raises(EngineError, match=problem):
            find_source(name)


def test_folders_are_opened_by_what_is_in_them(home: Path) -> None:
    single = write_model(home / "one" / "m.gguf")
    assert find_source(str(home / "one")) == ("llamacpp", str(single))
    write_model(home / "one" / "n.gguf")
    with pytest.raises(EngineError, match=r"has several models; name one of m\.gguf, n\.gguf"):
        find_source(str(home / "one"))
    first = write_model(home / "parts" / "m-00001-of-00002.gguf")
    write_model(home / "parts" / "m-00002-of-00002.gguf")
    assert find_source(str(home / "parts")) == ("llamacpp", str(first))
    plain = write_folder(home / "plain")
    assert find_source(str(plain)) == ("transformers", str(plain))
    assert find_source(str(plain), "mlx") == ("mlx", str(plain))
    of_mlx = write_folder(home / "of mlx", quantization={"bits": 4})
    assert find_source(str(of_mlx)) == ("mlx", str(of_mlx))
    with pytest.raises(EngineError, match="cannot be opened with the engine transformers"):
        find_source(str(of_mlx), "transformers")


def test_a_mac_prefers_mlx_where_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = write_folder(home / "plain")
    monkeypatch.setattr("sys.platform", "darwin")
    module = "gpt_oss_harmony.engines.installed_models.find_spec"
    for has, engine in ((object(), "mlx"), (None, "transformers")):
        monkeypatch.setattr(module, lambda _, has=has: has)
        assert find_source(str(plain)).engine == engine
        assert find_source(str(plain), "transformers").engine == "transformers"
    assert find_source("demo").engine == "numpy"
