"""The header of GGUF files, against the package ``gguf``; damaged ones; Ollama's, copied."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from gpt_oss_harmony.engines import EngineError
from gpt_oss_harmony.engines.gguf_conversion import (
    convert_ollama_gguf,
    converted_file,
    llama_cpp_header,
)
from gpt_oss_harmony.engines.gguf_header import TENSOR_TYPES, is_gguf, read_gguf_header
from support.examples import examples
from support.gguf_files import SIZES, TOKENS, write_model

GB = 10**9


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_model(tmp_path / "gpt-oss.gguf", values={"general.name": "tiny", "x.y": -3})


def test_the_sizes_of_types_are_those_of_the_package() -> None:
    for kind, (name, block, size) in TENSOR_TYPES.items():
        known = gguf.GGMLQuantizationType(kind)
        assert known.name == name
        assert gguf.GGML_QUANT_SIZES[known] == (block, size)


def test_a_header_says_what_the_package_reads(file: Path) -> None:
    header, reader = read_gguf_header(file), gguf.GGUFReader(file)
    assert {t.name: (t.offset + header.data_start, t.size, t.weights) for t in header.tensors} == {
        t.name: (t.data_offset, t.n_bytes, t.n_elements) for t in reader.tensors
    }
    for key, value in header.values.items():
        assert reader.fields[key].contents() == value, key
    assert header.lengths["tokenizer.ggml.tokens"] == len(TOKENS)
    assert header.end == file.stat().st_size
    assert header.architecture == "gpt-oss"
    assert header.quantization == "F32"
    figures = header.figures()
    assert (figures.layers, figures.full_layers, figures.window) == (2, 1, 128)
    assert figures.context == SIZES["context_length"]


def test_a_file_cut_anywhere_is_an_error_in_one_line(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in {*range(0, len(data), max(1, len(data) // examples(200))), len(data) - 1}:
        cut.write_bytes(data[:length])
        with pytest.raises(EngineError, match=r"download it again|does not begin with GGUF") as hit:
            read_gguf_header(cut)
        assert str(cut) in str(hit.value)
        assert "\n" not in str(hit.value)


def test_damaged_bytes_raise_no_other_error(file: Path, tmp_path: Path) -> None:
    data, damaged, dice = file.read_bytes(), tmp_path / "damaged.gguf", random.Random(0)
    end = read_gguf_header(file).data_start
    refused = 0
    for _ in range(examples(300)):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(end)] = dice.choice((0, 0xFF, dice.randrange(256)))
        damaged.write_bytes(changed)
        with contextlib.suppress(EngineError):
            read_gguf_header(damaged)
            refused -= 1
        refused += 1
    assert refused


def test_other_files_are_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("GGU")
    assert not is_gguf(tmp_path / "text")
    assert not is_gguf(tmp_path / "nothing")
    with pytest.raises(EngineError, match="nothing cannot be read: No such file"):
        read_gguf_header(tmp_path / "nothing")
    (tmp_path / "empty").touch()
    with pytest.raises(EngineError, match="empty is empty"):
        read_gguf_header(tmp_path / "empty")


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pipes in folders")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    assert not is_gguf(tmp_path / "pipe.gguf")
    with pytest.raises(EngineError, match=r"pipe\.gguf is not a file"):
        read_gguf_header(tmp_path / "pipe.gguf")


# What a file needs


def plan(*given: Any) -> Any:
    """Call `plan_gguf`, whose module needs the extra ``llamacpp``."""
    from gpt_oss_harmony.engines.gguf_engine import plan_gguf

    return plan_gguf(*given)


@pytest.mark.slow
def test_another_architecture_is_named(tmp_path: Path) -> None:
    header = read_gguf_header(write_model(tmp_path / "llama.gguf", "llama"))
    with pytest.raises(EngineError, match="of the architecture 'llama', and harmony is the format"):
        plan(header, None, None, 1)
    header = read_gguf_header(write_model(tmp_path / "blob", "gptoss", of_ollama=True))
    with pytest.raises(EngineError, match=r"'harmony models --convert .*blob' copies it once"):
        plan(header, None, None, 1)


@pytest.mark.slow
def test_a_missing_part_is_named(tmp_path: Path) -> None:
    values = {"split.count": 2, "split.no": 0}
    first = write_model(tmp_path / "m-00001-of-00002.gguf", values=values)
    with pytest.raises(EngineError, match=r"one of 2 parts, and m-00002-of-00002\.gguf is not"):
        plan(read_gguf_header(first), None, None, 1)
    second = write_model(tmp_path / "m-00002-of-00002.gguf")
    both = first.stat().st_size + second.stat().st_size
    assert plan(read_gguf_header(first), None, None, 1).weights == both


@pytest.mark.slow
def test_the_memory_lowers_what_was_not_asked_for(file: Path) -> None:
    header = read_gguf_header(file)
    whole = plan(header, None, None, 16)
    assert (whole.context_length, whole.max_requests) == (4096, 16)
    assert plan(header, whole.needed, None, 16) == whole._replace(free=whole.needed)
    less = plan(header, whole.needed - 1, None, 16)
    assert (less.context_length, less.max_requests) == (4096, 8)
    assert less.needed <= whole.needed - 1
    one = plan(header, None, 100, 1)
    with pytest.raises(EngineError, match=r"does not fit into the memory: .* are free; end other"):
        plan(header, one.needed - 1, 100, 16)
    with pytest.raises(EngineError, match="has at most 4,096 tokens, not 5,000"):
        plan(header, None, 5000, 1)


# Ollama's file


@pytest.fixture
def blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    values = {"gptoss.rope.freq_base": 150000.0, "general.file_type": 4}
    return write_model(tmp_path / "sha256-1", "gptoss", values=values, of_ollama=True)


def test_the_copy_is_what_llama_cpp_has(blob: Path, tmp_path: Path) -> None:
    """The same model written for llama.cpp in the first place has the same keys and tensors."""
    values = {"gpt-oss.rope.freq_base": 150000.0, "general.file_type": 4}
    expected = gguf.GGUFReader(write_model(tmp_path / "own.gguf", values=values))
    copy = gguf.GGUFReader(convert_ollama_gguf(blob))
    assert {key: field.contents() for key, field in copy.fields.items() if "GGUF" not in key} == {
        key: field.contents() for key, field in expected.fields.items() if "GGUF" not in key
    }
    assert [t.name for t in copy.tensors] == [t.name for t in expected.tensors]
    for one, other in zip(copy.tensors, expected.tensors, strict=True):
        assert one.tensor_type == other.tensor_type
        assert np.array_equal(one.data, other.data)


@pytest.mark.parametrize("place", ["header", "weights", "other header"])
def test_a_copy_that_was_interrupted_goes_on(blob: Path, place: str) -> None:
    begin = llama_cpp_header(read_gguf_header(blob))
    target = convert_ollama_gguf(blob)
    whole = target.read_bytes()
    target.unlink()
    rest = {"header": whole[:40], "weights": whole[: len(begin) + 1000],
            "other header": b"GGUF" + bytes(len(begin))}  # fmt: skip
    target.with_suffix(".part").write_bytes(rest[place])
    seen: list[tuple[int, int]] = []
    assert convert_ollama_gguf(blob, lambda done, total: seen.append((done, total))) == target
    assert target.read_bytes() == whole
    assert seen[-1] == (len(whole), len(whole))
    assert not target.with_suffix(".part").exists()
    before = target.stat().st_mtime_ns
    assert convert_ollama_gguf(blob) == target == converted_file(blob)
    assert target.stat().st_mtime_ns == before


def test_only_ollamas_files_are_copied(file: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="of the architecture 'gpt-oss', not Ollama's 'gptoss'"):
        convert_ollama_gguf(file)
    cut = tmp_path / "cut"
    cut.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(EngineError, match="cut short"):
        convert_ollama_gguf(cut)
