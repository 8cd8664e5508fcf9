"""A model in this process with MLX: on a Mac its GPU, elsewhere its CPU build.

``mlx-lm`` reads the weights and computes; its `BatchGenerator` runs all requests at once. What a
request is allowed to sample is decided here, with the same settings and grammars as elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models import gpt_oss
from mlx_lm.utils import load_model

from .batching_memory import ModelFigures
from .engine import EngineError, check_sizes
from .in_process_engine import InProcessEngine
from .local_memory import machine_memory, plan_local_memory
from .mlx_batching import MOST_CACHED_BYTES, MlxBatching

_LOG = logging.getLogger(__name__)

_FILES = ("*.json", "model*.safetensors", "*.jinja")


class MlxEngine(InProcessEngine):
    """Runs a model of mlx-lm; `MlxEngine.load` makes it from a folder or a name on the hub.

    - `model`: a loaded model of ``mlx_lm.models.gpt_oss``.
    - `context_length`: the most tokens of prompt and completion together.
    - `max_requests`: the most requests at once; further ones wait.
    - `cached_bytes`: the most memory for the caches of earlier prompts.

    ::

        engine = MlxEngine.load("mlx-community/gpt-oss-20b-MXFP4-Q8")
    """

    skips_forced = True

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        context_length: int,
        max_requests: int = 16,
        origin: str = "",
        cached_bytes: int = MOST_CACHED_BYTES,
    ) -> None:
        check_sizes(context_length=context_length, max_requests=max_requests)
        super().__init__(name, int(model.args.vocab_size))
        self.context_length = context_length
        self.origin = origin
        self._batching: MlxBatching = MlxBatching(model, self._requests, max_requests, cached_bytes)

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        name: str | None = None,
        context_length: int | None = None,
        max_requests: int = 16,
        revision: str | None = None,
        token: str | None = None,
        self_check: bool | None = None,
    ) -> MlxEngine:
        """Load a folder in MLX's or Transformers' format, or a name on the Hugging Face hub.

        The default of `context_length` is that of the model, or less if the caches of its requests
        do not fit into the memory. `self_check` compares tokens that are read in one step with the
        same tokens one by one, before the first request; by default on a GPU. Raises `EngineError`
        if the model cannot be loaded, or fails the check.
        """
        check_sizes(context_length=context_length, max_requests=max_requests)
        folder = _folder(str(model), revision, token)
        config = _config(folder)
        figures = ModelFigures.of(config)
        files = list(folder.glob("model*.safetensors"))
        size = sum(file.stat().st_size for file in files)
        plan = plan_local_memory(
            str(model), figures, size, _free_memory(), context_length, max_requests
        )
        plan.report(_LOG, context_length, max_requests)
        try:
            loaded, _ = load_model(folder, get_model_classes=lambda config: _CLASSES)
        except Exception as error:  # damaged files raise errors of any kind
            raise EngineError(f"MLX cannot load the model {str(model)!r}: {error}") from error
        loaded.eval()
        device = str(mx.default_device().type).rpartition(".")[2]
        if device == "cpu":  # MLX has experts on a CPU only in this type
            loaded.set_dtype(mx.float32)
        # What a model computes at its first step, such as frequencies, belongs to this thread.
        mx.eval(loaded(mx.array([[0]], mx.uint32)))
        if device == "gpu" if self_check is None else self_check:
            _check(loaded)
        return cls(
            loaded,
            name=name or str(model),
            context_length=plan.context_length,
            max_requests=plan.max_requests,
            origin=f"{model}, {_stored(config)} in MLX on the {device.upper()}",
            cached_bytes=min(MOST_CACHED_BYTES, (plan.free - plan.needed) // 2)
            if plan.free is not None
            else MOST_CACHED_BYTES,
        )


class MlxGptOss(gpt_oss.Model):  # type: ignore[misc]
    """gpt-oss in mlx-lm, which also reads experts that Transformers stored unquantised.

    Transformers stores them as (expert, in, out), with gate and up projection in turns, and without
    ``.weight`` in their names. mlx-lm expects the layout of MXFP4.
    """

    def sanitize(self, weights: dict[str, Any]) -> dict[str, Any]:
        """Rename and turn the experts."""
        if not any(name.endswith("experts.gate_up_proj") for name in weights):
            return dict(super().sanitize(weights))
        sanitized = {}
        for name, weight in weights.items():
            if name.endswith("experts.gate_up_proj"):
                turned = weight.swapaxes(1, 2)
                for at, part in enumerate(("gate_proj", "up_proj")):
                    renamed = name.replace("gate_up_proj", f"{part}.weight")
                    sanitized[renamed] = mx.contiguous(turned[:, at::2])
            elif name.endswith("experts.down_proj"):
                sanitized[f"{name}.weight"] = mx.contiguous(weight.swapaxes(1, 2))
            elif name.endswith("experts.gate_up_proj_bias"):
                for at, part in enumerate(("gate_proj", "up_proj")):
                    renamed = name.replace("gate_up_proj_bias", f"{part}.bias")
                    sanitized[renamed] = mx.contiguous(weight[..., at::2])
            elif name.endswith("experts.down_proj_bias"):
                sanitized[name.replace("_bias", ".bias")] = weight
            else:
                sanitized[name] = weight
        return sanitized


_CLASSES = (MlxGptOss, gpt_oss.ModelArgs)


def _folder(model: str, revision: str | None, token: str | None) -> Path:
    """Return the folder of a model; a name on the hub is downloaded into its cache."""
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import snapshot_download

    try:
        downloaded = snapshot_download(
            model, revision=revision, token=token, allow_patterns=list(_FILES)
        )
    except Exception as error:  # of whichever HTTP library the hub's client uses
        raise EngineError(f"the model {model!r} cannot be downloaded: {error}") from error
    return Path(downloaded)


def _config(folder: Path) -> dict[str, Any]:
    """Read the model's ``config.json``; raise `EngineError` for another architecture."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"the config.json of {folder} cannot be read: {error}") from error
    if not isinstance(config, dict) or config.get("model_type") != "gpt_oss":
        kind = config.get("model_type") if isinstance(config, dict) else None
        raise EngineError(
            f"{folder} holds a model of the type {kind!r}; with MLX only gpt_oss can be opened"
        )
    return config


def _stored(config: Mapping[str, Any]) -> str:
    """Name the form of the weights."""
    quantization = config.get("quantization") or config.get("quantization_config") or {}
    mode = quantization.get("mode") or quantization.get("quant_method")
    bits = quantization.get("bits")
    named = str(mode).upper() if mode and mode != "affine" else ""
    return named or (f"{bits} bits" if bits else str(config.get("dtype") or "its stored type"))


def _free_memory() -> int | None:
    """Return how much memory a model may use: on a Mac, what Metal recommends at most."""
    with contextlib.suppress(AttributeError, RuntimeError):
        limit = mx.device_info().get("max_recommended_working_set_size")
        if limit:
            return int(limit) - int(mx.get_active_memory())
    return machine_memory()


_CHECKED = 24  # tokens that are read one by one
_MOST_DIFFERENCE = 0.15  # of logits in bfloat16, norm by norm


def _check(model: Any) -> None:
    """Compare the logits of tokens read at once with those of the same tokens with a cache.

    A wrong mask, window, sink or cache gives a different model. Raises `EngineError` then.
    """
    window = int(model.args.sliding_window)
    count = window + _CHECKED
    # Ordinary tokens without a pattern: steps of a prime, which meet none of them twice.
    tokens = mx.array([[(7919 * at + 104_729) % 199_998 for at in range(count)]], mx.uint32)
    whole = model(tokens)[0, -1].astype(mx.float32)
    cache = model.make_cache()
    model(tokens[:, :window], cache=cache)
    for at in range(window, count):
        last = model(tokens[:, at : at + 1], cache=cache)[0, -1].astype(mx.float32)
        mx.eval(last)
    centered = whole - whole.mean()
    distance = mx.linalg.norm(last - last.mean() - centered) / mx.linalg.norm(centered)
    found = distance.item()
    if math.isnan(found) or found > _MOST_DIFFERENCE:
        raise EngineError(
            f"MLX computes other logits for the same tokens at once than one by one (they differ "
            f"by {found:.1%}); update mlx and mlx-lm, or use another engine. --no-self-check "
            "starts all the same"
        )
