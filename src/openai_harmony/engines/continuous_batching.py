"""The continuous batching of Transformers, with a sampler for each request.

The batching runs all requests at once, but with one set of sampling settings. So this module
replaces its logits processors with a sampler of its own. The sampler chooses a token for each row
by the settings of that request, and masks all others.

Much of this is private in Transformers, and used nowhere else: `TESTED_TRANSFORMERS` has the
releases that it was tested with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
import transformers

from ..tokens.special_tokens import CALL, RETURN
from .engine import EngineError, SampledToken
from .token_sampler import TokenSampler

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
from transformers.generation.continuous_batching.cb_logits_processors import (  # noqa: E402
    ContinuousBatchingLogitsProcessor,
)
from transformers.generation.continuous_batching.continuous_api import OutputRouter  # noqa: E402

_PAGE = 256  # tokens in a block of the KV cache
_CPU_BATCH_TOKENS = 512  # in one step; a longer prompt takes several


class RunningRequest:
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

    def __init__(self, requests: dict[str, RunningRequest]) -> None:
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
            # The sampler runs in Python after each step, so no step can start early.
            use_async_batching=False,
            use_cuda_graph=False,
            # Without a GPU, computing the defaults takes long.
            num_blocks=pages * max_requests if on_cpu else None,
            max_batch_tokens=_CPU_BATCH_TOKENS if on_cpu else None,
        )
        generation = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False, eos_token_id=[RETURN, CALL], max_new_tokens=context_length
        )
        self._manager = model.init_continuous_batching(generation, batching)
        processors = self._manager.logit_processor
        processors.logits_processor.clear()
        processors.logits_processor.append(_Sampler(requests))
        processors.tensors_required = 1
        processors.do_processing = True
        self._manager.output_router = _Failures(requests)
        self._manager.start()

    def add(
        self, name: str, prompt: list[int], max_tokens: int, stop_tokens: Collection[int]
    ) -> bool:
        """Start a request; return False where the thread has stopped."""
        accepted = self._manager.add_request(
            prompt, request_id=name, max_new_tokens=max_tokens, eos_token_id=sorted(stop_tokens)
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

    def stop(self) -> None:
        """Stop the thread, and wait for its end."""
        self._manager.stop(block=True)
