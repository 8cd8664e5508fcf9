"""A request to ``/v1/completions``, its choices, and sampled tokens to their text.

The fields of the request are those of the API, with additions of vLLM.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from ...apis.requests import CompletionRequest
from ...encoding import load_harmony_encoding
from ...engines.engine import FinishReason, SampledToken, Sampling
from ...tokens.special_tokens import SPECIAL_TEXTS, VOCABULARY_SIZE
from ..auth.api_keys import Caller
from ..generation.events import LEAST_LOGPROB
from ..generation.sampling import choice_sampling, engine_slot, sample_choices
from ..generation.stop_texts import StopTexts
from ..http.errors import ApiError
from ..services import Services

__all__ = [
    "ChoicePlan",
    "CompletionBody",
    "CompletionPiece",
    "CompletionText",
    "choice_plans",
    "joined_logprobs",
    "sampled_choices",
]

_MAX_CHOICES = 128


class CompletionBody(CompletionRequest):
    """A request for completions.

    Text is encoded with its special tokens, because prompts here are exactly what the model reads.
    """

    skip_special_tokens: bool | None = Field(
        default=None,
        description="Whether special tokens are left out of the text; true by default.",
    )
    return_token_ids: bool | None = Field(
        default=None, description="Whether choices have `prompt_token_ids` and `token_ids`."
    )
    return_tokens_as_token_ids: bool | None = Field(
        default=None, description="Whether log-probabilities name tokens as `token_id:ID`."
    )
    stop_token_ids: list[int] | None = Field(
        default=None, description="Tokens that end the completion, beside <|return|> and <|call|>."
    )
    ignore_eos: bool | None = Field(
        default=None, description="Whether only `stop_token_ids` end the completion."
    )
    structured_outputs: dict[str, Any] | None = Field(
        default=None,
        description="`grammar`: a grammar for the completion, in a form that llguidance reads.",
        json_schema_extra={
            "properties": {"grammar": {"type": "string"}},
            "additionalProperties": False,
        },
    )

    @field_validator("structured_outputs")
    @classmethod
    def _is_a_grammar(cls, outputs: Any) -> Any:
        if outputs and (outputs.keys() != {"grammar"} or not isinstance(outputs["grammar"], str)):
            raise ValueError("only 'grammar', a text, is supported; for JSON, send a chat request")
        return outputs

    @field_validator("n")
    @classmethod
    def _is_no_flood(cls, n: Any, info: Any) -> Any:
        prompts = len(info.data.get("prompt") or ())
        if n is not None and n * prompts > _MAX_CHOICES:
            raise ValueError(
                f"{prompts} prompts with {n} choices each are more than {_MAX_CHOICES}; send fewer"
            )
        return n

    @property
    def shows_special_tokens(self) -> bool:
        """Whether the text contains special tokens."""
        return self.skip_special_tokens is False

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """Return the sampling settings of each choice."""
        sampling = super().sampling(defaults)
        stop_tokens = frozenset(self.stop_token_ids or ())
        if not self.ignore_eos:
            stop_tokens |= sampling.stop_tokens
        grammar = (self.structured_outputs or {}).get("grammar")
        return replace(sampling, stop_tokens=stop_tokens, grammar=grammar)


class ChoicePlan(NamedTuple):
    """A choice before it is sampled: its prompt as tokens, and the text that echoes it."""

    position: int
    prompt: list[int]
    echo: str = ""


def choice_plans(body: CompletionBody) -> list[ChoicePlan]:
    """Encode the prompts; the choices of a prompt follow each other."""
    plans: list[ChoicePlan] = []
    for prompt in body.prompt:
        tokens, echo = _encoded(prompt, body)
        for _ in range(body.n or 1):
            plans.append(ChoicePlan(len(plans), tokens, echo if body.echo else ""))
    return plans


def _encoded(prompt: str | list[int], body: CompletionBody) -> tuple[list[int], str]:
    """Return the tokens of a prompt, and the text that echoes it."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    if isinstance(prompt, str):
        return encoding.encode(prompt, allowed_special="all"), prompt
    unknown = next((token for token in prompt if token >= VOCABULARY_SIZE), None)
    if unknown is not None:
        problem = f"the token {unknown} is outside the vocabulary (0 to {VOCABULARY_SIZE - 1})"
        raise ApiError(400, problem, param="prompt", code="invalid_value")
    echoed = prompt
    if not body.shows_special_tokens:
        echoed = [token for token in prompt if token not in SPECIAL_TEXTS]
    return prompt, encoding.decode(echoed)


def sampled_choices(
    services: Services, caller: Caller, body: CompletionBody, plans: list[ChoicePlan]
) -> AsyncGenerator[tuple[int, CompletionPiece], None]:
    """Sample all choices at once; a request is refused as a whole, or not at all."""
    sampling, count = body.sampling(), body.n or 1
    choices = [
        _choice(services, caller, body, plan, choice_sampling(sampling, plan.position % count))
        for plan in plans
    ]
    return sample_choices(choices, prompt_field="prompt")


async def _choice(
    services: Services,
    caller: Caller,
    body: CompletionBody,
    plan: ChoicePlan,
    sampling: Sampling,
) -> AsyncGenerator[CompletionPiece, None]:
    reader = CompletionText(body, start=len(plan.echo))
    scored: list[SampledToken] | None = None
    is_first = plan.position == 0
    slot = engine_slot(
        services, caller, plan.prompt, sampling, is_first=is_first, operation="text_completion"
    )
    async with slot as (tokens, metrics):
        if body.echo and body.logprobs is not None:
            scored = await services.engine.score(plan.prompt, body.logprobs)
        if body.max_tokens == 0:
            logprobs = None if scored is None else reader.with_prompt(scored, None)
            metrics.finish(FinishReason.LENGTH)
            yield CompletionPiece(None, "", logprobs, FinishReason.LENGTH)
            return
        async for sampled in tokens:
            piece = reader.take(sampled)._replace(is_repetition=metrics.is_repetition)
            if scored is not None:
                piece = piece._replace(logprobs=reader.with_prompt(scored, piece.logprobs))
                scored = None
            if piece.finish is not None:
                metrics.finish(piece.finish, cached=piece.cached_tokens)
            yield piece
            if piece.finish is not None:
                return


_new_decoder = codecs.getincrementaldecoder("utf-8")


class CompletionPiece(NamedTuple):
    """The addition of a token; the last has `finish` and `cached_tokens`.

    `token` is None for a completion of no tokens, which has one piece.
    """

    token: int | None
    text: str
    logprobs: dict[str, list[Any]] | None
    finish: FinishReason | None = None
    cached_tokens: int = 0
    is_repetition: bool = False


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
        """Return the complete text; the bytes of an incomplete character wait."""
        special = SPECIAL_TEXTS.get(token)
        if special is None:
            return self._decoder.decode(self._bytes_of([token]), is_last)
        text = self._decoder.decode(b"", True)
        return text + special if self._body.shows_special_tokens else text

    def _logprobs(self, sampled: SampledToken) -> dict[str, list[Any]]:
        """Write the token as the API does; the sampled one is always among the likeliest."""
        own = max(sampled.logprob or 0.0, LEAST_LOGPROB)
        name = self._name(sampled.token)
        top = {
            self._name(token): max(value, LEAST_LOGPROB)
            for token, value in sampled.top_logprobs or ()
        }
        return {
            "text_offset": [self._offset],
            "token_logprobs": [own],
            "tokens": [name],
            "top_logprobs": [{**top, name: own}],
        }

    def with_prompt(
        self, scored: Sequence[SampledToken], first: Mapping[str, list[Any]] | None
    ) -> dict[str, list[Any]]:
        """Put the tokens of the prompt before those of the first piece; the very first has null."""
        text = CompletionText(self._body)
        entries: list[Mapping[str, list[Any]] | None] = []
        for sampled in scored:
            entry = text._logprobs(sampled)
            if sampled.logprob is None:
                entry |= {"token_logprobs": [None], "top_logprobs": [None]}
            text._offset += len(text._text(sampled.token, is_last=False))
            entries.append(entry)
        return joined_logprobs([*entries, first]) or {}

    def _name(self, token: int) -> str:
        if self._body.return_tokens_as_token_ids:
            return f"token_id:{token}"
        data = self._bytes_of([token])
        try:
            return data.decode()
        except UnicodeDecodeError:  # a part of a character
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def joined_logprobs(
    entries: Iterable[Mapping[str, list[Any]] | None],
) -> dict[str, list[Any]] | None:
    """Join log-probabilities of a completion; None if they were not requested."""
    joined: dict[str, list[Any]] = {}
    for entry in entries:
        for name, values in (entry or {}).items():
            joined.setdefault(name, []).extend(values)
    return joined or None
