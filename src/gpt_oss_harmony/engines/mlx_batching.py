"""The thread that runs a model in mlx-lm's `BatchGenerator`: all requests at once.

Where a grammar forces several tokens, the request leaves the batch with its cache and joins it
again with those tokens as a prompt, so that the model reads them in one step. The caches of prompts
are kept, so that the next turn of a conversation computes only what is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import LRUPromptCache

from .engine import EngineError, SampledToken
from .in_process_engine import ModelThread
from .mlx_sampling import FEWEST_FORCED, MlxRow
from .token_sampler import RunningRequest, deliver

_MOST_PREFILLS = 8
_FEWEST_CACHED = 64  # tokens of a prompt; a shorter one is computed as fast as it is found
_KEPT_PROMPTS = 16

MOST_CACHED_BYTES = 2 * 2**30
"""The most memory for the caches of prompts that nobody uses now."""


@dataclass
class _Place:
    """A request in the batch: its row, and what its cache holds once its prompt is read."""

    name: str
    row: MlxRow
    max_tokens: int
    keeps_prompt: bool = False
    """Whether the cache of its prompt is kept for the next turn."""


class MlxBatching(ModelThread):
    """The thread that runs a model; `requests` has the running requests by name."""

    def __init__(
        self,
        model: Any,
        requests: dict[str, RunningRequest],
        max_requests: int,
        cached_bytes: int = MOST_CACHED_BYTES,
    ) -> None:
        super().__init__(requests, "harmony-mlx")
        self._model = model
        self._max_requests = max_requests
        self._prompts = LRUPromptCache(_KEPT_PROMPTS, cached_bytes)
        self._places: dict[int, _Place] = {}
        self._generator: Any = None
        self._thread.start()

    @property
    def _is_idle(self) -> bool:
        return not self._places

    def _open(self) -> None:
        # A stream belongs to the thread that uses it.
        self._stream = mx.default_stream(mx.default_device())
        self._generator = BatchGenerator(
            self._model,
            completion_batch_size=self._max_requests,
            prefill_batch_size=min(_MOST_PREFILLS, self._max_requests),
            stream=self._stream,
        )

    def _close(self, problem: str) -> None:
        for place in self._places.values():
            place.row.request.fail(problem)
        self._places.clear()
        self._generator.close()

    def _insert(
        self, name: str, request: RunningRequest, prompt: list[int], max_tokens: int
    ) -> None:
        rest, cache = prompt, None
        # A cached prompt can give slightly different logits, so a seed is used without.
        if request.sampler.sampling.seed is None and len(prompt) > _FEWEST_CACHED:
            cache, unread = self._prompts.fetch_nearest_cache("", prompt[:-1])
            rest = [*unread, prompt[-1]]
        request.cached_tokens = len(prompt) - len(rest)
        keeps = len(rest) > _FEWEST_CACHED
        self._join(_Place(name, MlxRow(request), max_tokens, keeps), prompt, rest, cache)

    def _join(self, place: _Place, tokens: list[int], rest: list[int], cache: Any) -> None:
        """Let a request join the batch; its `cache` holds its `tokens` before the `rest`."""
        # The cache is kept at the end of the first one, before the token that is read to sample.
        segments = [rest[:-1], rest[-1:]] if place.keeps_prompt else [rest]
        (uid,) = self._generator.insert_segments(
            [segments],
            max_tokens=[place.max_tokens + 1],  # the sampler ends a completion
            caches=None if cache is None else [cache],
            all_tokens=[tokens[: len(tokens) - len(rest)]],
            samplers=[place.row],
            logits_processors=[place.row.processors],
        )
        self._places[uid] = place

    def _withdraw(self, name: str) -> None:
        uids = [uid for uid, place in self._places.items() if place.name == name]
        self._generator.remove(uids)
        for uid in uids:
            del self._places[uid]

    def _step(self) -> None:
        read, sampled = self._generator.next()
        self._keep_prompts(
            response.uid
            for response in read
            if response.end_of_segment
            and not response.end_of_prompt
            and self._places[response.uid].keeps_prompt
        )
        for response in sampled:
            self._places[response.uid].row.settle_read()
        self._deliver()
        self._read_forced()

    def _keep_prompts(self, uids: Iterable[int]) -> None:
        for cache, tokens in self._generator.extract_cache(list(uids)).values():
            self._prompts.insert_cache("", tokens[:], cache)

    def _deliver(self) -> None:
        """Deliver the tokens of all requests, and remove those that ended."""
        requests: list[RunningRequest] = []
        chosen: list[list[SampledToken] | EngineError] = []
        ended: list[int] = []
        for uid, place in self._places.items():
            request, ready = place.row.request, place.row.take_ready()
            if ready:
                requests.append(request)
                chosen.append(ready)
            if place.row.problem is not None:
                requests.append(request)
                chosen.append(place.row.problem)
            if place.row.problem is not None or (ready and ready[-1].finish_reason is not None):
                ended.append(uid)
        deliver(requests, chosen)
        if ended:
            self._end(ended)

    def _end(self, uids: list[int]) -> None:
        """Remove requests, and keep their caches: a call's result continues its completion."""
        failed = [uid for uid in uids if self._places[uid].row.problem is not None]
        removed = self._generator.remove(uids, return_prompt_caches=True)
        for uid in uids:
            del self._places[uid]
            cache, tokens = removed[uid]
            if uid not in failed and len(tokens) > _FEWEST_CACHED:
                self._prompts.insert_cache("", tokens[:], cache)

    def _read_forced(self) -> None:
        """Let requests with several forced tokens read them as a prompt."""
        for uid, place in list(self._places.items()):
            if len(place.row.unread) < FEWEST_FORCED:
                continue
            cache, tokens = self._generator.remove([uid], return_prompt_caches=True)[uid]
            del self._places[uid]
            rest = list(place.row.unread)
            place.row.unread.clear()
            place.keeps_prompt = False
            self._join(place, [*tokens, *rest], rest, cache)
