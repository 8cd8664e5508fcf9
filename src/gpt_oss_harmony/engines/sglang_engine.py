"""The server of SGLang, over HTTP: token ids both ways at ``/generate``.

Written for version 0.5.23, from its source.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..tokens.special_tokens import CALL, RETURN
from .engine import EngineError, FinishReason, SampledToken, Sampling, SamplingError
from .http_client import HttpClient
from .server_engine import AnswerReader, ServerEngine, best_tokens, connecting

_LARK = "%llguidance {}\n"  # marks a Lark grammar; `ebnf` may be GBNF as well
_SEEDS = 2**31


@dataclass(frozen=True)
class _Features:
    """The features that the server's command line enables."""

    has_llguidance: bool
    has_seeds: bool


class SglangEngine(ServerEngine):
    """A model behind ``python -m sglang.launch_server``; make it with `SglangEngine.connect`.

    Set `original_logprobs` if the server runs with ``SGLANG_RETURN_ORIGINAL_LOGPROB=1``. Other
    servers return log-probabilities after the temperature, so the engine requests them only for the
    temperatures 0 and 1.

    ::

        engine = await SglangEngine.connect("http://localhost:30000")
    """

    owner = "sglang"
    path = "/generate"
    grammar_remedy = "start SGLang with --grammar-backend llguidance"

    def __init__(
        self,
        client: HttpClient,
        model: str,
        context_length: int,
        features: _Features,
        *,
        original_logprobs: bool = False,
    ) -> None:
        super().__init__(client, model, context_length)
        self.origin = f"SGLang at {client.url}"
        self._features = features
        self._original_logprobs = original_logprobs

    @classmethod
    async def connect(
        cls, url: str, *, original_logprobs: bool = False, **options: Any
    ) -> SglangEngine:
        """Connect to a server, and read its model, context length and settings.

        `options` go to `HttpClient`: `api_key`, `timeout`. Raises `EngineError`.
        """
        async with connecting(url, "SGLang", options) as client:
            model = (await client.get("/v1/models"))["data"][0]
            settings = await client.get("/server_info")
            name, length = str(model["id"]), int(model["max_model_len"])
            features = _Features(
                has_llguidance=settings["grammar_backend"] == "llguidance",
                has_seeds=bool(settings["enable_deterministic_inference"]),
            )
        return cls(client, name, length, features, original_logprobs=original_logprobs)

    def request_body(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> dict[str, Any]:
        """Write the settings as the server reads them."""
        self._check(sampling)
        settings: dict[str, Any] = {
            "max_new_tokens": max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,  # SGLang refuses 0
            "min_p": sampling.min_p,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
            "repetition_penalty": sampling.repetition_penalty,
            "stop_token_ids": sorted(sampling.stop_tokens),
            "no_stop_trim": True,  # without it, the ids come without the stop token
            "skip_special_tokens": False,
        }
        if self._features.has_seeds:  # without a seed, every request would get the same one
            seed = secrets.randbelow(_SEEDS) if sampling.seed is None else sampling.seed
            settings["sampling_seed"] = seed % _SEEDS
        if sampling.grammar is not None:
            settings["ebnf"] = _LARK + sampling.grammar
        body: dict[str, Any] = {"input_ids": prompt, "sampling_params": settings, "stream": True}
        if sampling.logprobs is not None:
            body.update(return_logprob=True, top_logprobs_num=sampling.logprobs)
        return body

    def _check(self, sampling: Sampling) -> None:
        if not sampling.stop_tokens >= {RETURN, CALL}:
            raise SamplingError("SGLang always stops at <|return|> and <|call|>; keep them")
        if sampling.top_p == 0:
            raise SamplingError("top_p must be above 0 for SGLang")
        if sampling.repetition_penalty > 2:
            raise SamplingError("repetition_penalty must be at most 2 for SGLang")
        if sampling.seed is not None and not self._features.has_seeds:
            raise SamplingError(
                "SGLang uses seeds only with --enable-deterministic-inference; start it with this "
                "option, or leave out the seed"
            )
        if sampling.grammar is not None and not self._features.has_llguidance:
            raise SamplingError(f"grammars need llguidance: {self.grammar_remedy}")
        is_plain = self._original_logprobs or sampling.temperature in (0, 1)
        if sampling.logprobs is not None and not is_plain:
            raise SamplingError(
                "SGLang returns log-probabilities after the temperature; start it with "
                "SGLANG_RETURN_ORIGINAL_LOGPROB=1 and connect with original_logprobs=True, or use "
                "a temperature of 0 or 1"
            )

    def answer_reader(self, sampling: Sampling, max_tokens: int) -> AnswerReader:
        """Return a reader of events with ``output_ids``."""
        return _Reader(sampling.logprobs)


class _Reader(AnswerReader):
    """Reads ``output_ids``: all tokens so far or, with an option of the server, the new ones.

    The number of all tokens shows how many of the last ones are new.
    """

    def __init__(self, logprobs: int | None) -> None:
        self._count = logprobs
        self._received = 0

    def read(self, event: Any) -> Iterator[SampledToken]:
        details = event["meta_info"]
        reason = details["finish_reason"]
        if reason is not None and reason["type"] not in ("stop", "length"):
            problem = f"SGLang ended the completion: {reason.get('message') or reason['type']}"
            if reason.get("status_code") == 400:
                raise SamplingError(problem)
            raise EngineError(problem, retryable=True)
        self.cached_tokens = details.get("cached_tokens")
        new = details["completion_tokens"] - self._received
        self._received += new
        sampled = [SampledToken(token) for token in event["output_ids"][-new:]] if new else []
        if len(sampled) != new:
            raise EngineError(
                f"SGLang left out {new - len(sampled)} of {self._received} tokens", retryable=True
            )
        if self._count is not None and new:
            logprobs = details["output_token_logprobs"][-new:]
            tops = details["output_top_logprobs"][-new:] if self._count else [()] * new
            sampled = [
                token._replace(
                    logprob=own[0],
                    top_logprobs=best_tokens(((top[1], top[0]) for top in likeliest), self._count),
                )
                for token, own, likeliest in zip(sampled, logprobs, tops, strict=True)
            ]
        if reason is not None and sampled:
            sampled[-1] = sampled[-1]._replace(finish_reason=FinishReason(reason["type"]))
        yield from sampled
