"""Sampled tokens to the text of a completion, as it grows."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...encoding import load_harmony_encoding
from ...engines.engine import FinishReason, SampledToken
from ...tokens.special_tokens import SPECIAL_TEXTS
from ..turns.stop_texts import StopTexts
from .body import CompletionBody

__all__ = ["CompletionPiece", "CompletionText", "joined_logprobs"]

_LEAST = -9999.0
"""Stands for a probability of nothing, which JSON has no logarithm of."""

_new_decoder = codecs.getincrementaldecoder("utf-8")


class CompletionPiece(NamedTuple):
    """What a token adds; `finish` and `cached_tokens` are told with the last."""

    token: int
    text: str
    logprobs: dict[str, list[Any]] | None
    finish: FinishReason | None = None
    cached_tokens: int = 0


class CompletionText:
    """Reads one completion; `start` is the number of characters that are echoed before it."""

    def __init__(self, body: CompletionBody, start: int = 0) -> None:
        self._body = body
        self._stop = StopTexts(body.stop_texts) if body.stop_texts else None
        self._bytes_of = load_harmony_encoding("HarmonyGptOss").tokenizer.decode_bytes
        self._decoder = _new_decoder("replace")
        self._offset = start
        self._has_logprobs = body.logprobs is not None

    def take(self, sampled: SampledToken) -> CompletionPiece:
        """Read a token; after a piece with `finish` there is no more to read."""
        logprobs = self._logprobs(sampled) if self._has_logprobs else None
        is_last = sampled.finish_reason is not None
        text = self._text(sampled.token, is_last=is_last)
        self._offset += len(text)
        finish = sampled.finish_reason
        if self._stop is not None:
            text = self._stop.feed(text)
            if self._stop.found:
                finish = FinishReason.STOP
            elif is_last:
                text += self._stop.rest()
        return CompletionPiece(sampled.token, text, logprobs, finish, sampled.cached_tokens or 0)

    def _text(self, token: int, *, is_last: bool) -> str:
        """Return what can be shown now; half a character waits for its other half."""
        special = SPECIAL_TEXTS.get(token)
        if special is None:
            return self._decoder.decode(self._bytes_of([token]), is_last)
        text = self._decoder.decode(b"", True)
        return text + special if self._body.shows_special_tokens else text

    def _logprobs(self, sampled: SampledToken) -> dict[str, list[Any]]:
        """Write the token as the API does; the sampled one is always among the likeliest."""
        own = max(sampled.logprob or 0.0, _LEAST)
        name = self._name(sampled.token)
        top = {self._name(token): max(value, _LEAST) for token, value in sampled.top_logprobs or ()}
        return {
            "text_offset": [self._offset],
            "token_logprobs": [own],
            "tokens": [name],
            "top_logprobs": [{**top, name: own}],
        }

    def _name(self, token: int) -> str:
        if self._body.return_tokens_as_token_ids:
            return f"token_id:{token}"
        data = self._bytes_of([token])
        try:
            return data.decode()
        except UnicodeDecodeError:  # a part of a character
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def joined_logprobs(pieces: Iterable[CompletionPiece]) -> dict[str, list[Any]] | None:
    """Join the log-probabilities of a completion; None where they were not asked for."""
    joined: dict[str, list[Any]] | None = None
    for piece in pieces:
        for name, values in (piece.logprobs or {}).items():
            joined = joined or {}
            joined.setdefault(name, []).extend(values)
    return joined
