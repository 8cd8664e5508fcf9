"""A model in this process, by Hugging Face Transformers and its continuous batching.

The batching runs all requests at once, but with one set of sampling settings. So this engine
replaces its logits processors with a sampler of its own. The sampler chooses a token for each row
by the settings of that request, and masks all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessor,
)
from transformers.generation.continuous_batching.continuous_api import OutputRouter
from transformers.utils import logging as transformers_logging

from ..tokens.special_tokens import CALL, RETURN
from .engine import Engine, EngineError, Health, SampledToken, Sampling, SamplingError
from .token_sampler import TokenSampler

__all__ = ["TransformersEngine"]

_PAGE = 256  # tokens in a block of the KV cache
_CPU_BATCH_TOKENS = 512  # in one step; a longer prompt takes several


class _Request:
    """A running request: its sampler, and the function that gets its tokens."""

    def __init__(
        self, sampler: TokenSampler, deliver: Callable[[SampledToken | EngineError], None]
    ) -> None:
        self._sampler = sampler
        self._deliver = deliver
        self.finished = False

    def choose(self, logits: torch.Tensor) -> int:
        """Sample a token and deliver it, or deliver the error."""
        if self.finished:
            return RETURN  # ends the request in the batching
        try:
            sampled = self._sampler.choose(logits)
        except Exception as error:  # noqa: BLE001 - other requests must go on
            self.fail(f"sampling failed: {error}")
            return RETURN
        self.finished = sampled.finish_reason is not None
        self._deliver(sampled)
        return sampled.token

    def fail(self, problem: str) -> None:
        """End the request with an error."""
        if not self.finished:
            self.finished = True
            self._deliver(EngineError(problem))


class _Sampler(ContinuousBatchingLogitsProcessor):
    """Chooses a token for each row of a step; the returned scores mask all others."""

    def __init__(self, requests: dict[str, _Request]) -> None:
        self.supported_kwargs = {}  # arguments of add_request: none is needed
        self.ignored_kwargs = ()
        self._requests = requests
        self._rows: list[str] = []

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Clear the tensor: this object itself stores which request has which row."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> torch.Tensor:
        """Store which request has which row; called just before the step."""
        self._rows = [item.state.request_id for item in requests_with_new_token]
        return torch.zeros(len(self._rows), dtype=torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Choose tokens; `scores` have the shape (rows, vocabulary), padding rows at the end."""
        chosen = torch.full_like(scores, -torch.inf)
        chosen[:, RETURN] = 0
        for row, name in enumerate(self._rows):
            request = self._requests.get(name)
            if request is not None:
                chosen[row, RETURN] = -torch.inf
                chosen[row, request.choose(scores[row])] = 0
        return chosen


class _Failures(OutputRouter):
    """Delivers errors; the sampler itself delivers tokens."""

    def __init__(self, requests: dict[str, _Request]) -> None:
        super().__init__()
        self._requests = requests

    def deliver(self, output: Any) -> None:
        """Deliver the error of a request."""
        request = self._requests.get(output.request_id)
        if request is not None and output.error is not None:
            request.fail(f"the model failed: {output.error}")

    def deliver_batch(self, outputs: list[Any]) -> None:
        """Deliver the errors of several requests."""
        for output in outputs:
            self.deliver(output)


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
        self.origin = f"{source}, {_weights_of(self._model)}"
        config = self._model.config.get_text_config()
        longest = int(config.max_position_embeddings)
        self._vocabulary = int(config.vocab_size)
        on_cpu = self._model.device.type == "cpu"
        self.context_length = min(context_length or (4096 if on_cpu else longest), longest)
        self._requests: dict[str, _Request] = {}
        self._names = map("request-{}".format, itertools.count())
        self._manager = self._start(max_requests, on_cpu=on_cpu)
        self._closing = threading.Lock()

    def _start(self, max_requests: int, *, on_cpu: bool) -> Any:
        """Start the thread that runs the model."""
        pages = -(-self.context_length // _PAGE) + 1
        batching = ContinuousBatchingConfig(
            page_size=_PAGE,
            max_requests_per_batch=max_requests,
            # The sampler runs in Python after each step, so no step can start early.
            use_async_batching=False,
            use_cuda_graph=False,
            # Without a GPU, computing the defaults takes long.
            num_blocks=pages * max_requests if on_cpu else None,
            max_batch_tokens=_CPU_BATCH_TOKENS if on_cpu else None,
        )
        generation = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False, eos_token_id=[RETURN, CALL], max_new_tokens=self.context_length
        )
        manager = self._model.init_continuous_batching(generation, batching)
        processors = manager.logit_processor
        processors.logits_processor.clear()
        processors.logits_processor.append(_Sampler(self._requests))
        processors.tensors_required = 1
        processors.do_processing = True
        manager.output_router = _Failures(self._requests)
        manager.start()
        return manager

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        # Compiling a grammar would block the event loop for too long.
        sampler = await asyncio.to_thread(self._sampler, prompt, sampling, max_tokens)
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[SampledToken | EngineError] = asyncio.Queue()

        def deliver(item: SampledToken | EngineError) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no reader is left
                loop.call_soon_threadsafe(waiting.put_nowait, item)

        request = _Request(sampler, deliver)
        name = next(self._names)
        self._requests[name] = request
        try:
            accepted = self._manager.add_request(
                prompt,
                request_id=name,
                max_new_tokens=max_tokens,
                eos_token_id=sorted({*sampling.stop_tokens, RETURN}),
            )
            if accepted is None:
                raise EngineError("the engine is closed, or its model failed before")
            while True:
                item = await waiting.get()
                if isinstance(item, EngineError):
                    raise item
                if item.finish_reason is not None:
                    yield item._replace(cached_tokens=self._cached_tokens())
                    break
                yield item
        finally:
            if not request.finished:
                request.finished = True
                self._manager.cancel_request(name)
            self._requests.pop(name, None)

    def _sampler(self, prompt: list[int], sampling: Sampling, max_tokens: int) -> TokenSampler:
        """Make the sampler of a completion, and compile its grammar."""
        SamplingError.check_tokens(prompt, self._vocabulary)
        return TokenSampler(prompt, sampling, max_tokens, self._model.device)

    def _cached_tokens(self) -> int | None:
        """Return 0 for models that share no prefixes, and otherwise None, for unknown.

        Layers with a sliding window, as in gpt-oss, share none. For other models, the batching does
        not report how many tokens were cached.
        """
        batching = self._manager.batch_processor
        return 0 if batching is not None and not batching.cache.use_prefix_sharing else None

    async def health(self) -> Health:
        """Return whether the thread that runs the model is alive."""
        running = self._manager.is_running()
        return Health(running, len(self._requests), "" if running else "the model has stopped")

    async def close(self) -> None:
        """Stop the thread; running requests end with an error."""
        for request in list(self._requests.values()):
            request.fail("the engine was closed")
        await asyncio.to_thread(self._manager.stop, block=True)


def _load(model: str | Path, options: dict[str, Any]) -> Any:
    """Load the weights, by default in their stored type."""
    on_cpu = not torch.cuda.is_available() and "device_map" not in options
    defaults: dict[str, Any] = {"dtype": "auto"}
    if on_cpu:
        defaults["experts_implementation"] = "eager"  # the default is slow on a CPU
    try:
        with _progress_on_terminals():
            loaded = AutoModelForCausalLM.from_pretrained(model, **{**defaults, **options})
    except (OSError, ValueError, RuntimeError, ImportError) as error:
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


def _weights_of(model: Any) -> str:
    """Describe the type and device of the weights: ``bfloat16 on cpu``."""
    kind = str(model.dtype).removeprefix("torch.")
    quantizer = getattr(model, "hf_quantizer", None)
    if quantizer is not None and not getattr(quantizer.quantization_config, "dequantize", False):
        kind = f"{quantizer.quantization_config.quant_method.value} and {kind}"
    devices = {str(parameter.device) for parameter in model.parameters()}
    return f"{kind} on {', '.join(sorted(devices))}"
