"""The continuous batching of Transformers, with sampling by the settings of each request.

The batching runs all requests at once, but with the same sampling settings for all and one token of
each request per step. This module replaces its sampling with `choose_tokens`, and adds the tokens
that a grammar forces to a request as if they were part of its prompt. On a CPU it also adds drafts,
and samples after each of their tokens.

Under ``torchrun``, the batching of each process computes the same steps. Rank 0 sends its requests
to the other processes, and this module sends them the chosen tokens. Drafts depend only on the
tokens, so each process makes the same drafts.

Much of this is private in Transformers, so no other module uses it. `TESTED_TRANSFORMERS` has the
releases with which it was tested.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
import transformers

from .cpu_model import FEW_ROWS
from .drafts import LONGEST_DRAFT, Drafts
from .engine import EngineError, SampledToken
from .parallel import available_memory
from .token_sampler import TokenSampler, choose_tokens

__all__ = ["TESTED_TRANSFORMERS", "ContinuousBatching", "RunningRequest"]

TESTED_TRANSFORMERS = ("5.23",)
"""Releases of Transformers, the same as in pyproject.toml."""

if ".".join(transformers.__version__.split(".")[:2]) not in TESTED_TRANSFORMERS:
    raise ImportError(
        f"transformers {transformers.__version__} is installed, but TransformersEngine needs "
        f"{' or '.join(TESTED_TRANSFORMERS)}: pip install "
        f"'transformers=={TESTED_TRANSFORMERS[-1]}.*'"
    )

from transformers import GenerationConfig  # noqa: E402
from transformers.generation.configuration_utils import ContinuousBatchingConfig  # noqa: E402
from transformers.generation.continuous_batching.continuous_api import OutputRouter  # noqa: E402
from transformers.generation.continuous_batching.requests import RequestStatus  # noqa: E402
from transformers.generation.continuous_batching.utils import (  # noqa: E402
    find_head_dim,
    find_num_key_value_heads,
)

_PAGE = 256  # tokens in a block of the KV cache
_END = 2**31 - 1  # not a token; the sampler returns it to end a request in the batching
_CPU_BATCH_TOKENS = 512  # in one step; a longer prompt takes several steps


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
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing reads the queue
            loop.call_soon_threadsafe(_put_all, puts)


def _put_all(puts: list[tuple[asyncio.Queue[Any], Any]]) -> None:
    for queue, item in puts:
        queue.put_nowait(item)


class _Expected(NamedTuple):
    """A request that gets tokens in a step.

    Its logits begin at `row`: one row after its own last token, and one after each draft token.
    """

    state: Any
    row: int
    draft: list[int]


class _Steps:
    """Samples the tokens of each step, including forced tokens and drafts.

    If a draft is wrong from some token on, the request continues from that position. The keys and
    values of the wrong tokens are overwritten before any token attends to them.
    """

    def __init__(
        self, requests: dict[str, RunningRequest], processor: Any, *, has_drafts: bool
    ) -> None:
        self._requests = requests
        self._processor = processor
        self._expected: list[_Expected] = []
        self._chosen: list[list[int]] = []
        self._drafts: dict[str, Drafts] = {}
        self._longest_draft = _make_room_for_drafts(processor.cache) if has_drafts else 0
        inputs = processor.inputs_and_outputs
        self._prepare = inputs.prepare_batch_tensors
        self._model_arguments = inputs.get_model_kwargs
        self._update = processor.update_batch
        inputs.prepare_batch_tensors = self.prepare
        inputs.get_model_kwargs = self.model_arguments
        processor.model_runner._sample = self.sample
        processor.update_batch = self.update_batch

    def prepare(self, requests_in_batch: list[Any], num_q_tokens: int, **others: Any) -> None:
        """Prepare the next step; add drafts while there are few rows of logits."""
        items = [item for item in requests_in_batch if item.has_new_token]
        cache = self._processor.cache
        room = min(FEW_ROWS - len(items), cache.max_batch_tokens - num_q_tokens)
        self._expected.clear()
        for item in items:
            state = item.state
            draft = self._draft(state, room) if room > 0 and self._longest_draft else []
            if not cache.can_store_request_tokens(state, item.query_length + len(draft)):
                draft = []
            state.tokens_to_process = state.tokens_to_process + draft
            item.query_length += len(draft)
            num_q_tokens += len(draft)
            room -= len(draft)
            before = self._expected[-1] if self._expected else None
            row = 0 if before is None else before.row + len(before.draft) + 1
            self._expected.append(_Expected(state, row, draft))
        self._prepare(requests_in_batch=requests_in_batch, num_q_tokens=num_q_tokens, **others)

    def _draft(self, state: Any, room: int) -> list[int]:
        drafts = self._drafts.get(state.request_id)
        if drafts is None:
            tokens = state.initial_tokens + state.generated_tokens
            drafts = Drafts(tokens, self._processor.config.vocab_size)
            self._drafts[state.request_id] = drafts
        left = state.max_new_tokens - state.generated_len() - 1
        return drafts.next(min(room, left, self._longest_draft))

    def model_arguments(self, use_padding: bool = False) -> Any:
        """Return the arguments of the model; it computes logits after each token of a draft."""
        arguments = self._model_arguments(use_padding=use_padding)
        if any(item.draft for item in self._expected):
            last = arguments["logits_indices"].tolist()
            arguments["logits_indices"] = torch.tensor(
                [
                    index
                    for item, end in zip(self._expected, last, strict=False)
                    for index in range(end - len(item.draft), end + 1)
                ]
            )
        return arguments

    def sample(self, scores: torch.Tensor, output_ids: torch.Tensor) -> None:
        """Choose the tokens of each request; `scores` have the shape (1, rows, vocabulary)."""
        group = self._processor.distributed_helper
        chosen = self._choose_all(scores[0]) if group.is_tp_driver else None
        self._chosen = group.tp_broadcast_object_from_rank_0(chosen)
        for index, tokens in enumerate(self._chosen):
            output_ids[0, index] = tokens[0] if tokens else _END

    def _choose_all(self, scores: torch.Tensor) -> list[list[int]]:
        """Return the tokens of each expected request; none for a request that ends."""
        chosen: list[list[int]] = [[] for _ in self._expected]
        running = {
            index: request
            for index, item in enumerate(self._expected)
            if (request := self._requests.get(item.state.request_id)) is not None
            and not request.is_finished
        }
        while running:
            rows = [self._expected[index].row + len(chosen[index]) for index in running]
            logits = scores if len(rows) == len(scores) else scores[rows]
            sampled = self._choose(logits, list(running.values()))
            for (index, request), items in zip(list(running.items()), sampled, strict=True):
                if isinstance(items, EngineError) or items[-1].finish_reason is not None:
                    request.is_finished = True
                    chosen[index] = []
                    del running[index]
                    continue
                chosen[index] += (item.token for item in items)
                draft = self._expected[index].draft
                if len(chosen[index]) > _shared(draft, chosen[index]):
                    del running[index]
        return chosen

    def _choose(
        self, logits: torch.Tensor, requests: list[RunningRequest]
    ) -> Sequence[list[SampledToken] | EngineError]:
        """Sample tokens, and deliver them."""
        try:
            chosen = choose_tokens(logits, [request.sampler for request in requests])
        except Exception as error:  # noqa: BLE001 - it would end the thread and all requests
            chosen = [EngineError(f"sampling failed: {error}")] * len(requests)
        _deliver(
            (request, item)
            for request, items in zip(requests, chosen, strict=True)
            for item in ([items] if isinstance(items, EngineError) else items)
        )
        return chosen

    def update_batch(self) -> None:
        """Update the requests of a step.

        The model reads the first unread token in the next step. Several unread tokens, for example
        after forced ones, are read like a prompt.
        """
        self._update()
        active = self._processor.scheduler.active_requests
        for item, tokens in zip(self._expected, self._chosen, strict=True):
            state = item.state
            if not tokens or state.request_id not in active:
                continue
            right = _shared(item.draft, tokens)
            state.position_offset -= len(item.draft) - right
            state.generated_tokens[-1:] = tokens
            state.tokens_to_process = tokens[right:]
            if len(tokens) - right > 1:
                state.remaining_prefill_tokens = tokens[right:]
                state.status = RequestStatus.PREFILLING
            if state.request_id in self._drafts:
                self._drafts[state.request_id].take(tokens, len(item.draft), right)
        for name in self._drafts.keys() - active.keys():
            del self._drafts[name]


def _make_room_for_drafts(cache: Any) -> int:
    """Return how long drafts may be, and enlarge sliding windows by as many tokens.

    A window is a ring of tokens. A draft overwrites the oldest tokens, which are needed again if
    the draft is wrong.
    """
    if cache.use_prefix_sharing:  # blocks with wrong tokens would be shared
        return 0
    window = cache.cache_allocators["sliding_attention"]
    spare = -window.sliding_window % window.tokens_per_page
    longest = min(LONGEST_DRAFT, spare)
    window.sliding_window += longest
    return int(longest)


def _shared(draft: Sequence[int], tokens: Sequence[int]) -> int:
    """Return the length of the common beginning of two token lists."""
    shared = 0
    for drafted, token in zip(draft, tokens, strict=False):
        if drafted != token:
            break
        shared += 1
    return shared


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
    """Makes a follower's loop wait only for rank 0, not for requests of its own."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        return True


def _check_memory(model: Any, pages: int, max_requests: int, context_length: int) -> None:
    """Raise `EngineError` if the KV cache does not fit into the memory."""
    config = model.config.get_text_config()
    of_token = 2 * config.num_hidden_layers * find_num_key_value_heads(config)
    needed = pages * _PAGE * of_token * find_head_dim(config) * model.dtype.itemsize
    available = available_memory()
    if available is not None and needed > available:
        raise EngineError(
            f"the KV cache of {max_requests} requests with {context_length:,} tokens needs "
            f"{needed / 1e9:,.1f} GB of memory, but {available / 1e9:,.1f} GB are free: lower "
            "max_requests (--max-running) or context_length (--context-length)"
        )


class ContinuousBatching:
    """The thread that runs a model; `requests` has the running requests by name.

    Drafts need the attention of `cpu_model`.
    """

    def __init__(
        self,
        model: Any,
        requests: dict[str, RunningRequest],
        context_length: int,
        max_requests: int,
        *,
        has_drafts: bool = False,
    ) -> None:
        on_cpu = model.device.type == "cpu"
        pages = -(-context_length // _PAGE) + 1
        if on_cpu:
            _check_memory(model, pages * max_requests, max_requests, context_length)
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
            _Steps(requests, processor, has_drafts=has_drafts)
            return processor

        self._manager._create_batch_processor = create_with_our_steps
        self._manager.output_router = _Failures(requests)
        if not self._manager.is_tp_driver:
            self._manager._wake_up_loop = _AlwaysSet()
        self._manager.start()

    def add(self, name: str, prompt: list[int], max_tokens: int) -> bool:
        """Start a request; return False if the thread has stopped."""
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
        """Stop the thread and wait for its end."""
        self._manager.stop(block=True)
