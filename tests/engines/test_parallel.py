"""Threads and processes that share a model."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gpt_oss_harmony.engines import EngineError, TransformersEngine
from gpt_oss_harmony.engines.parallel import (
    Processes,
    available_cores,
    available_memory,
    thread_count,
)
from support.shared_model import OPTIONS, completions, write_model

PATIENCE = 300  # seconds for two processes that import PyTorch and load a small model

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.mark.parametrize(
    ("limit", "cores"),
    [
        ("max 100000", CORES),
        ("100000 100000", 1),
        ("50000 100000", 1),
        ("100000000 100000", CORES),
        ("nonsense", CORES),
        (None, CORES),
    ],
)
def test_the_limit_of_a_container_counts(limit: str | None, cores: int, tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    if limit is not None:
        file.write_text(f"{limit}\n")
    assert available_cores(file) == cores


@pytest.mark.parametrize(
    ("parameters", "processes", "variable", "threads"),
    [
        (27_000_000, 1, None, 1),
        (27_000_000, 1, "4", 1),
        (20_000_000_000, 1, None, 12),
        (20_000_000_000, 1, "3", 3),
        (20_000_000_000, 1, "0", 12),
        (20_000_000_000, 4, "1", 3),
        (20_000_000_000, 16, "1", 1),
    ],
)
def test_threads_depend_on_the_model_and_the_machine(
    parameters: int,
    processes: int,
    variable: str | None,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpt_oss_harmony.engines.parallel.available_cores", lambda: 12)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert thread_count(parameters, processes) == threads


HEADS = {"layers.*.self_attn.q_proj": "colwise"}


@pytest.mark.parametrize(
    ("config", "size", "problem"),
    [
        ({"num_local_experts": 4, "num_key_value_heads": 1}, 4, None),
        ({"num_local_experts": 4}, 3, "4 experts, which 3 processes .* start 1 or 2 or 4 with"),
        ({"num_attention_heads": 6, "num_key_value_heads": 3}, 2, None),
        (
            {"num_attention_heads": 6, "num_key_value_heads": 3, "base_model_tp_plan": HEADS},
            2,
            "6 attention heads and 3 key and value heads, which 2 .* start 1 or 3 with",
        ),
        (
            {"num_attention_heads": 6, "num_key_value_heads": 3, "base_model_tp_plan": HEADS},
            3,
            None,
        ),
    ],
)
def test_a_model_that_cannot_be_divided_is_refused(
    config: dict[str, object], size: int, problem: str | None
) -> None:
    processes = Processes(size)
    if problem is None:
        processes.check_divides("m", SimpleNamespace(**config))
    else:
        with pytest.raises(EngineError, match=problem):
            processes.check_divides("m", SimpleNamespace(**config))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One model with a head of its own, and one whose head is its embedding."""
    folders = []
    for tied in (False, True):
        folders.append(tmp_path_factory.mktemp("model"))
        write_model(folders[-1], tied=tied)
    return folders


@pytest.mark.parametrize(
    ("machine", "limit", "used", "available"),
    [
        ("MemAvailable:    2000 kB", None, "", 2_048_000),
        ("MemAvailable:    2000 kB", "max", "anon 5", 2_048_000),
        ("MemAvailable:    2000 kB", "3000000", "file 9\nanon 1000000", 2_000_000),
        ("MemAvailable:    2000 kB", "9000000", "anon 1000000", 2_048_000),
        ("MemFree:    2000 kB", None, "", None),
        (None, "3000000", "anon 1000000", None),
    ],
)
def test_the_memory_of_the_machine_and_the_container(
    machine: str | None, limit: str | None, used: str, available: int | None, tmp_path: Path
) -> None:
    for name, text in (("meminfo", machine), ("memory.max", limit), ("memory.stat", used)):
        if text is not None:
            (tmp_path / name).write_text(f"MemTotal:    9 kB\n{text}\n" if "Mem" in text else text)
    assert available_memory(tmp_path / "meminfo", tmp_path) == available


def test_a_cache_that_does_not_fit_is_refused(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two layers with a key and a value of 16 numbers, for 8 requests of 400 tokens and a page more.
    needed = 2 * 2 * 16 * 4 * 8 * 3 * 256
    memory = needed - 1
    module = "gpt_oss_harmony.engines.continuous_batching"
    monkeypatch.setattr(f"{module}.available_memory", lambda: memory)
    with pytest.raises(EngineError, match=r"8 requests with 400 tokens .*--context-length"):
        TransformersEngine.load(folders[0], **OPTIONS)
    memory += 1
    asyncio.run(TransformersEngine.load(folders[0], **OPTIONS).close())


@pytest.mark.slow
def test_two_processes_give_the_tokens_of_one(folders: list[Path]) -> None:
    """They are real processes, which meet over gloo as those of torchrun do."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    source = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(source / "src"), str(source / "tests")]),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "support.shared_model", *map(str, folders)],
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()
    (printed, said), (nothing, _) = outputs
    assert [process.returncode for process in processes] == [0, 0], said
    assert nothing == ""

    async def alone(folder: Path) -> list[list[int]]:
        # The experts of several processes are computed by it, too, and sums may round otherwise.
        engine = TransformersEngine.load(folder, **OPTIONS, experts_implementation="grouped_mm")
        async with engine:
            return await completions(engine)

    expected = [asyncio.run(alone(folder)) for folder in folders]
    assert [json.loads(line) for line in printed.splitlines()] == expected
    assert [len(lists) for lists in expected] == [5, 5]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"context_length": 0}, "context_length must be an integer from 1, not 0"),
        ({"context_length": 513}, "has at most 512 tokens, not 513"),
        ({"max_requests": 0}, "max_requests must be an integer from 1, not 0"),
        ({"threads": 0}, "threads must be an integer from 1, not 0"),
    ],
)
def test_wrong_settings_are_refused(
    folders: list[Path], options: dict[str, int], problem: str
) -> None:
    with pytest.raises(EngineError, match=problem):
        TransformersEngine.load(folders[0], **options)  # type: ignore[arg-type]


def test_threads_can_be_chosen(folders: list[Path]) -> None:
    before = torch.get_num_threads()

    async def run() -> None:
        async with TransformersEngine.load(folders[0], threads=2) as engine:
            assert torch.get_num_threads() == 2
            assert engine.origin.endswith("float32 on cpu with 2 threads")

    try:
        asyncio.run(run())
    finally:
        torch.set_num_threads(before)
