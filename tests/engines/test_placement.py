"""Placement and memory: faked machines, and the published sizes of gpt-oss. No GPU is needed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoModelForCausalLM, GptOssConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching import cache as batching_cache
from transformers.integrations.mxfp4 import replace_with_mxfp4_linear
from transformers.utils.quantization_config import Mxfp4Config

from gpt_oss_harmony.engines import EngineError, transformers_engine
from gpt_oss_harmony.engines.batching_memory import (
    PAGE,
    PUBLISHED_FIGURES,
    USABLE_SHARE,
    MemoryPlan,
    ModelFigures,
    plan_memory,
)
from gpt_oss_harmony.engines.devices import find_machine
from gpt_oss_harmony.engines.parallel import Processes
from gpt_oss_harmony.engines.placement import HOPPER_ATTENTION, Device, Machine, Placement, place
from support.shared_model import write_model

GB = 10**9
SMALL, LARGE = (ModelFigures.of(config) for config in PUBLISHED_FIGURES.values())
H100 = Device("cuda", "H100", 85 * GB, 84 * GB, (9, 0))
A100 = Device("cuda", "A100", 85 * GB, 84 * GB, (8, 0))
B200 = Device("cuda", "B200", 190 * GB, 188 * GB, (10, 0))
RTX4090 = Device("cuda", "RTX 4090", 25 * GB, 24 * GB, (8, 9))
V100 = Device("cuda", "V100", 85 * GB, 84 * GB, (7, 0))
MI300 = Device("rocm", "MI300X", 200 * GB, 198 * GB)
MAC = Device("mps", "Apple silicon", 96 * GB, 90 * GB)
ALL = {"accelerate": "1.10", "kernels": "0.18.2", "triton": "3.5.0"}


def machine(*devices: Device, without: tuple[str, ...] = (), memory: int = 128 * GB) -> Machine:
    return Machine(
        devices,
        memory,
        {name: version for name, version in ALL.items() if name not in without},
        has_kernels="kernels" not in without,
        has_triton="triton" not in without,
        kernels_range=">=0.18.2,<0.19.0",
    )


@pytest.mark.parametrize("name", PUBLISHED_FIGURES)
@pytest.mark.parametrize("is_tied", [False, True])
def test_the_weights_are_those_of_the_model_that_transformers_makes(
    name: str, is_tied: bool
) -> None:
    config = {**PUBLISHED_FIGURES[name], "tie_word_embeddings": is_tied}
    figures = ModelFigures.of(config)
    config = {key: value for key, value in config.items() if key != "quantization_config"}
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            GptOssConfig(**config)
        )
    count = sum(parameter.numel() for parameter in model.parameters())
    assert figures.expert_weights + figures.other_weights == count
    assert figures.weight_bytes(is_mxfp4=False) == 2 * count
    assert ModelFigures.of(model.config.to_dict())._replace(is_mxfp4=True) == figures


def test_the_published_sizes() -> None:
    sizes = [figures.weight_bytes(is_mxfp4=True) for figures in (SMALL, LARGE)]
    assert [round(size / GB, 1) for size in sizes] == [13.8, 65.2]  # those of the files on the hub


@pytest.mark.parametrize("streams", [False, True], ids=["eager", "flash"])
@pytest.mark.parametrize("free", [18, 24, 48, 80])
@pytest.mark.parametrize("max_requests", [1, 16, 64])
def test_a_plan_passes_the_check_of_transformers(
    streams: bool, free: int, max_requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = SMALL.weight_bytes(is_mxfp4=True)
    plan = plan_memory(SMALL, weights, free * GB, streams=streams, max_requests=max_requests)
    config = GptOssConfig(**PUBLISHED_FIGURES["openai/gpt-oss-20b"])
    config._attn_implementation = HOPPER_ATTENTION if streams else "paged|eager"
    monkeypatch.setattr(
        batching_cache,
        "get_device_and_memory_breakdown",
        lambda: (torch.device("cpu"), free * GB, 0, weights),
    )
    of_layer = 2 * 8 * 64 * 2 * PAGE
    handler = batching_cache.PagedAttentionMemoryHandler(
        config,
        ContinuousBatchingConfig(
            num_blocks=plan.blocks,
            max_batch_tokens=plan.batch_tokens,
            max_memory_percent=USABLE_SHARE,
            max_requests_per_batch=max_requests,
            max_blocks_per_request=0,
            use_async_batching=False,
        ),
        torch.bfloat16,
        bytes_per_sector=12 * of_layer,
        tokens_per_sector=PAGE,
        bytes_per_block=24 * of_layer,
        attn_types=["sliding_attention", "full_attention"],
        model_supports_logits_to_keep=True,
    )
    tokens, sectors = handler.infer_max_batch_tokens_and_num_sectors()  # raises if it is too large
    assert tokens == plan.batch_tokens
    assert 0 <= plan.cached_tokens - sectors * PAGE <= PAGE
    theirs = handler.compute_memory_footprint(tokens, sectors)
    scores = 0 if streams else 8 * 64 * tokens * (tokens + plan.cached_tokens)
    assert theirs + scores <= plan.cache + plan.step <= (free * GB - weights) * USABLE_SHARE + 1


def test_eager_attention_gets_steps_that_fit() -> None:
    """A step of 8,192 tokens of a context of 16,384 has 64 GB of scores."""
    eager, flash = (
        plan_memory(SMALL, 14 * GB, 80 * GB, streams=streams, max_requests=4, context_length=16_384)
        for streams in (False, True)
    )
    assert flash.batch_tokens == 8192
    assert eager.batch_tokens <= 2048
    assert eager.total <= 80 * GB


def test_a_context_that_does_not_fit_is_an_error_if_it_was_requested() -> None:
    arguments: dict[str, Any] = {"streams": False, "max_requests": 16}
    plan = plan_memory(SMALL, 14 * GB, 16 * GB, **arguments)
    assert 4096 <= plan.context_length < SMALL.context
    with pytest.raises(EngineError, match=r"needs .* with a context of 131,072 tokens .* are free"):
        plan_memory(SMALL, 14 * GB, 16 * GB, context_length=131_072, **arguments)


PLACES = {
    "one H100": (SMALL, machine(H100), ("cuda:0", True, HOPPER_ATTENTION)),
    "one H100, the large model": (LARGE, machine(H100), ("cuda:0", True, HOPPER_ATTENTION)),
    "the emptier card": (
        SMALL,
        machine(H100._replace(free=20 * GB), H100),
        ("cuda:1", True, HOPPER_ATTENTION),
    ),
    "24 GB": (SMALL, machine(RTX4090), ("cuda:0", True, "eager")),
    "two cards": (LARGE, machine(*[A100._replace(free=40 * GB)] * 2), ("auto", True, "eager")),
    "a Mac": (SMALL, machine(MAC), ("mps", False, "eager")),
    "ROCm": (LARGE, machine(MI300), ("cuda:0", True, "eager")),
    "Blackwell": (LARGE, machine(B200), ("cuda:0", True, "eager")),
    "12 GB and much main memory": (
        SMALL,
        machine(RTX4090._replace(free=12 * GB)),
        ("auto", False, "eager"),
    ),
    "no GPU": (SMALL, machine(), (None, False, None)),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_model_is_placed(case: str) -> None:
    figures, facts, expected = PLACES[case]
    placement = place(figures, facts, {})
    assert placement[:3] == expected
    assert placement.is_batched == (expected[0] != "auto")
    assert placement.dequantize == (case == "12 GB and much main memory")


TOO_SMALL = {
    "no GPU, little memory": (SMALL, machine(memory=16 * GB), "llama-server"),
    "a Mac": (LARGE, machine(MAC), "does not fit either"),
    "a small GPU": (LARGE, machine(RTX4090), "does not fit either"),
    "only MXFP4 fits": (
        SMALL,
        machine(RTX4090, without=("kernels",)),
        r"With MXFP4 it fits: .*pip install 'kernels>=0.18.2,<0.19.0'",
    ),
    "no accelerate": (SMALL, machine(H100, without=("accelerate",)), "pip install accelerate"),
}


@pytest.mark.parametrize("case", TOO_SMALL)
def test_a_model_that_fits_nowhere_is_an_error_with_a_remedy(case: str) -> None:
    figures, facts, problem = TOO_SMALL[case]
    with pytest.raises(EngineError, match=problem) as caught:
        place(figures, facts, {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("device", [H100, A100, V100, None], ids=["Hopper", "Ampere", "old", "no"])
@pytest.mark.parametrize("is_mxfp4", [True, False], ids=["MXFP4", "bf16"])
@pytest.mark.parametrize(
    "without",
    list(itertools.chain.from_iterable(
        itertools.combinations(("kernels", "triton"), count) for count in range(3)
    )),
)  # fmt: skip
@pytest.mark.parametrize("has_flash_attn", [True, False])
def test_every_combination_of_packages_has_a_known_attention(
    device: Device | None, is_mxfp4: bool, without: tuple[str, ...], has_flash_attn: bool
) -> None:
    facts = machine(*([device] if device else []), without=without)
    if has_flash_attn:  # it has no sinks, so it changes nothing
        facts = facts._replace(packages={**facts.packages, "flash-attn": "2.8.3"})
    figures = SMALL._replace(is_mxfp4=is_mxfp4)
    placement = place(figures, facts, {})
    if device is None:
        assert placement[:3] == (None, False, None)
        return
    has_kernel = device is H100 and "kernels" not in without
    assert placement.attention == (HOPPER_ATTENTION if has_kernel else "eager")
    assert placement.is_mxfp4 == (is_mxfp4 and device is not V100 and not without)
    explained = [
        device is H100 and not has_kernel,
        is_mxfp4 and not placement.is_mxfp4,
    ]
    assert len(placement.remarks) == sum(explained)
    # With eager attention requested, nothing else is needed.
    assert place(figures, facts, {"attn_implementation": "eager"}).attention == "eager"
    if "kernels" in without:
        with pytest.raises(EngineError, match="pip install 'kernels"):
            place(figures, facts, {"attn_implementation": "flash_attention_2"})


def test_options_of_the_caller_win() -> None:
    facts = machine(H100)
    assert place(SMALL, facts, {"device_map": "cpu"})[:3] == ("cpu", False, None)
    assert place(SMALL, facts, {"device_map": "auto"}).device_map is None
    assert not place(SMALL, facts, {"quantization_config": object()}).is_mxfp4
    for size in (2, 4, 8):
        divided = place(LARGE, machine(*[H100] * size), {}, processes=size)
        assert divided[:3] == (None, True, HOPPER_ATTENTION)
    other = place(SMALL._replace(kind="llama", is_mxfp4=False), facts, {})
    assert other[:3] == ("cuda:0", False, None)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_processes_share_the_experts_and_the_head(size: int) -> None:
    whole = LARGE.weight_bytes(is_mxfp4=True)
    own = LARGE.weight_bytes(is_mxfp4=True, processes=size)
    everywhere = LARGE.weight_bytes(is_mxfp4=True, processes=10**9)
    assert abs(size * (own - everywhere) - (whole - everywhere)) < 100 * size
    plan_memory(LARGE, own, 79 * GB, streams=True, max_requests=16)


# What reaches Transformers


def test_the_machine_is_read_from_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: ((index + 1) * GB, 80 * GB))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "H100")
    facts = find_machine()
    assert facts.devices == tuple(
        Device("cuda", "H100", 80 * GB, free * GB, (9, 0)) for free in (1, 2)
    )
    assert "accelerate" in facts.packages


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    class Loaded:
        def eval(self) -> Loaded:
            return self

    def from_pretrained(model: str, **settings: Any) -> Loaded:
        calls.append(settings)
        if settings.get("attn_implementation") == HOPPER_ATTENTION and len(calls) == 1:
            raise OSError("the hub cannot be reached")
        return Loaded()

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", from_pretrained)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return calls


def test_a_placement_becomes_options_of_transformers(loads: list[dict[str, Any]]) -> None:
    transformers_engine._load(
        "m", {}, Processes(), Placement("auto", False, "eager", dequantize=True)
    )
    (settings,) = loads
    quantization = settings.pop("quantization_config")
    assert isinstance(quantization, Mxfp4Config)
    assert quantization.dequantize
    assert settings == {"dtype": "auto", "device_map": "auto", "attn_implementation": "eager"}


def test_a_kernel_that_cannot_be_loaded_is_replaced_by_eager_attention(
    loads: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    chosen = Placement("cuda:0", True, HOPPER_ATTENTION)
    transformers_engine._load("m", {}, Processes(), chosen)
    assert [call["attn_implementation"] for call in loads] == [HOPPER_ATTENTION, "eager"]
    assert "the hub cannot be reached" in caplog.text


def test_a_kernel_that_was_requested_is_not_replaced(loads: list[dict[str, Any]]) -> None:
    options = {"attn_implementation": HOPPER_ATTENTION}
    with pytest.raises(EngineError, match="the hub cannot be reached"):
        transformers_engine._load("m", options, Processes(), Placement(None, True, None))


@pytest.mark.parametrize("name", PUBLISHED_FIGURES)
@pytest.mark.parametrize("size", [2, 4, 8])
def test_each_process_loads_its_share_of_the_experts_as_mxfp4(
    name: str,
    size: int,
    loads: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`_load` asks for the division, and Transformers itself divides an MXFP4 model by it.

    The processes are PyTorch's fake ones, and the weights are on the device `meta`.
    """
    parallel = pytest.importorskip("transformers.distributed.expert_parallel")
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED_FIGURES[name]), "utf-8")
    transformers_engine._load(tmp_path, {}, Processes(size, 0), Placement(None, True, "eager"))
    (settings,) = loads
    division = settings.pop("distributed_config")
    assert settings == {
        "dtype": "auto",
        "attn_implementation": "eager",
        "experts_implementation": "grouped_mm",  # where MXFP4 is not possible
    }
    assert (division.tp_size, division.ep_size, division.tp_plan) == (size, size, None)
    monkeypatch.setattr("transformers.integrations.hub_kernels.get_kernel", lambda *_, **__: None)
    values = {**PUBLISHED_FIGURES[name], "num_hidden_layers": 1, "layer_types": None}
    del values["quantization_config"]
    config = GptOssConfig(**values)
    with torch.device("meta"):
        whole = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model: Any = replace_with_mxfp4_linear(whole, Mxfp4Config(), [])
    experts = model.model.layers[0].mlp.experts
    count = config.num_local_experts
    total = sum(parameter.nbytes for parameter in experts.parameters())
    distributed.init_process_group("fake", rank=size - 1, world_size=size, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (size,))
        plan = {key.replace("*", "0"): style for key, style in config.base_model_ep_plan.items()}
        parallel.apply_expert_parallelism(model.model, mesh, mesh, plan, division.ep_implementation)
        mine = [parameter.to_local() for parameter in experts.parameters()]
    finally:
        distributed.destroy_process_group()
    assert experts.num_experts == count // size
    assert {part.shape[0] for part in mine} == {count // size}
    assert [part.dtype for part in mine].count(torch.uint8) == 2  # two values a byte
    assert sum(part.nbytes for part in mine) == total // size


def test_a_folder_has_figures(tmp_path: Path) -> None:
    write_model(tmp_path, tied=False)
    figures = transformers_engine._figures(tmp_path, {})
    assert figures is not None
    assert (figures.kind, figures.layers, figures.full_layers) == ("gpt_oss", 2, 1)
    assert transformers_engine._figures(tmp_path / "nothing", {"local_files_only": True}) is None
    assert isinstance(plan_memory(figures, 0, GB, streams=False, max_requests=4), MemoryPlan)
