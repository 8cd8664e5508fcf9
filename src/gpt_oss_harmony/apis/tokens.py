"""Tokens of requests and texts: the forms of ``/v1/tokens`` and of vLLM's routes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from .request_body import RequestBody


class RenderedSegment(TypedDict):
    """A part of the message with this index; `kind` is header, body or stop."""

    kind: str
    message: int
    text: str
    tokens: list[int]


class RenderedTurn(TypedDict):
    """A prompt as ``harmony render --output json`` prints it, and the number of its tokens."""

    text: str
    tokens: list[int]
    segments: list[RenderedSegment]
    count: int


class ParseRequest(RequestBody):
    """The input of the parser: `tokens` or `text`."""

    tokens: list[int] | None = Field(default=None, description="Token ids.")
    text: str | None = Field(
        default=None, description="Text with special tokens, such as <|channel|>."
    )
    role: Literal["assistant", "user", "system", "developer", "tool"] | None = Field(
        default="assistant",
        description="The first author, if the prompt ended in its role; null for a whole prompt.",
    )
    tools: list[str] | None = Field(
        default=None,
        description="The recipients that the conversation declares, such as functions.now.",
    )
    strict: bool | None = Field(
        default=None,
        description="True makes damaged tokens an error; false repairs them.",
    )

    @model_validator(mode="after")
    def _has_one_input(self) -> ParseRequest:
        if (self.tokens is None) == (self.text is None):
            raise ValueError("send either tokens or text")
        return self


class RecoveryJson(TypedDict):
    """A repair at the token with the index `position`."""

    kind: str
    position: int
    text: str


class ParsedTokens(TypedDict):
    """The output of ``harmony parse --output json``, and the number of tokens.

    `messages` are harmony JSON; `incomplete` is true if the tokens end inside a message.
    """

    messages: list[dict[str, Any]]
    incomplete: bool
    recoveries: list[RecoveryJson]
    count: int


class TokenizeRequest(RequestBody):
    """A text; its special tokens are read as such."""

    model: str | None = None
    prompt: str
    add_special_tokens: bool | None = Field(
        default=None, description="The encoding adds no tokens to a text."
    )
    return_token_strs: bool | None = Field(
        default=None, description="Whether to return the texts of the tokens, too."
    )


class TokenizedText(TypedDict):
    """The tokens of a text, their number, and the length of the model's context."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeRequest(RequestBody):
    """Tokens."""

    model: str | None = None
    tokens: list[int]


class DetokenizedText(TypedDict):
    """The text of the tokens, with special tokens."""

    prompt: str


class TokenizerInfo(TypedDict):
    """The encoding, and the tokens that harnesses ask for."""

    tokenizer_class: str
    vocab_size: int
    model_max_length: int
    bos_token: str
    eos_token: str
    pad_token: str
