"""The check at the start: the batching must compute what the plain model computes.

Nobody can test every kernel, driver and card. So before an engine takes requests on a GPU, it runs
a few fixed prompts twice: in the model's plain `forward` with eager attention, and in the batching,
alone and together. One of the prompts is longer than the sliding window. The next tokens are fixed,
so that the logits after each of them can be compared. Wrong sinks, a wrong window or a kernel for
another card change them; the engine does not start then.

What both ways share, such as experts that are laid out wrongly among processes, or an MXFP4 kernel,
this cannot find. So a model of the size of gpt-oss must also find an English text likelier than the
same tokens in another order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..encoding import load_harmony_encoding
from .engine import EngineError
from .placement import attention_advice
from .private_batching import BatchedRequest, PrivateBatching

TOLERANCES = {torch.float32: 0.002, torch.float16: 0.05, torch.bfloat16: 0.15}
"""How far logits may be apart: the norm of the difference by the norm of the logits around their
mean. In bfloat16, the sums of another kernel differ, and with them now and then an expert."""

_TRAINED_SIZE = 2048
"""The hidden size from which a model is taken for a trained one, not for one of a test."""

_TEXT = (
    "The capital of France is Paris, and the capital of Germany is Berlin. Water boils at one "
    "hundred degrees, and there are seven days in a week."
)
_LEAST_GAIN = 1.0  # natural logarithms a token; a working model gains several

_NEXT_TOKENS = 3
_SHORT = (3, 37)
_DEFAULT_WINDOW = 128


class SelfCheck:
    """Computes the expected logits; `run` compares those of the batching.

    Under ``torchrun``, make it in each process, as each computes a part.
    """

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        window = getattr(config, "sliding_window", None) or _DEFAULT_WINDOW
        lengths = (*_SHORT, min(window + 33, config.max_position_embeddings - 8))
        self._attention = str(model.config._attn_implementation)
        self._tolerance = TOLERANCES.get(model.dtype, TOLERANCES[torch.bfloat16])
        self._prompts: dict[str, list[int]] = {}
        self._next: dict[str, list[int]] = {}
        self._expected: dict[str, list[torch.Tensor]] = {}
        with torch.no_grad(), _eager(model):
            if config.hidden_size >= _TRAINED_SIZE and config.model_type == "gpt_oss":
                check_language(model)
            for length in lengths:
                name = f"self-check of {length} tokens"
                self._prompts[name] = _tokens(length, config.vocab_size)
                self._next[name] = _tokens(length + _NEXT_TOKENS, config.vocab_size)[length:]
                tokens = self._prompts[name] + self._next[name][:-1]
                inputs = torch.tensor([tokens], device=model.device)
                logits = model(inputs, use_cache=False, logits_to_keep=_NEXT_TOKENS).logits[0]
                # Our head on the CPU writes all logits into the same memory.
                self._expected[name] = list(logits.float().cpu().clone())

    def run(self, batching: PrivateBatching) -> None:
        """Raise `EngineError` if the batching computes other logits, alone or together."""
        longest = list(self._prompts)[-1]
        for prompts in ({longest: self._prompts[longest]}, self._prompts):
            steps = _FixedSteps(self._next)
            batching.steps = steps
            batching.complete(prompts, _NEXT_TOKENS)
            for name in prompts:
                self._compare(name, steps.logits[name], is_alone=len(prompts) == 1)

    def _compare(self, name: str, logits: Sequence[torch.Tensor], *, is_alone: bool) -> None:
        for position, (found, expected) in enumerate(
            zip(logits, self._expected[name], strict=True)
        ):
            centered = expected - expected.mean()
            distance = float(
                (found - found.mean() - centered).norm() / centered.norm().clamp_min(1e-9)
            )
            if distance <= self._tolerance:  # not of NaN
                continue
            raise EngineError(
                f"the self-check failed: with the attention {self._attention!r}, the logits of the "
                f"batching are {distance:.3f} from those of the plain model, and "
                f"{self._tolerance:g} is allowed ({name}, "
                f"{'alone' if is_alone else 'in a batch'}, next token {position + 1}). Answers "
                f"would be wrong. Remedy: {attention_advice(self._attention)}. "
                "--no-self-check starts all the same"
            )


def check_language(model: Any) -> None:
    """Raise `EngineError` unless a text is likelier than its tokens in the opposite order."""
    tokens = load_harmony_encoding("HarmonyGptOss").encode(_TEXT)
    costs = []
    for ordered in (tokens, tokens[::-1]):
        inputs = torch.tensor([ordered], device=model.device)
        logits = model(inputs, use_cache=False).logits[0, :-1].float()
        costs.append(float(torch.nn.functional.cross_entropy(logits, inputs[0, 1:])))
    if not costs[1] - costs[0] >= _LEAST_GAIN:  # nor if it is NaN
        raise EngineError(
            "the self-check failed: the model finds an English text as unlikely as its words in "
            f"the opposite order ({costs[0]:.1f} and {costs[1]:.1f} a token), so its weights, its "
            "MXFP4 kernel or the division of its experts are wrong. Remedy: check the files of the "
            "model, start one process without torchrun, or uninstall kernels to use bfloat16. "
            "--no-self-check starts all the same"
        )


def _tokens(count: int, vocabulary_size: int) -> list[int]:
    """Return tokens that do not repeat, so that each place of the context matters."""
    return [(7919 * place + 104_729) % min(vocabulary_size, 199_998) for place in range(count)]


@contextlib.contextmanager
def _eager(model: Any) -> Iterator[None]:
    attention = model.config._attn_implementation
    model.config._attn_implementation = "eager"
    try:
        yield
    finally:
        model.config._attn_implementation = attention


class _FixedSteps:
    """Continues requests with fixed tokens, and keeps the logits."""

    def __init__(self, following: Mapping[str, list[int]]) -> None:
        self.logits: dict[str, list[torch.Tensor]] = {name: [] for name in following}
        self._following = following
        self._requests: list[BatchedRequest] = []

    def begin(self, requests: list[BatchedRequest], tokens: int) -> None:
        """Remember whose rows of logits follow."""
        self._requests = requests

    def choose(self, logits: torch.Tensor) -> list[list[int]]:
        """Return the fixed next tokens."""
        chosen = []
        # There is a row for each request of the step, also for those that get no token yet.
        for request, row in zip(self._requests, logits, strict=False):
            kept = self.logits[request.name]
            kept.append(row.float().cpu().clone())
            chosen.append([self._following[request.name][len(kept) - 1]])
        return chosen

    def end(self, chosen: list[list[int]], running: Collection[str]) -> None:
        """Do nothing: the batching has taken the tokens."""
