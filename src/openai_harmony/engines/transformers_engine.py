"""A model in this process, by Hugging Face Transformers and its continuous batching.

The batching keeps the model busy with all requests at once, but samples all of them alike. So this
engine puts its own sampler in the place of the logits processors: it chooses a token for each row
by that request's settings, and leaves no other for what comes after it.
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
from .engine import Engine, Health, SampledToken
from .errors import EngineError, SamplingError
from .row_sampler import RowSampler
from .sampling import Sampling

__all__ = ["TransformersEngine"]

_PAGE = 256  # tokens in a block of the cache
_CPU_BATCH_TOKENS = 512  # in one step: a longer prompt is read in several


class _Request:
    """A request under way: what samples it, and who waits for its tokens."""

    def __init__(
        self, sampler: RowSampler, deliver: Callable[[SampledToken | EngineError], None]
    ) -> None:
        self._sampler = sampler
        self._deliver = deliver
        self.finished = False

    def choose(self, logits: torch.Tensor) -> int:
        """Sample a token and hand it over; what goes wrong is handed over as well."""
        if self.finished:
            return RETURN  # the batching will notice that the request has ended
        try:
            sampled = self._sampler.choose(logits)
        except Exception as error:  # noqa: BLE001 - it must not end the other requests
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
    """Chooses for all rows of a step: the scores that come out leave one token for each."""

    def __init__(self, requests: dict[str, _Request]) -> None:
        self.supported_kwargs = {}  # those of add_request, of which this needs none
        self.ignored_kwargs = ()
        self._requests = requests
        self._rows: list[str] = []

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Nothing goes through the tensor: who stands in which row is kept here."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> torch.Tensor:
        """Note whose row is which; called just before the step."""
        self._rows = [one.state.request_id for one in requests_with_new_token]
        return torch.zeros(len(self._rows), dtype=torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Choose; `scores` have the shape (rows, vocabulary), padding rows at the end."""
        chosen = torch.full_like(scores, -torch.inf)
        chosen[:, RETURN] = 0
        for row, name in enumerate(self._rows):
            request = self._requests.get(name)
            if request is not None:
                chosen[row, RETURN] = -torch.inf
                chosen[row, request.choose(scores[row])] = 0
        return chosen


class _Failures(OutputRouter):
    """Hands over what failed; tokens are handed over where they are sampled."""

    def __init__(self, requests: dict[str, _Request]) -> None:
        super().__init__()
        self._requests = requests

    def deliver(self, output: Any) -> None:
        """Tell the request of an error."""
        request = self._requests.get(output.request_id)
        if request is not None and output.error is not None:
            request.fail(f"the model failed: {output.error}")

    def deliver_batch(self, outputs: list[Any]) -> None:
        """The same for several."""
        for output in outputs:
            self.deliver(output)


class TransformersEngine(Engine):
    """Runs a folder or a hub name, such as ``openai/gpt-oss-20b``.

    `context_length` bounds prompt and completion together, and with `max_requests` the memory for
    the cache on a CPU; on a GPU, Transformers takes what is free. `options` go to
    ``AutoModelForCausalLM.from_pretrained``: ``device_map="auto"``, ``attn_implementation``,
    ``tp_plan="auto"`` or ``distributed_config`` under ``torchrun``, ...

    Raises `EngineError` where the model cannot be loaded.
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
        place = model if Path(model).is_dir() else f"{model} on the Hugging Face hub"
        self.origin = f"{place}, {_weights_of(self._model)}"
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
            # The sampler runs in Python after each step, so nothing can run ahead of it.
            use_async_batching=False,
            use_cuda_graph=False,
            # What the defaults find out about a GPU takes long without one.
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
        # Compiling a grammar takes long enough for the loop to be missed.
        sampler = await asyncio.to_thread(self._sampler, prompt, sampling, max_tokens)
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[SampledToken | EngineError] = asyncio.Queue()

        def deliver(item: SampledToken | EngineError) -> None:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody waits any more
                loop.call_soon_threadsafe(waiting.put_nowait, item)

        request = _Request(sampler, deliver)
        name = next(self._names)
        self._requests[name] = request
        try:
            self._submit(name, prompt, sampling, max_tokens)
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

    def _sampler(self, prompt: list[int], sampling: Sampling, max_tokens: int) -> RowSampler:
        """Make what samples a completion; the prompt is read as a whole, and so is the grammar."""
        unknown = next((token for token in prompt if not 0 <= token < self._vocabulary), None)
        if unknown is not None:
            raise SamplingError(
                f"the prompt has the token {unknown}, which is not in the vocabulary of the model "
                f"(0 to {self._vocabulary - 1})"
            )
        return RowSampler(prompt, sampling, max_tokens, self._model.device)

    def _cached_tokens(self) -> int | None:
        """Layers with a sliding window, as gpt-oss has them, keep nothing for other requests.

        How much was found for a request is not told by the batching of other models.
        """
        batching = self._manager.batch_processor
        return 0 if batching is not None and not batching.cache.use_prefix_sharing else None

    def _submit(self, name: str, prompt: list[int], sampling: Sampling, max_tokens: int) -> None:
        accepted = self._manager.add_request(
            prompt,
            request_id=name,
            max_new_tokens=max_tokens,
            eos_token_id=sorted({*sampling.stop_tokens, RETURN}),
        )
        if accepted is None:
            raise EngineError("the engine is closed, or its model failed before")

    async def health(self) -> Health:
        """Tell whether the thread that runs the model is alive."""
        running = self._manager.is_running()
        return Health(running, len(self._requests), "" if running else "the model has stopped")

    async def close(self) -> None:
        """Stop the thread; requests under way end with an error."""
        for request in list(self._requests.values()):
            request.fail("the engine was closed")
        await asyncio.to_thread(self._manager.stop, block=True)


def _load(model: str | Path, options: dict[str, Any]) -> Any:
    """Load the weights, in the type they are stored in unless `options` say otherwise."""
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
    """Let a progress bar look whether it is on a terminal; those of downloads do so already."""

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
    """Say of which type the weights are, and where: ``bfloat16 on cpu``."""
    kind = str(model.dtype).removeprefix("torch.")
    quantizer = getattr(model, "hf_quantizer", None)
    if quantizer is not None and not getattr(quantizer.quantization_config, "dequantize", False):
        kind = f"{quantizer.quantization_config.quant_method.value} and {kind}"
    devices = {str(parameter.device) for parameter in model.parameters()}
    return f"{kind} on {', '.join(sorted(devices))}"
