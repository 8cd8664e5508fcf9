"""The body of requests to continue harmony prompts, and their prompts as tokens.

The fields of the request are those of the API, with additions of vLLM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from ...encoding import load_harmony_encoding
from ...engines.engine import Sampling
from ...errors import ConversationError
from ...tokens.special_tokens import SPECIAL_TEXTS, VOCABULARY_SIZE
from ..request_body import OWNER, Ignored, NoBias, Refused, SamplingFields, StreamOptions

_MAX_CHOICES = 128


def _as_prompts(value: Any) -> Any:
    """Wrap a single prompt, text or token ids, in a list."""
    if isinstance(value, str):
        return [_as_prompt(value)]
    if not isinstance(value, list):
        raise ValueError("expected text, token ids, or a list of one of them")
    return [value] if value and all(map(_is_token, value)) else value


def _as_prompt(value: Any) -> Any:
    """Check one prompt; its place in a list is that of the error."""
    is_tokens = isinstance(value, list) and all(map(_is_token, value))
    if not isinstance(value, str) and not is_tokens:
        raise ValueError("it is neither text nor a list of token ids")
    if not value:
        raise ValueError("the prompt is empty; send at least one token")
    return value


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_TEXT = {"type": "string", "minLength": 1}
_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}

Prompts: TypeAlias = Annotated[
    "list[Annotated[str | list[int], BeforeValidator(_as_prompt)]]",
    BeforeValidator(_as_prompts),
    WithJsonSchema(
        {
            "anyOf": [
                _TEXT,
                {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 128},
                _TOKENS,
                {"type": "array", "items": _TOKENS, "minItems": 1, "maxItems": 128},
            ]
        }
    ),
    Field(min_length=1, max_length=128),
]
"""Prompts as text or token ids; a single prompt needs no list."""


class CompletionRequest(SamplingFields):
    """A request to continue harmony prompts, which are text or token ids.

    Text is encoded with its special tokens, because prompts here are exactly what the model reads.
    """

    prompt: Prompts
    stream_options: StreamOptions | None = None
    n: int | None = Field(
        default=None, ge=1, le=128, description="The number of choices for each prompt."
    )
    best_of: int | None = Field(default=None, ge=1, le=128, description="Must be n.")
    max_tokens: int | None = Field(
        default=None, ge=0, description="0 samples nothing: `echo` then shows the prompt alone."
    )
    logprobs: int | None = Field(default=None, ge=0, le=20)
    echo: bool | None = Field(default=None, description="Whether the text begins with the prompt.")
    suffix: Annotated[Any, Refused("the model can only continue texts; leave it out")] = None
    logit_bias: NoBias = None
    user: Annotated[str | None, Ignored(OWNER)] = None
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

    @field_validator("best_of")
    @classmethod
    def _shows_all(cls, best_of: Any, info: ValidationInfo) -> Any:
        if best_of is not None and best_of != (info.data.get("n") or 1):
            raise ValueError("the server does not compare choices; leave it out")
        return best_of

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
    def includes_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def shows_special_tokens(self) -> bool:
        """Whether the text contains special tokens."""
        return self.skip_special_tokens is False

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """Return the settings for sampling each choice, unless `max_tokens` is 0."""
        sampling = self.settings(
            defaults or Sampling(), max_tokens=self.max_tokens or None, logprobs=self.logprobs
        )
        stop_tokens = frozenset(self.stop_token_ids or ())
        if not self.ignore_eos:
            stop_tokens |= sampling.stop_tokens
        grammar = (self.structured_outputs or {}).get("grammar")
        return replace(sampling, stop_tokens=stop_tokens, grammar=grammar)


class CompletionPrompt(NamedTuple):
    """A prompt: its tokens, and the text that repeats it if the request asks for that."""

    tokens: list[int]
    echo: str = ""


def completion_prompts(request: CompletionRequest) -> list[CompletionPrompt]:
    """Encode the prompts; each has `n` choices. Raises `ConversationError`.

    >>> completion_prompts(CompletionRequest(prompt="<|start|>assistant"))
    [CompletionPrompt(tokens=[200006, 173781], echo='')]
    """
    encoding = load_harmony_encoding("HarmonyGptOss")
    prompts: list[CompletionPrompt] = []
    for prompt in request.prompt:
        if isinstance(prompt, str):
            tokens, echo = encoding.encode(prompt, allowed_special="all"), prompt
        else:
            unknown = next((token for token in prompt if token >= VOCABULARY_SIZE), None)
            if unknown is not None:
                raise ConversationError(
                    f"the token {unknown} is outside the vocabulary (0 to {VOCABULARY_SIZE - 1})",
                    field="prompt",
                )
            shown = prompt
            if not request.shows_special_tokens:
                shown = [token for token in prompt if token not in SPECIAL_TEXTS]
            tokens, echo = prompt, encoding.decode(shown)
        prompts.append(CompletionPrompt(tokens, echo if request.echo else ""))
    return prompts
