"""The server of llama.cpp, over HTTP: token ids both ways at ``/completion``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from ..grammar import GrammarError, for_llguidance_1_0, turn_gbnf, with_token_ids
from ..tokens.special_tokens import CALL, END_OF_TEXT, FIRST_SPECIAL, RETURN, SPECIAL_TEXTS
from ..tokens.vocabulary import load_vocabulary
from .engine import EngineError, FinishReason, SampledToken, Sampling, SamplingError
from .http_client import HttpClient
from .server_engine import AnswerReader, ServerEngine, best_tokens, connecting

_ENDS = frozenset((RETURN, CALL, END_OF_TEXT))  # end every completion of gpt-oss in llama.cpp
_LARK = "%llguidance {}\n"  # marks a Lark grammar, not one of llama.cpp
_OWN_SEEDS = 2**32 - 1  # llama.cpp chooses a random seed for this value


class LlamaCppEngine(ServerEngine):
    """A model behind ``llama-server``; make it with `LlamaCppEngine.connect`.

    - `llguidance`: set it if the server was built with ``-DLLAMA_LLGUIDANCE=ON``; other servers
      crash on such grammars. Without it, grammars are translated to GBNF, which expresses less.
    - `stream`: False waits for the whole completion. A stream lacks tokens: if a character consists
      of several tokens, the server sends only the last one. The engine finds the others by their
      bytes, and raises `EngineError` if that is impossible.

    ::

        engine = await LlamaCppEngine.connect("http://localhost:8080")
    """

    owner = "llamacpp"
    path = "/completion"
    grammar_remedy = "a server that rejects a grammar samples without it; its log has the reason"

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
        self.counts_tokens = llguidance  # GBNF cannot count tokens
        self._stream = stream

    @classmethod
    async def connect(
        cls, url: str, *, llguidance: bool = False, stream: bool = True, **options: Any
    ) -> LlamaCppEngine:
        """Ask the server for its model and the context length of a slot.

        `options` go to `HttpClient`: `api_key`, `timeout`. Raises `EngineError`.
        """
        async with connecting(url, "llama.cpp", options) as client:
            properties = await client.get("/props")
            models = await client.get("/v1/models")
            length = int(properties["default_generation_settings"]["n_ctx"])
            name = str(models["data"][0]["id"])
        return cls(client, name, length, llguidance=llguidance, stream=stream)

    def request_body(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> dict[str, Any]:
        """Write the settings as the server reads them."""
        if not sampling.stop_tokens >= {RETURN, CALL}:
            raise SamplingError("llama.cpp always stops at <|return|> and <|call|>; keep them")
        body: dict[str, Any] = {
            "prompt": prompt,
            "stream": self._stream,
            "return_tokens": True,
            "timings_per_token": True,  # reports the cached tokens before the last event
            "n_predict": max_tokens,
            # Override the settings of the server's command line. As in the other engines, the
            # temperature comes before the choice of tokens; llama.cpp's own order ends with it.
            "samplers": ["penalties", "temperature", "top_k", "min_p", "top_p"],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
            "repeat_penalty": sampling.repetition_penalty,
            "repeat_last_n": self.context_length,  # by default, only the last 64 tokens count
        }
        if sampling.temperature == 0:
            # The likeliest token alone; otherwise it would sample among all 201,088.
            body |= {"samplers": ["penalties", "top_k"], "top_k": 1}
        if sampling.seed is not None:
            body["seed"] = sampling.seed % _OWN_SEEDS
            # A cached prompt can give slightly different logits.
            body["cache_prompt"] = False
        if sampling.logprobs is not None:
            body["n_probs"] = max(sampling.logprobs, 1)
        if sampling.grammar is not None:
            body["grammar"] = self._grammar(sampling.grammar)
        return body

    def _grammar(self, grammar: str) -> str:
        if self._llguidance:
            return _LARK + with_token_ids(for_llguidance_1_0(grammar))
        try:
            return turn_gbnf(grammar)
        except GrammarError as error:
            raise SamplingError(
                f"{error} (the wheels of xllamacpp are), and connect with llguidance=True, "
                "or a command with --engine-option llguidance=true"
            ) from error

    def answer_reader(self, sampling: Sampling, max_tokens: int) -> AnswerReader:
        """Return a reader of events with ``tokens``."""
        return _Reader(sampling, max_tokens)


class _Reader(AnswerReader):
    """Reads ``tokens``: one in each event, and none in the last, which has the finish reason."""

    def __init__(self, sampling: Sampling, max_tokens: int) -> None:
        self._stops = sampling.stop_tokens | _ENDS
        self._count = sampling.logprobs
        self._max_tokens = max_tokens
        self._received = 0

    def read(self, event: Any) -> Iterator[SampledToken]:
        tokens, details = event["tokens"], event.get("completion_probabilities") or ()
        is_last = event["stop"]
        # Not `tokens_cached`, which counts the whole cache after the completion.
        self.cached_tokens = (event.get("timings") or {}).get("cache_n")
        if tokens and not is_last:
            tokens = self._with_lost(event["content"], tokens, event.get("tokens_predicted"))
        unused = list(details)
        for token in tokens:
            # A token that was not sent, and was found by its bytes, has no details.
            detail = unused.pop(0) if unused and unused[0]["id"] == token else None
            self._received += 1
            reason = None
            if token in self._stops:
                reason = FinishReason.STOP
            elif self._received == self._max_tokens:
                reason = FinishReason.LENGTH
            sampled = SampledToken(token, finish_reason=reason)
            if self._count is not None and detail is not None:
                tops = ((top["id"], top["logprob"]) for top in detail["top_logprobs"])
                best = best_tokens(tops, self._count)
                sampled = sampled._replace(logprob=detail["logprob"], top_logprobs=best)
            yield sampled
            if reason is not None:
                return
        if is_last:
            raise EngineError(
                f"llama.cpp ended the completion ({event.get('stop_type')}) after tokens that it "
                f"did not send; it sampled {event.get('tokens_predicted')}, and sent "
                f"{self._received}; connect with stream=False"
            )

    def _with_lost(self, text: str, tokens: list[int], predicted: int | None) -> list[int]:
        """Return the tokens, preceded by those that the server did not send."""
        missing = (predicted or 0) - self._received - len(tokens)
        # Drafted tokens are counted before they are sent. Some special tokens have text.
        own_texts = text_of(tokens[0]), SPECIAL_TEXTS.get(tokens[0], "").encode()
        if missing <= 0 or text.encode() in own_texts:
            return tokens
        lost = find_lost_tokens(text, tokens[0], missing)
        if lost is None:
            raise EngineError(
                f"llama.cpp left out {missing} tokens of {text!r}, which cannot be reconstructed; "
                "connect with stream=False"
            )
        return [*lost, *tokens]


def find_lost_tokens(text: str, last: int, count: int) -> list[int] | None:
    """Return the `count` tokens that spell the text together with `last`, which follows them.

    The server sends a token only if the text so far ends with a whole character. So it sends only
    the last token of a character, but it counts all of them, and the text has their bytes.

    Returns None unless exactly one list of tokens fits.

    >>> find_lost_tokens("歪", last=103, count=1)
    [4093]
    """
    spelled, ending = text.encode(), text_of(last)
    if not spelled.endswith(ending):
        return None
    ways = list(_ways(spelled[: len(spelled) - len(ending)], 0, count))
    return ways[0] if len(ways) == 1 else None


def text_of(token: int) -> bytes:
    """Return the bytes that the server writes for a token; special tokens have none."""
    return load_vocabulary()[token] if token < FIRST_SPECIAL else b""


def _ways(spelled: bytes, start: int, count: int) -> Iterator[list[int]]:
    """Yield all lists of `count` tokens for the bytes from `start` on."""
    if count == 0:
        if start == len(spelled):
            yield []
        return
    for end in range(start + 1, len(spelled) + 1):
        token = _ranks().get(spelled[start:end])
        if token is not None and _is_cut(spelled[:end]):
            yield from ([token, *rest] for rest in _ways(spelled, end, count - 1))


def _is_cut(spelled: bytes) -> bool:
    """Return whether a text ends inside a character; only then the server holds a token back."""
    try:
        spelled.decode()
    except UnicodeDecodeError:
        return True
    return False


@functools.cache
def _ranks() -> dict[bytes, int]:
    return load_vocabulary().ranks()
