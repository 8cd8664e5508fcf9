"""One request after the other, in the public `generate` of Transformers.

This takes the place of `continuous_batching` where the installed Transformers has a batching that
is not known. It uses public names only. The tokens are the same, but a request waits for those
before it, and the model reads forced tokens one by one.

Under ``torchrun``, all processes compute the same requests. Rank 0 sends its requests and the
chosen tokens to the others.
"""

from __future__ import annotations

import datetime
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import distributed
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from .parallel import Processes
from .token_sampler import RunningRequest
from .torch_sampling import sample_next

_T = TypeVar("_T")

_IDLE = datetime.timedelta(days=3650)
"""How long other processes wait for a request of rank 0."""


class _Work(NamedTuple):
    name: str
    prompt: list[int]
    max_tokens: int


class _NextToken(LogitsProcessor):
    """Leaves `generate` only the token that the sampler chose, or ends the completion.

    Without a request (in a process that follows), `share` returns the token of rank 0.
    """

    def __init__(
        self, request: RunningRequest | None, share: Callable[[int | None], int | None]
    ) -> None:
        self.is_finished = False
        self._request = request
        self._share = share
        self._unread: deque[int] = deque()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores that allow one token."""
        token = self._share(None if self._request is None else self._next(self._request, scores))
        self.is_finished = token is None
        scores = torch.full_like(scores, -torch.inf)
        # `generate` takes some token in any case; after this one, `_Finished` stops it.
        scores[0, token or 0] = 0
        return scores

    def _next(self, request: RunningRequest, scores: torch.Tensor) -> int | None:
        """Return the next token that the model must read; None if it need not read any more."""
        if not self._unread and not request.is_finished:
            (tokens,) = sample_next(scores.float(), [request])
            self._unread.extend(tokens)
        return None if request.is_finished else self._unread.popleft()


class _Finished(StoppingCriteria):
    """Stops `generate` when the sampler has ended the completion."""

    def __init__(self, next_token: _NextToken) -> None:
        self._next_token = next_token

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        """Return whether the completion of the only row is finished."""
        return torch.tensor([self._next_token.is_finished], device=input_ids.device)


class SequentialGeneration:
    """The thread that runs a model; `requests` has the running requests by name."""

    def __init__(
        self, model: Any, requests: dict[str, RunningRequest], processes: Processes
    ) -> None:
        # What a model's files set there, such as a repetition penalty, is added to our settings.
        model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
        self._model = model
        self._requests = requests
        self._works: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._follows = processes.is_follower
        self._group: Any = None
        if processes.size > 1 and distributed.is_initialized():
            self._group = distributed.new_group(backend="gloo", timeout=_IDLE)
        self._thread = threading.Thread(target=self._run, name="harmony-generate")
        self._thread.start()

    def _run(self) -> None:
        if self._model.device.type == "cuda":
            torch.cuda.set_device(self._model.device)  # it is set by thread
        while (work := self._share(None if self._follows else self._next_work())) is not None:
            request = self._requests.get(work.name)
            try:
                self._complete(work, request)
            except Exception as error:  # noqa: BLE001 - it would end the thread and all requests
                if request is not None:
                    request.fail(f"the model failed: {error}")

    def _next_work(self) -> _Work | None:
        """Wait for a request that somebody still reads; None if the engine is closed."""
        while (work := self._works.get()) is not None:
            request = self._requests.get(work.name)
            if request is not None and not request.is_finished:
                break
        return work

    def _share(self, value: _T) -> _T:
        """Return the value of rank 0."""
        if self._group is None:
            return value
        values = [value]
        distributed.broadcast_object_list(values, src=0, group=self._group)
        return values[0]

    def _complete(self, work: _Work, request: RunningRequest | None) -> None:
        next_token = _NextToken(request, self._share)
        prompt = torch.tensor([work.prompt], device=self._model.device)
        self._model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            generation_config=GenerationConfig(  # type: ignore[no-untyped-call]
                do_sample=False, max_new_tokens=work.max_tokens
            ),
            logits_processor=LogitsProcessorList([next_token]),
            stopping_criteria=StoppingCriteriaList([_Finished(next_token)]),
        )

    def add(self, name: str, prompt: list[int], max_tokens: int) -> bool:
        """Start a request when those before it have ended; return False if the thread has."""
        self._works.put(_Work(name, prompt, max_tokens))
        return self.is_running

    def cancel(self, name: str) -> None:
        """End a request early: the thread sees before each token that the request is finished."""

    @property
    def is_running(self) -> bool:
        """Return whether the thread is alive."""
        return self._thread.is_alive()

    @property
    def cached_tokens(self) -> int:
        """The cached tokens of a prompt: none, each request begins with an empty cache."""
        return 0

    @property
    def problem(self) -> str:
        """The reason why the thread has ended."""
        return "its thread has ended"

    def join(self) -> None:
        """Wait until the thread ends."""
        self._thread.join()

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._works.put(None)
        self._thread.join()
