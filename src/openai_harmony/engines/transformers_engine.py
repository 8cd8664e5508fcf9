"""A model in this process, by Hugging Face Transformers and its continuous batching."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from .continuous_batching import ContinuousBatching, RunningRequest
from .engine import Engine, EngineError, Health, SampledToken, Sampling, SamplingError
from .token_sampler import TokenSampler

__all__ = ["TransformersEngine"]


class TransformersEngine(Engine):
    """Runs a folder or a hub name, such as ``openai/gpt-oss-20b``.

    `context_length` limits prompt and completion together. On a CPU, it and `max_requests` also
    determine the memory of the KV cache; on a GPU, Transformers uses the free memory. `options` are
    those of ``AutoModelForCausalLM.from_pretrained``: ``device_map="auto"``,
    ``attn_implementation``, ``tp_plan="auto"`` or ``distributed_config`` under ``torchrun``, ...

    Raises `EngineError` if the model cannot be loaded.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        name: str | None = None,
        context_length: int | None = None,
        max_requests: int = 16,
        **options: Any,
    ) -> None:
        self.model = name or str(model)
        self._model = _load(model, options)
        source = model if Path(model).is_dir() else f"{model} on the Hugging Face hub"
        kind = str(self._model.dtype).removeprefix("torch.")
        quantizer = getattr(self._model, "hf_quantizer", None)
        settings = None if quantizer is None else quantizer.quantization_config
        if settings is not None and not getattr(settings, "dequantize", False):
            kind = f"{settings.quant_method.value} and {kind}"
        devices = sorted({str(parameter.device) for parameter in self._model.parameters()})
        self.origin = f"{source}, {kind} on {', '.join(devices)}"
        config = self._model.config.get_text_config()
        longest = int(config.max_position_embeddings)
        self._vocabulary = int(config.vocab_size)
        on_cpu = self._model.device.type == "cpu"
        self.context_length = min(context_length or (4096 if on_cpu else longest), longest)
        self._requests: dict[str, RunningRequest] = {}
        self._names = map("request-{}".format, itertools.count())
        self._batching = ContinuousBatching(
            self._model, self._requests, self.context_length, max_requests
        )

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        SamplingError.check_tokens(prompt, self._vocabulary)
        # Compiling a grammar would block the event loop for too long.
        sampler = await asyncio.to_thread(
            TokenSampler, prompt, sampling, max_tokens, self._vocabulary
        )
        forced = sampler.take_forced()
        request = RunningRequest(sampler, forced)
        name = next(self._names)
        self._requests[name] = request
        try:
            if not request.is_finished:
                prompt = prompt + [sampled.token for sampled in forced]
                if not self._batching.add(name, prompt, max_tokens - len(forced)):
                    raise EngineError("the engine is closed, or its model failed before")
            while True:
                item = await request.items.get()
                if isinstance(item, EngineError):
                    raise item
                if item.finish_reason is not None:
                    yield item._replace(cached_tokens=self._batching.cached_tokens)
                    break
                yield item
        finally:
            if not request.is_finished:
                request.is_finished = True
                self._batching.cancel(name)
            self._requests.pop(name, None)

    async def health(self) -> Health:
        """Return whether the thread that runs the model is alive."""
        running = self._batching.is_running
        return Health(running, len(self._requests), "" if running else "the model has stopped")

    async def close(self) -> None:
        """Stop the thread; running requests end with an error."""
        for request in list(self._requests.values()):
            request.fail("the engine was closed")
        await asyncio.to_thread(self._batching.stop)


def _load(model: str | Path, options: dict[str, Any]) -> Any:
    """Load the weights, by default in their stored type."""
    on_cpu = not torch.cuda.is_available() and "device_map" not in options
    defaults: dict[str, Any] = {"dtype": "auto"}
    if on_cpu:
        defaults["experts_implementation"] = "eager"  # the default is slow on a CPU
    try:
        with _progress_on_terminals():
            loaded = AutoModelForCausalLM.from_pretrained(model, **{**defaults, **options})
    except (OSError, ValueError, RuntimeError, ImportError, TypeError) as error:
        raise EngineError(f"cannot load the model {str(model)!r}: {error}") from error
    return loaded.eval()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _progress_on_terminals() -> Iterator[None]:
    """Show progress bars only on terminals; those of downloads already behave so."""

    def make(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return outer(factory, args, {"disable": None, **options})

    def make_plainly(
        factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        return factory(*args, **options)

    previous = transformers_logging.set_tqdm_hook(make)
    outer = previous or make_plainly
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(previous)
