"""The continuous batching of Transformers, and everything in it that is private.

Transformers' public methods add and cancel requests, but sample all rows of a step with the same
settings (of ours, only temperature, top-k and top-p can differ), pass no request to a logits
processor, and take one token of a request per step. So `PrivateBatching` replaces four methods of
the batching with its own, and calls a `Steps` object from them: requests and logits go in, tokens
come out.

`PRIVATE_NAMES` lists every name that may change with a release, with the reason for its use, except
those of a sliding window (`PrivateBatching.make_room_for_drafts`). They are looked up before the
thread starts; `UnknownBatchingError` names those that are missing. No other module uses private
names.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any, NamedTuple, Protocol

import torch
from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching import RequestState, RequestStatus
from transformers.generation.continuous_batching.requests import FutureRequestState

from .engine import EngineError

_LOG = logging.getLogger(__name__)

_NO_TOKEN = 2**31 - 1
"""Ends a request in the batching; it is in no vocabulary, so no model samples it."""

_MOST_STARTS = 3
"""How often a request starts again after errors that may be those of another request."""


class PrivateName(NamedTuple):
    """A name, the reason for its use, and the arguments that are passed by name."""

    reason: str
    arguments: tuple[str, ...] = ()


PRIVATE_NAMES = {
    # Of the manager; without an underscore, but in no documentation.
    "_wake_up_loop": PrivateName("a process that follows waits for rank 0, not for own requests"),
    "is_tp_driver": PrivateName("only one process takes requests"),
    "logit_processor.clear": PrivateName("the sampler applies all settings itself"),
    "output_router.deliver": PrivateName("the error of a request goes to its queue", ("output",)),
    "output_router.deliver_batch": PrivateName(
        "the sampler has delivered the tokens", ("outputs",)
    ),
    "_generation_loop_body": PrivateName("an error in a step ends one request, not all"),
    "background_thread_status.fatal_error": PrivateName("the reason why the thread ended"),
    "batch_processor.reset": PrivateName("after an error, requests start again"),
    "batch_processor.scheduler.waiting_requests": PrivateName("they start again as well"),
    "batch_processor.scheduler.add_waiting_request": PrivateName("starts a request again"),
    "request.create_equivalent_initial_request": PrivateName("a request that starts again"),
    # Of the steps; the first four are the replaced ones.
    "batch_processor.inputs_and_outputs.prepare_batch_tensors": PrivateName(
        "a draft is computed with its request's last token", ("requests_in_batch", "num_q_tokens")
    ),
    "batch_processor.inputs_and_outputs.get_model_kwargs": PrivateName(
        "logits are needed after each token of a draft", ("use_padding",)
    ),
    "batch_processor.model_runner._sample": PrivateName(
        "each row of logits has the settings of its request", ("scores", "output_ids")
    ),
    "batch_processor.update_batch": PrivateName("a request may get several tokens in a step"),
    "batch_processor.scheduler.active_requests": PrivateName("ended requests get no tokens"),
    "batch_processor.distributed_helper.is_tp_driver": PrivateName("rank 0 samples"),
    "batch_processor.distributed_helper.tp_size": PrivateName("alone, a process can recover"),
    "batch_processor.distributed_helper.tp_broadcast_object_from_rank_0": PrivateName(
        "all processes go on with the tokens of rank 0"
    ),
    "batch_processor.cache.max_batch_tokens": PrivateName("a step has room for so many tokens"),
    "batch_processor.cache.can_store_request_tokens": PrivateName("drafts need room in the cache"),
    "batch_processor.cache.use_prefix_sharing": PrivateName("shared blocks take no wrong drafts"),
    "batch_processor.cache.cache_allocators": PrivateName("drafts need wider sliding windows"),
    "batch_processor.cache.update": PrivateName(
        "the attention in `cpu_model` uses it", ("kwargs",)
    ),
    # Of a request in a step, and of its state; a step adds and takes back tokens.
    "item.state": PrivateName("the request behind it"),
    "item.has_new_token": PrivateName("a request whose prompt is not read yet gets no token"),
    "item.query_length": PrivateName("grows by the draft"),
    "request.request_id": PrivateName("the name of the request"),
    "request.initial_tokens": PrivateName("drafts repeat tokens of the prompt"),
    "request.generated_tokens": PrivateName("gets the tokens of a step"),
    "request.generated_len": PrivateName("drafts end with the completion"),
    "request.max_new_tokens": PrivateName("drafts end with the completion"),
    "request.position_offset": PrivateName("goes back to the first wrong token of a draft"),
    "request.tokens_to_process": PrivateName("gets drafts, and the unread tokens of a step"),
    "request.remaining_prefill_tokens": PrivateName("several unread tokens are read as a prompt"),
    "request.status": PrivateName("several unread tokens are read as a prompt"),
}
"""Private names by their place: below the manager, or in ``FutureRequestState`` (``item``) and
``RequestState`` (``request``)."""


class UnknownBatchingError(ImportError):
    """The installed Transformers has another batching than this module knows.

    It is an `ImportError`, like that of a missing module of Transformers.
    """


class BatchedRequest:
    """A request that gets tokens in the current step, and the draft that it adds to the step."""

    def __init__(self, item: Any, cache: Any) -> None:
        self.draft: list[int] = []
        self._item = item
        self._state = item.state
        self._cache = cache

    @property
    def name(self) -> str:
        """The name under which the request was added."""
        return str(self._state.request_id)

    @property
    def tokens(self) -> list[int]:
        """The tokens of the prompt and the completion."""
        return list(self._state.initial_tokens + self._state.generated_tokens)

    @property
    def room(self) -> int:
        """How many tokens may follow."""
        return int(self._state.max_new_tokens - self._state.generated_len())

    def add_draft(self, draft: list[int]) -> None:
        """Let the model read a draft after the request's last token, if the cache has room."""
        length = self._item.query_length + len(draft)
        if draft and self._cache.can_store_request_tokens(self._state, length):
            self.draft = draft
            self._state.tokens_to_process = self._state.tokens_to_process + draft
            self._item.query_length = length

    def take(self, tokens: list[int], read: int) -> None:
        """Go on with the tokens of a step; the model has read the first `read` in the draft.

        The next step reads the first of the others. It reads several, for example after forced
        tokens, as it reads a prompt.
        """
        state = self._state
        state.position_offset -= len(self.draft) - read
        # The batching has already appended the first of them, which `sample` wrote.
        state.generated_tokens[-1:] = tokens
        state.tokens_to_process = tokens[read:]
        if len(tokens) - read > 1:
            state.remaining_prefill_tokens = tokens[read:]
            state.status = RequestStatus.PREFILLING


class Steps(Protocol):
    """The functions that `PrivateBatching` calls in each step, in this order."""

    def begin(self, requests: list[BatchedRequest], tokens: int) -> None:
        """Add drafts to the requests that get tokens in this step; it already has `tokens`."""

    def choose(self, logits: torch.Tensor) -> list[list[int]]:
        """Return the tokens of each request; none for a request that ends. Only rank 0 is asked.

        `logits` have a row after the last token of a request, and one after each token of its
        draft.
        """

    def end(self, chosen: list[list[int]], running: Collection[str]) -> None:
        """Continue the `running` requests with the chosen tokens."""


class PrivateBatching:
    """The manager of Transformers' continuous batching, with the methods of steps replaced.

    `fail` gets the name and the problem of a request that fails. `start` begins the steps, and
    `steps` can be replaced between requests. Raises `UnknownBatchingError`, and `EngineError` if
    the KV cache cannot be made.
    """

    def __init__(
        self, model: Any, settings: dict[str, Any], fail: Callable[[str, str], None]
    ) -> None:
        generation = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False, eos_token_id=[_NO_TOKEN]
        )
        self._fail = fail
        on_gpu = model.device.type == "cuda"
        try:
            configuration = ContinuousBatchingConfig(**settings)
            self._manager = model.init_continuous_batching(generation, configuration)
            with torch.cuda.device(model.device) if on_gpu else contextlib.nullcontext():
                self._manager.warmup()  # makes the processor of the steps; it runs nothing
        except (AttributeError, TypeError) as error:
            raise UnknownBatchingError(f"its batching cannot be opened: {error}") from error
        except (ImportError, MemoryError, RuntimeError, ValueError) as error:
            raise EngineError(f"the KV cache cannot be made: {error}") from error
        _check_names(self._manager)
        self._manager.logit_processor.clear()
        self._manager.output_router.deliver = self._deliver
        self._manager.output_router.deliver_batch = self._deliver_all
        if not self._manager.is_tp_driver:
            self._manager._wake_up_loop = _AlwaysSet()
        processor = self._manager.batch_processor
        self.cache = processor.cache
        self._group = processor.distributed_helper
        self.steps: Steps
        self._awaited: set[str] = set()
        self._awaited_problem: str | None = None
        self._is_awaited_over = threading.Event()
        self._recovery = _Recovery(processor, self._fail_request)
        self._requests: list[BatchedRequest] = []
        self._chosen: list[list[int]] = []

    @property
    def step_size(self) -> int:
        """How many tokens a step may have."""
        return int(self.cache.max_batch_tokens)

    @property
    def shares_prefixes(self) -> bool:
        """Whether requests share the cache of equal prompts."""
        return bool(self.cache.use_prefix_sharing)

    def make_room_for_drafts(self, longest: int) -> int:
        """Return how long drafts may be, and enlarge sliding windows by as many tokens.

        A window is a ring of tokens. A draft overwrites the oldest tokens, which are needed again
        if the draft is wrong. Raises `UnknownBatchingError`.
        """
        if self.shares_prefixes:  # blocks with wrong tokens would be shared
            return 0
        try:
            window = self.cache.cache_allocators["sliding_attention"]
            # The cache has whole pages: what the window leaves of the last one costs no memory.
            spare = -window.sliding_window % window.tokens_per_page
        except (AttributeError, KeyError) as error:
            raise UnknownBatchingError(f"its cache has no sliding window: {error}") from error
        room = min(longest, spare)
        window.sliding_window += room
        return int(room)

    def start(self, steps: Steps) -> None:
        """Start the thread, which calls `steps`."""
        self.steps = steps
        processor = self._manager.batch_processor
        inputs = processor.inputs_and_outputs
        prepare, model_arguments = inputs.prepare_batch_tensors, inputs.get_model_kwargs
        update = processor.update_batch

        def prepare_with_drafts(
            requests_in_batch: list[Any], num_q_tokens: int, **others: Any
        ) -> None:
            self._requests = [
                BatchedRequest(item, self.cache) for item in requests_in_batch if item.has_new_token
            ]
            self._recovery.begin(requests_in_batch)
            self.steps.begin(self._requests, num_q_tokens)
            num_q_tokens += sum(len(request.draft) for request in self._requests)
            prepare(requests_in_batch=requests_in_batch, num_q_tokens=num_q_tokens, **others)

        def arguments_with_drafts(use_padding: bool = False) -> Any:
            arguments = model_arguments(use_padding=use_padding)
            if any(request.draft for request in self._requests):
                last = arguments["logits_indices"].tolist()
                arguments["logits_indices"] = torch.tensor(
                    [
                        index
                        # `last` has a place for each request of the step, also for those that get
                        # no token.
                        for request, end in zip(self._requests, last, strict=False)
                        for index in range(end - len(request.draft), end + 1)
                    ]
                )
            return arguments

        def sample(scores: torch.Tensor, output_ids: torch.Tensor) -> None:
            chosen = self.steps.choose(scores[0]) if self._group.is_tp_driver else None
            self._chosen = self._group.tp_broadcast_object_from_rank_0(chosen)
            for index, tokens in enumerate(self._chosen):
                output_ids[0, index] = tokens[0] if tokens else _NO_TOKEN

        def update_with_chosen() -> None:
            update()
            self.steps.end(self._chosen, processor.scheduler.active_requests.keys())
            self._recovery.end([request.name for request in self._requests])

        inputs.prepare_batch_tensors = prepare_with_drafts
        inputs.get_model_kwargs = arguments_with_drafts
        processor.model_runner._sample = sample
        processor.update_batch = update_with_chosen
        self._manager._generation_loop_body = self._guarded(self._manager._generation_loop_body)
        self._manager.start()

    def _guarded(self, run_step: Callable[..., Any]) -> Callable[..., Any]:
        """Return the body of the loop, which goes on after an error in a step."""

        def run_step_or_recover(*arguments: Any, **named: Any) -> Any:
            self._recovery.begin([])  # until a step is made; `recover` sees if none was
            try:
                return run_step(*arguments, **named)
            except Exception as error:
                if self._group.tp_size > 1:  # the other processes wait for this one
                    _LOG.exception("the model failed")
                    raise
                try:
                    self._recovery.recover(error)
                except Exception as fatal:
                    self._recovery.give_up(fatal)
                    raise
                # As the replaced body does, so that the loop goes on.
                return True

        return run_step_or_recover

    def _deliver(self, output: Any) -> None:
        """Deliver the error of a request, or the end of one that `complete` waits for."""
        if output.error is not None:
            self._fail_request(output.request_id, f"the model failed: {output.error}")
        elif output.request_id in self._awaited:
            self._end_awaited(output.request_id, None)

    def _deliver_all(self, outputs: list[Any]) -> None:
        for output in outputs:
            self._deliver(output)

    def _fail_request(self, name: str, problem: str) -> None:
        if name in self._awaited:
            self._end_awaited(name, problem)
        else:
            self._fail(name, problem)

    def _end_awaited(self, name: str, problem: str | None) -> None:
        self._awaited.discard(name)
        self._awaited_problem = self._awaited_problem or problem
        if not self._awaited:
            self._is_awaited_over.set()

    def complete(self, prompts: Mapping[str, list[int]], max_tokens: int) -> None:
        """Run some requests to their end; raise `EngineError` if one fails."""
        self._awaited = set(prompts)
        self._awaited_problem = None
        self._is_awaited_over.clear()
        for name, prompt in prompts.items():
            self.add(name, prompt, max_tokens)
        # A thread that ends by itself delivers nothing, so it is looked at now and then.
        while not self._is_awaited_over.wait(0.1):
            if not self.is_running:
                raise EngineError(f"the model failed: {self.problem}")
        if self._awaited_problem is not None:
            raise EngineError(self._awaited_problem)

    @property
    def takes_requests(self) -> bool:
        """Whether this process takes requests; others only compute."""
        return bool(self._manager.is_tp_driver)

    @property
    def problem(self) -> str:
        """The error that ended the thread."""
        return str(self._manager.background_thread_status.fatal_error or "its thread has ended")

    def add(self, name: str, prompt: list[int], max_tokens: int) -> bool:
        """Start a request; return False if the thread has stopped."""
        accepted = self._manager.add_request(
            prompt, request_id=name, max_new_tokens=max_tokens, eos_token_id=[_NO_TOKEN]
        )
        return accepted is not None

    def cancel(self, name: str) -> None:
        """End a request early."""
        self._manager.cancel_request(name)

    @property
    def is_running(self) -> bool:
        """Whether the thread is alive."""
        return bool(self._manager.is_running())

    def join(self) -> None:
        """Wait until the thread ends."""
        # Transformers takes the time at which the stop began, for its log.
        self._manager.join(time.perf_counter())

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        if self.is_running:
            self._manager.stop(block=True)


class _Recovery:
    """Ends the request that makes a step fail, and lets the others go on.

    If it is not clear which request that is, all start again, one after the other: the next one
    joins when the model has read the tokens of the last one. Then the request that joined last is
    the one. A request that is started again for the fourth time ends, too.
    """

    def __init__(self, processor: Any, fail: Callable[[str, str], None]) -> None:
        self._processor = processor
        self._fail = fail
        self._in_step: list[Any] = []  # states
        self._proven: set[str] = set()  # requests whose tokens the model has read
        self._held: deque[Any] = deque()
        self._starts: Counter[str] = Counter()

    def begin(self, items: Collection[Any]) -> None:
        """Remember the requests of a step."""
        self._in_step = [item.state for item in items]

    def end(self, sampled: Collection[str]) -> None:
        """Take note of a step that succeeded, and start a request that waits."""
        scheduler = self._processor.scheduler
        running = scheduler.active_requests.keys() | scheduler.waiting_requests.keys()
        self._proven = (self._proven | set(sampled)) & running
        if not running:
            self._starts.clear()
        if self._held and running <= self._proven:
            scheduler.add_waiting_request(self._held.popleft())

    def recover(self, error: Exception) -> None:
        """End a request or several, and start the others again."""
        scheduler = self._processor.scheduler
        states = [*scheduler.active_requests.values(), *scheduler.waiting_requests.values()]
        suspects = [state for state in self._in_step if state.request_id not in self._proven]
        failed = self._in_step if len(self._in_step) == 1 else suspects
        if not self._in_step:  # no step could be made, because the cache is too small
            failed = sorted(states, key=lambda state: len(state.initial_tokens))[-1:]
        ended = {state.request_id for state in failed} if len(failed) == 1 else set()
        self._starts.update(state.request_id for state in self._in_step)
        ended |= {name for name, starts in self._starts.items() if starts > _MOST_STARTS}
        again = [state for state in states if state.request_id not in ended]
        _LOG.error(
            "a step of the model failed: %s: %s; %d requests end, and %d start again",
            type(error).__name__,
            error,
            len(ended),
            len(again) + len(self._held),
            exc_info=error,
        )
        # `extendleft` turns the order around, so it is turned around before.
        self._held.extendleft(
            state.create_equivalent_initial_request() for state in reversed(again)
        )
        self._proven.clear()
        self._processor.reset()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        for name in ended:
            self._fail(name, f"the model failed: {error}")
        if self._held:
            scheduler.add_waiting_request(self._held.popleft())

    def give_up(self, error: Exception) -> None:
        """End the requests that wait to start again; the thread ends."""
        while self._held:
            self._fail(self._held.popleft().request_id, f"the model failed: {error}")


class _AlwaysSet(threading.Event):
    """Makes a follower's loop wait only for rank 0, not for requests of its own."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        return True


def _check_names(manager: Any) -> None:
    """Raise `UnknownBatchingError` if a private name or one of its arguments is missing."""
    missing = []
    request = RequestState(request_id="check", initial_tokens=[0])
    places = {"item": FutureRequestState, "request": request}
    for path, name in PRIVATE_NAMES.items():
        first, _, rest = path.partition(".")
        try:
            if first in places:
                found = getattr(places[first], rest)
            else:
                found = reduce(getattr, path.split("."), manager)
        except AttributeError:
            missing.append(path)
            continue
        if name.arguments:
            known = inspect.signature(found).parameters
            missing += (
                f"{path}({argument}=)" for argument in name.arguments if argument not in known
            )
    if missing:
        raise UnknownBatchingError(f"its batching has no {', '.join(missing)}")
