"""Run all requests at once in Transformers' continuous batching, each with its own settings.

In each step, `sample_next` chooses the tokens of all requests. The tokens that a grammar forces are
added to a request as if they were part of its prompt. On a CPU, the last token of a request is
followed by a draft, and tokens are sampled after each of the draft's tokens.

Under ``torchrun``, the batching of each process computes the same steps. Rank 0 sends its requests
and the chosen tokens to the other processes. Drafts depend only on the tokens, so each process
makes the same drafts.

The batching is private in Transformers: `private_batching` has everything that may change. For a
release whose batching is not known, `sequential_generation` takes the place of this module.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Any

import torch

from .batching_memory import PAGE, USABLE_SHARE, MemoryPlan
from .cpu_model import FEW_ROWS
from .drafts import LONGEST_DRAFT, Drafts
from .engine import EngineError
from .parallel import available_memory
from .private_batching import BatchedRequest, PrivateBatching
from .self_check import SelfCheck
from .token_sampler import RunningRequest
from .torch_sampling import sample_next

_CPU_BATCH_TOKENS = 512  # in one step; a longer prompt takes several steps


class _DraftingSteps:
    """Samples the tokens of each step, including forced tokens and drafts.

    If a draft is wrong from some token on, the request continues from that position. The keys and
    values of the wrong tokens are overwritten before any token attends to them.
    """

    def __init__(
        self,
        requests: dict[str, RunningRequest],
        vocabulary_size: int,
        step_size: int,
        longest_draft: int,
    ) -> None:
        self._requests = requests
        self._vocabulary_size = vocabulary_size
        self._step_size = step_size
        self._longest_draft = longest_draft
        self._drafts: dict[str, Drafts] = {}
        self._expected: list[BatchedRequest] = []

    def begin(self, requests: list[BatchedRequest], tokens: int) -> None:
        """Add drafts while there are few rows of logits."""
        self._expected = requests
        if not self._longest_draft:
            return
        room = min(FEW_ROWS - len(requests), self._step_size - tokens)
        for request in requests:
            if room > 0:
                drafts = self._drafts.get(request.name)
                if drafts is None:
                    drafts = Drafts(request.tokens, self._vocabulary_size)
                    self._drafts[request.name] = drafts
                # The token that is sampled after the draft needs a place, too.
                request.add_draft(drafts.next(min(room, request.room - 1, self._longest_draft)))
                room -= len(request.draft)

    def choose(self, logits: torch.Tensor) -> list[list[int]]:
        """Sample after the last token of each request, then after its draft while that is right."""
        chosen: list[list[int]] = [[] for _ in self._expected]
        first_rows = list(accumulate((len(item.draft) + 1 for item in self._expected), initial=0))
        running = {
            index: request
            for index, item in enumerate(self._expected)
            if (request := self._requests.get(item.name)) is not None and not request.is_finished
        }
        while running:
            rows = [first_rows[index] + len(chosen[index]) for index in running]
            scores = logits if len(rows) == len(logits) else logits[rows]
            sampled = sample_next(scores, list(running.values()))
            for (index, request), tokens in zip(list(running.items()), sampled, strict=True):
                chosen[index] = [] if request.is_finished else chosen[index] + tokens
                draft = self._expected[index].draft
                if request.is_finished or len(chosen[index]) > _shared(draft, chosen[index]):
                    del running[index]
        return chosen

    def end(self, chosen: list[list[int]], running: Collection[str]) -> None:
        """Continue each request after the tokens of its draft that were right."""
        for request, tokens in zip(self._expected, chosen, strict=True):
            if not tokens or request.name not in running:
                continue
            right = _shared(request.draft, tokens)
            request.take(tokens, right)
            if request.name in self._drafts:
                self._drafts[request.name].take(tokens, len(request.draft), right)
        for name in self._drafts.keys() - running:
            del self._drafts[name]


def _shared(draft: Sequence[int], tokens: Sequence[int]) -> int:
    """Return the length of the common beginning of two token lists."""
    shared = 0
    for drafted, token in zip(draft, tokens, strict=False):
        if drafted != token:
            break
        shared += 1
    return shared


def _check_memory(model: Any, pages: int, max_requests: int, context_length: int) -> None:
    """Raise `EngineError` if the KV cache does not fit into the memory."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    of_token = (
        2 * config.num_hidden_layers * (getattr(config, "num_key_value_heads", None) or heads)
    )
    needed = pages * PAGE * of_token * size * model.dtype.itemsize
    available = available_memory()
    if available is not None and needed > available:
        raise EngineError(
            f"the KV cache of {max_requests} requests with {context_length:,} tokens needs "
            f"{needed / 1e9:,.1f} GB of memory, but {available / 1e9:,.1f} GB are free: lower "
            "max_requests (--max-running) or context_length (--context-length)"
        )


class ContinuousBatching:
    """The thread that runs a model; `requests` has the running requests by name.

    Drafts need the attention of `cpu_model`. A `plan` has the sizes of a GPU's cache and steps;
    without one, Transformers uses the free memory. If `is_checked`, `self_check` compares the
    batching with the plain model. Raises `EngineError` if the cache cannot be made
    or the first step or the check fails, and `UnknownBatchingError` if the installed
    Transformers has another batching.
    """

    def __init__(
        self,
        model: Any,
        requests: dict[str, RunningRequest],
        context_length: int,
        max_requests: int,
        plan: MemoryPlan | None = None,
        *,
        has_drafts: bool = False,
        is_checked: bool = False,
    ) -> None:
        on_cpu = model.device.type == "cpu"
        pages = -(-context_length // PAGE) + 1
        if on_cpu:
            _check_memory(model, pages * max_requests, max_requests, context_length)
        settings: dict[str, Any] = {
            "page_size": PAGE,
            "max_requests_per_batch": max_requests,
            # Grammars run in Python after each step, so no step can start early.
            "use_async_batching": False,
            "use_cuda_graph": False,
            # Without a GPU, computing the defaults takes long.
            "num_blocks": pages * max_requests if on_cpu else None,
            "max_batch_tokens": max(_CPU_BATCH_TOKENS, max_requests) if on_cpu else None,
        }
        if plan is not None:
            settings |= {
                "num_blocks": plan.blocks,
                "max_batch_tokens": plan.batch_tokens,
                "max_memory_percent": USABLE_SHARE,
            }
        if model.config.model_type == "gpt_oss":
            # Transformers would request kernels of packages that are not installed; `placement`
            # has chosen the attention.
            settings["auto_switch_to_flash"] = False

        def fail(name: str, problem: str) -> None:
            if (request := requests.get(name)) is not None:
                request.fail(problem)

        self._batching = PrivateBatching(model, settings, fail)
        # Before the thread starts: it computes with the same model, whose attention this changes.
        check = SelfCheck(model) if is_checked else None
        longest = self._batching.make_room_for_drafts(LONGEST_DRAFT) if has_drafts else 0
        vocabulary_size = model.config.get_text_config().vocab_size
        step_size = self._batching.step_size
        steps = _DraftingSteps(requests, vocabulary_size, step_size, longest)
        self._batching.start(steps)
        if not self._batching.takes_requests:
            return
        try:
            if check is None:
                # What fails in any step fails now, and not in the first request.
                self._batching.complete({"first step": [0]}, 1)
            else:
                check.run(self._batching)
        except BaseException:
            self._batching.stop()
            raise
        self._batching.steps = steps

    def add(self, name: str, prompt: list[int], max_tokens: int) -> bool:
        """Start a request; return False if the thread has stopped."""
        return self._batching.add(name, prompt, max_tokens)

    def cancel(self, name: str) -> None:
        """End a request early."""
        self._batching.cancel(name)

    @property
    def is_running(self) -> bool:
        """Return whether the thread is alive."""
        return self._batching.is_running

    @property
    def cached_tokens(self) -> int | None:
        """The cached tokens of a prompt: 0 for models that share no prefixes, otherwise None.

        Layers with a sliding window, as in gpt-oss, share none. For other models, the batching does
        not report how many tokens were cached.
        """
        return None if self._batching.shares_prefixes else 0

    @property
    def problem(self) -> str:
        """The error that ended the thread."""
        return self._batching.problem

    def join(self) -> None:
        """Wait until the thread ends."""
        self._batching.join()

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._batching.stop()
