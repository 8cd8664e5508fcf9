"""The server of llama.cpp, over HTTP: token ids both ways at ``/completion``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..tokens.special_tokens import CALL, END_OF_TEXT, RETURN, SPECIAL_TEXTS
from .engine import FinishReason, SampledToken
from .errors import EngineError, SamplingError
from .http_client import HttpClient
from .lost_tokens import find_lost_tokens, text_of
from .sampling import Sampling
from .server_engine import AnswerReader, ServerEngine, best_tokens

__all__ = ["LlamaCppEngine"]

_ENDS = frozenset((RETURN, CALL, END_OF_TEXT))  # end every completion of gpt-oss in llama.cpp
_LARK = "%llguidance {}\n"  # tells Lark from llama.cpp's own grammars
_OWN_SEEDS = 2**32 - 1  # the seed that stands for a random one


class LlamaCppEngine(ServerEngine):
    """A model behind ``llama-server``; `LlamaCppEngine.connect` makes it.

    - `llguidance`: the server was built with ``-DLLAMA_LLGUIDANCE=ON``. One that was not ends
      itself when it meets our grammars, so they are not sent without being told.
    - `stream`: False waits for the whole completion, in which no token can get lost: of a character
      that is made of several tokens, a stream has only the last. The others are found by their
      bytes, and where that is not possible, there is an `EngineError`.

    ::

        engine = await LlamaCppEngine.connect("http://localhost:8080")
    """

    _grammar_remedy = "build it with -DLLAMA_LLGUIDANCE=ON"

    def __init__(
        self,
        client: HttpClient,
        model: str,
        context_length: int,
        *,
        llguidance: bool = False,
        stream: bool = True,
    ) -> None:
        super().__init__(client, model, context_length)
        self.origin = f"llama.cpp at {client.url}"
        self._llguidance = llguidance
        self._stream = stream

    @classmethod
    async def connect(
        cls, url: str, *, llguidance: bool = False, stream: bool = True, **options: Any
    ) -> LlamaCppEngine:
        """Ask the server for its model and for the length of the context of a slot.

        `options` go to `HttpClient`: `api_key`, `timeout`. Raises `EngineError`.
        """
        client = HttpClient(url, **options)
        try:
            properties = await client.get("/props")
            models = await client.get("/v1/models")
            length = properties["default_generation_settings"]["n_ctx"]
            name = models["data"][0]["id"]
        except (KeyError, TypeError, IndexError) as error:
            await client.close()
            raise EngineError(
                f"{client.url} does not tell its model and context; is it llama.cpp?"
            ) from error
        except BaseException:
            await client.close()
            raise
        return cls(client, str(name), int(length), llguidance=llguidance, stream=stream)

    @staticmethod
    async def answers(url: str, **options: Any) -> bool:
        """Tell whether llama.cpp is what answers at `url`; raises nothing."""
        client = HttpClient(url, **{"timeout": 10, "pauses": (), **options})
        try:
            models = await client.get("/v1/models")
            return any(model.get("owned_by") == "llamacpp" for model in models["data"])
        except (EngineError, KeyError, TypeError, AttributeError):
            return False
        finally:
            await client.close()

    def _path(self) -> str:
        return "/completion"

    def _request(self, prompt: list[int], sampling: Sampling, max_tokens: int) -> dict[str, Any]:
        if not sampling.stop_tokens >= {RETURN, CALL}:
            raise SamplingError("llama.cpp always stops at <|return|> and <|call|>; keep them")
        body: dict[str, Any] = {
            "prompt": prompt,
            "stream": self._stream,
            "return_tokens": True,
            "timings_per_token": True,  # with what was in the cache: the last event comes too late
            "n_predict": max_tokens,
            # Otherwise settings of the server's command line would have a say.
            "samplers": ["penalties", "temperature", "top_k", "min_p", "top_p"],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
            "repeat_penalty": sampling.repetition_penalty,
            "repeat_last_n": self.context_length,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed % _OWN_SEEDS
            # A prompt that is in the cache can give slightly other logits.
            body["cache_prompt"] = False
        if sampling.logprobs is not None:
            body["n_probs"] = max(sampling.logprobs, 1)
        if sampling.grammar is not None:
            if not self._llguidance:
                raise SamplingError(
                    "llama.cpp needs llguidance for grammars: build it with "
                    "-DLLAMA_LLGUIDANCE=ON and connect with llguidance=True"
                )
            body["grammar"] = _LARK + sampling.grammar
        return body

    def _reader(self, sampling: Sampling, max_tokens: int) -> AnswerReader:
        return _Reader(sampling, max_tokens)


class _Reader(AnswerReader):
    """Reads ``tokens``, one in each event, and in the last event none but why it ended."""

    def __init__(self, sampling: Sampling, max_tokens: int) -> None:
        self._stops = sampling.stop_tokens | _ENDS
        self._count = sampling.logprobs
        self._max_tokens = max_tokens
        self._received = 0

    def read(self, event: Any) -> Iterator[SampledToken]:
        tokens, details = event["tokens"], event.get("completion_probabilities") or ()
        whole = event["stop"]
        # Not `tokens_cached`, which counts all that the cache holds after the completion.
        self.cached_tokens = (event.get("timings") or {}).get("cache_n")
        if tokens and not whole:
            tokens = self._with_lost(event["content"], tokens, event.get("tokens_predicted"))
        unused = list(details)
        for token in tokens:
            detail = unused.pop(0) if unused and unused[0]["id"] == token else None
            sampled = self._sampled(token, detail)
            yield sampled
            if sampled.finish_reason is not None:
                return
        if whole:
            raise EngineError(
                f"llama.cpp ended the completion ({event.get('stop_type')}) after tokens that it "
                f"did not send; it sampled {event.get('tokens_predicted')}, and sent "
                f"{self._received}; connect with stream=False"
            )

    def _sampled(self, token: int, detail: Any) -> SampledToken:
        self._received += 1
        reason = None
        if token in self._stops:
            reason = FinishReason.STOP
        elif self._received == self._max_tokens:
            reason = FinishReason.LENGTH
        if self._count is None or detail is None:
            return SampledToken(token, finish_reason=reason)
        tops = ((top["id"], top["logprob"]) for top in detail["top_logprobs"])
        return SampledToken(token, detail["logprob"], best_tokens(tops, self._count), reason)

    def _with_lost(self, text: str, tokens: list[int], predicted: int | None) -> list[int]:
        """Return the tokens with those before them that were not sent."""
        missing = (predicted or 0) - self._received - len(tokens)
        # Drafted tokens are counted before they are sent. Of special ones, some are spelled.
        whole = text.encode() in (text_of(tokens[0]), SPECIAL_TEXTS.get(tokens[0], "").encode())
        if missing <= 0 or whole:
            return tokens
        lost = find_lost_tokens(text, tokens[0], missing)
        if lost is None:
            raise EngineError(
                f"llama.cpp left out {missing} tokens of {text!r}, which cannot be found again; "
                "connect with stream=False"
            )
        return [*lost, *tokens]
