"""The server of vLLM, over HTTP: written for version 0.33.

Token ids go both ways at ``/inference/v1/generate``, which ``--enable-scale-out`` opens, or at
``/v1/completions`` with ``return_token_ids``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from ..tokens.special_tokens import VOCABULARY_SIZE
from .engine import (
    ContextLengthError,
    EngineError,
    FinishReason,
    SampledToken,
    Sampling,
    SamplingError,
)
from .http_client import HttpClient, RefusalError
from .server_engine import AnswerReader, ServerEngine, best_tokens, connecting

_GENERATE = "/inference/v1/generate"
_COMPLETIONS = "/v1/completions"
_TOKEN = "token_id:"  # the prefix of tokens beside log-probabilities in completions


class VllmEngine(ServerEngine):
    """A model behind ``vllm serve``; make it with `VllmEngine.connect`.

    ::

        engine = await VllmEngine.connect("http://localhost:8000")
    """

    owner = "vllm"
    grammar_remedy = (
        "start vLLM with --enable-scale-out, or with --structured-outputs-config "
        '\'{"backend": "guidance", "enable_in_reasoning": true}\''
    )

    def __init__(
        self, client: HttpClient, model: str, context_length: int, *, completions: bool = False
    ) -> None:
        super().__init__(client, model, context_length)
        self.origin = f"vLLM at {client.url}"
        self.path = _COMPLETIONS if completions else _GENERATE
        self._completions = completions

    @classmethod
    async def connect(
        cls,
        url: str,
        model: str | None = None,
        *,
        endpoint: Literal["generate", "completions"] | None = None,
        **options: Any,
    ) -> VllmEngine:
        """Connect to a server, and read its model, context length and endpoints.

        `model` is one of the models that it serves, by default the first. `options` go to
        `HttpClient`: `api_key`, `timeout`. Raises `EngineError`.
        """
        async with connecting(url, "vLLM", options) as client:
            name, context_length = _choose_model(client.url, await client.get("/v1/models"), model)
            if endpoint is None:
                endpoint = "generate" if await _generates(client) else "completions"
        return cls(client, name, context_length, completions=endpoint == "completions")

    def request_body(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> dict[str, Any]:
        """Write the settings as the server reads them."""
        # vLLM raises a temperature below 0.01 to 0.01, with no more than a line in its log.
        if sampling.temperature > 2 or 0 < sampling.temperature < 0.01:
            raise SamplingError(
                f"temperature must be 0 or from 0.01 to 2 for vLLM, not {sampling.temperature}"
            )
        if sampling.top_p == 0:
            raise SamplingError("top_p must be above 0 for vLLM")
        settings: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "max_tokens": max_tokens,
            "stop_token_ids": sorted(sampling.stop_tokens),
            # Otherwise the stop tokens in the model's files also end the completion.
            "ignore_eos": True,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
            "repetition_penalty": sampling.repetition_penalty,
        }
        if sampling.seed is not None:
            settings["seed"] = sampling.seed % 2**63  # vLLM takes signed integers of 64 bits
        if sampling.logprobs is not None:
            settings["logprobs"] = sampling.logprobs
        if sampling.grammar is not None:
            settings["structured_outputs"] = {"grammar": sampling.grammar}
        if self._completions:
            return {
                "model": self.model,
                "prompt": prompt,
                "stream": True,
                "stream_options": {"include_usage": True},
                "add_special_tokens": False,
                "return_token_ids": True,
                # Log-probabilities then name tokens by id: not every token is whole characters.
                "return_tokens_as_token_ids": True,
                **settings,
            }
        body = {
            "model": self.model,
            "token_ids": prompt,
            "stream": True,
            "stream_options": {"include_usage": True},
            "sampling_params": {**settings, "detokenize": False},
        }
        if sampling.grammar is not None:
            # Otherwise vLLM applies a grammar for gpt-oss only from the final channel on.
            body["reasoning_ended"] = True
        return body

    async def score(self, tokens: Sequence[int], logprobs: int = 0) -> list[SampledToken]:
        """Return the log-probability of each token; vLLM computes them with the prompt."""
        if not tokens:
            return []
        SamplingError.check_tokens(tokens, VOCABULARY_SIZE - 1)
        ContextLengthError.check(len(tokens), self.context_length)
        body = {
            "model": self.model,
            "prompt": [*tokens],
            "max_tokens": 1,
            "temperature": 0,
            "prompt_logprobs": logprobs,
            "add_special_tokens": False,
        }
        try:
            async with aclosing(self._client.ask("POST", _COMPLETIONS, body)) as answers:
                (answer,) = [answer async for answer in answers]
        except RefusalError as refusal:
            if refusal.status in (400, 422):
                raise SamplingError(str(refusal)) from refusal
            raise
        try:
            listed = answer["choices"][0]["prompt_logprobs"]
            return [
                _scored(token, values, logprobs)
                for token, values in zip(tokens, listed, strict=True)
            ]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise EngineError(
                f"{self._client.url} returned no log-probabilities of the prompt: "
                f"{str(answer)[:300]}"
            ) from error

    def answer_reader(self, sampling: Sampling, max_tokens: int) -> AnswerReader:
        """Return a reader of events with ``choices``."""
        return _Reader(sampling.logprobs, completions=self._completions)


class _Reader(AnswerReader):
    """Reads ``choices`` of either endpoint: some tokens each, and the reason in the last.

    The usage follows; with ``--enable-prompt-tokens-details``, it has the cached tokens.
    """

    usage_comes_last = True

    def __init__(self, logprobs: int | None, *, completions: bool) -> None:
        self._count = logprobs
        self._completions = completions

    def read(self, event: Any) -> Iterator[SampledToken]:
        details = (event.get("usage") or {}).get("prompt_tokens_details") or {}
        self.cached_tokens = details.get("cached_tokens")
        for choice in event["choices"]:
            reason = choice.get("finish_reason")
            if reason not in (None, "stop", "length"):
                raise EngineError(f"vLLM ended the completion: {reason}", retryable=True)
            sampled = [SampledToken(token) for token in choice.get("token_ids") or ()]
            if self._count is not None:
                logprobs = self._logprobs(choice["logprobs"])
                sampled = [
                    token._replace(logprob=logprob, top_logprobs=best_tokens(tops, self._count))
                    for token, (logprob, tops) in zip(sampled, logprobs, strict=True)
                ]
            if reason is not None and sampled:
                sampled[-1] = sampled[-1]._replace(finish_reason=FinishReason(reason))
            yield from sampled

    def _logprobs(self, logprobs: Any) -> Iterator[tuple[float, list[tuple[int, float]]]]:
        """Yield the log-probability of each token, and those of the likeliest tokens."""
        if self._completions:
            pairs = zip(logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)
            for logprob, tops in pairs:
                yield logprob, [(int(k.removeprefix(_TOKEN)), v) for k, v in tops.items()]
        else:
            for content in logprobs["content"]:
                tops = content["top_logprobs"]
                yield content["logprob"], [(top["token_id"], top["logprob"]) for top in tops]


def _scored(token: int, values: Any, count: int) -> SampledToken:
    """Read the entry of a token: null for the first, otherwise the likeliest tokens by id."""
    if values is None:
        return SampledToken(token)
    found = {int(id): float(value["logprob"]) for id, value in values.items()}
    return SampledToken(token, found[token], best_tokens(found.items(), count))


def _choose_model(url: str, answer: Any, requested: str | None) -> tuple[str, int]:
    """Find the model and its context length in the list of models."""
    try:
        models = {model["id"]: model.get("max_model_len") for model in answer["data"]}
    except (KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"{url} does not list its models like vLLM; is it vLLM?") from error
    name = requested if requested is not None else next(iter(models), None)
    if name not in models:
        raise EngineError(f"{url} serves {', '.join(models) or 'nothing'}, not {name!r}")
    # An adapter has the context length of its base model, which comes first.
    length = models[name] or next(iter(models.values()))
    if not isinstance(length, int):
        raise EngineError(
            f"{url} is not vLLM, SGLang or llama-server, as it does not report its context length; "
            "a server that takes only text (mlx_lm.server, Ollama) cannot be an engine: run the "
            "same model in llama-server"
        )
    return str(name), length


async def _generates(client: HttpClient) -> bool:
    """Return whether the server has the endpoint for token ids; try it with an empty request."""
    try:
        async for _ in client.ask("POST", _GENERATE, {}):
            return True
    except RefusalError as refusal:
        if refusal.status in (400, 422):
            return True
        if refusal.status in (403, 404, 405):
            return False
        raise
    return True
