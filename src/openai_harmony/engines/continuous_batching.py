"""The continuous batching of Transformers, with sampling by the settings of each request.

The batching runs all requests at once, but with one set of sampling settings, and one token of each
request in a step. So this module replaces its sampling with `choose_tokens`, and adds the tokens
that a grammar forces to a request as if they were a part of its prompt.

Under ``torchrun``, the batching of each process computes the same steps: that of rank 0 sends the
others its requests, and this module sends them the chosen tokens.

Much of this is private in Transformers, and used nowhere else: `TESTED_TRANSFORMERS` has the
releases that it was tested with.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import transformers

from .engine import EngineError, SampledToken
from .token_sampler import TokenSampler, choose_tokens

__all__ = ["TESTED_TRANSFORMERS", "ContinuousBatching", "RunningRequest"]

TESTED_TRANSFORMERS = ("5.23",)
"""Releases of Transformers, the same as in pyproject.toml."""

if ".".join(transformers.__version__.split(".")[:2]) not in TESTED_TRANSFORMERS:
    raise ImportError(
        f"transformers {transformers.__version__} is installed, and TransformersEngine needs "
        f"{' or '.join(TESTED_TRANSFORMERS)}: pip install "
        f"'transformers=={TESTED_TRANSFORMERS[-1]}.*'"
    )

from transformers import GenerationConfig  # noqa: E402
from transformers.generation.configuration_utils import ContinuousBatchingConfig  # noqa: E402
from transformers.generation.continuous_batching.continuous_api import OutputRouter  # noqa: E402
from transformers.generation.continuous_batching.requests import RequestStatus  # noqa: E402

_PAGE = 256  # tokens in a block of the KV cache
_END = 2**31 - 1  # no token: it ends a request in the batching, where the sampler says so
_CPU_BATCH_TOKENS = 512  # in one step; a longer prompt takes several


class RunningRequest:
    """A running request: its sampler, and the queue of its event loop that gets its tokens."""

    def __init__(self, sampler: TokenSampler, first: Iterable[SampledToken]) -> None:
        self.sampler = sampler
        self.loop = asyncio.get_running_loop()
        self.items: asyncio.Queue[SampledToken | EngineError] = asyncio.Queue()
        self.is_finished = sampler.is_finished
        for sampled in first:
            self.items.put_nowait(sampled)

    def fail(self, problem: str) -> None:
        """End the request with an error."""
        if not self.is_finished:
            self.is_finished = True
            _deliver([(self, EngineError(problem))])


def _deliver(items: Iterable[tuple[RunningRequest, SampledToken | EngineError]]) -> None:
    """Put items into the queues of their requests; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Queue[Any], Any]]] = {}
    for request, item in items:
        by_loop.setdefault(request.loop, []).append((request.items, item))
    for loop, puts in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: no reader is left
            loop.call_soon_threadsafe(_put_all, puts)


def _put_all(puts: list[tuple[asyncio.Queue[Any], Any]]) -> None:
    for queue, item in puts:
        queue.put_nowait(item)


class _Steps:
    """Samples the tokens of each step, and adds those that grammars force."""

    def __init__(self, requests: dict[str, RunningRequest], processor: Any) -> None:
        self._requests = requests
        self._processor = processor
        self._update = processor.update_batch
        self._forced: dict[str, list[int]] = {}
        processor.model_runner._sample = self.sample
        processor.update_batch = self.update_batch

    def sample(self, scores: torch.Tensor, output_ids: torch.Tensor) -> None:
        """Choose a token for each row; `scores` have the shape (1, rows, vocabulary)."""
        group = self._processor.distributed_helper
        chosen = self._chosen(scores) if group.is_tp_driver else None
        tokens, self._forced = group.tp_broadcast_object_from_rank_0(chosen)
        output_ids[0, : len(tokens)] = torch.tensor(tokens, device=output_ids.device)

    def _chosen(self, scores: torch.Tensor) -> tuple[list[int], dict[str, list[int]]]:
        """Return the token of each row, and the tokens that requests are forced to add."""
        batch = self._processor.inputs_and_outputs.requests_in_batch
        names = [item.state.request_id for item in batch if item.has_new_token]
        running = {
            row: request
            for row, name in enumerate(names)
            if (request := self._requests.get(name)) is not None and not request.is_finished
        }
        rows = list(running)
        logits = scores[0, : len(rows)] if len(rows) == len(names) else scores[0, rows]
        tokens = [_END] * len(names)
        all_forced: dict[str, list[int]] = {}
        for row, chosen in zip(rows, self._choose(logits, list(running.values())), strict=True):
            if isinstance(chosen, EngineError) or chosen[-1].finish_reason is not None:
                running[row].is_finished = True
                continue
            tokens[row], *forced = (sampled.token for sampled in chosen)
            if forced:
                all_forced[names[row]] = forced
        return tokens, all_forced

    def _choose(
        self, logits: torch.Tensor, requests: list[RunningRequest]
    ) -> Sequence[list[SampledToken] | EngineError]:
        """Sample tokens, and deliver them."""
        try:
            chosen = choose_tokens(logits, [request.sampler for request in requests])
        except Exception as error:  # noqa: BLE001 - it would end the thread, and all requests
            chosen = [EngineError(f"sampling failed: {error}")] * len(requests)
        _deliver(
            (request, item)
            for request, items in zip(requests, chosen, strict=True)
            for item in ([items] if isinstance(items, EngineError) else items)
        )
        return chosen

    def update_batch(self) -> None:
        """Update the requests of a step; forced tokens are read in the next, as prompts are."""
        self._update()
        for name, tokens in self._forced.items():
            state = self._processor.scheduler.active_requests.get(name)
            if state is not None:
                state.remaining_prefill_tokens = state.tokens_to_process + tokens
                state.generated_tokens += tokens
                state.status = RequestStatus.PREFILLING
        self._forced.clear()


class _Failures(OutputRouter):
    """Delivers errors; the sampler itself delivers tokens."""

    def __init__(self, requests: dict[str, RunningRequest]) -> None:
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


class _AlwaysSet(threading.Event):
    """Makes the loop of a follower wait for rank 0 alone, not also for requests of its own."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        return True


class ContinuousBatching:
    """The thread that runs a model; `requests` are those that run, by name."""

    def __init__(
        self,
        model: Any,
        requests: dict[str, RunningRequest],
        context_length: int,
        max_requests: int,
    ) -> None:
        on_cpu = model.device.type == "cpu"
        pages = -(-context_length // _PAGE) + 1
        batching = ContinuousBatchingConfig(
            page_size=_PAGE,
            max_requests_per_batch=max_requests,
            # Grammars run in Python after each step, so no step can start early.
            use_async_batching=False,
            use_cuda_graph=False,
            # Without a GPU, computing the defaults takes long.
            num_blocks=pages * max_requests if on_cpu else None,
            max_batch_tokens=max(_CPU_BATCH_TOKENS, max_requests) if on_cpu else None,
        )
        generation = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False, eos_token_id=[_END], max_new_tokens=context_length
        )
        self._manager = model.init_continuous_batching(generation, batching)
        self._manager.logit_processor.clear()
        create = self._manager._create_batch_processor

        def create_with_our_steps() -> Any:
            processor = create()
            _Steps(requests, processor)
            return processor

        self._manager._create_batch_processor = create_with_our_steps
        self._manager.output_router = _Failures(requests)
        if not self._manager.is_tp_driver:
            self._manager._wake_up_loop = _AlwaysSet()
        self._manager.start()

    def add(self, name: str, prompt: list[int], max_tokens: int) -> bool:
        """Start a request; return False where the thread has stopped."""
        accepted = self._manager.add_request(
            prompt, request_id=name, max_new_tokens=max_tokens, eos_token_id=[_END]
        )
        return accepted is not None

    def cancel(self, name: str) -> None:
        """End a request early."""
        self._manager.cancel_request(name)

    @property
    def is_running(self) -> bool:
        """Return whether the thread is alive."""
        return bool(self._manager.is_running())

    @property
    def cached_tokens(self) -> int | None:
        """The cached tokens of a prompt: 0 for models that share no prefixes, otherwise None.

        Layers with a sliding window, as in gpt-oss, share none. For other models, the batching does
        not report how many tokens were cached.
        """
        processor = self._manager.batch_processor
        return 0 if processor is not None and not processor.cache.use_prefix_sharing else None

    def join(self) -> None:
        """Wait until the thread ends."""
        thread = self._manager._generation_thread
        if thread is not None:
            thread.join()

    def stop(self) -> None:
        """Stop the thread, and wait for its end."""
        self._manager.stop(block=True)
