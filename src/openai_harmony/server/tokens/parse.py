"""Tokens, or marked-up text, as the messages that they mean."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ...apis.request_body import RequestBody
from ...encoding import load_harmony_encoding
from ...errors import TokenError, VocabularyError
from ...parsing.parser import StreamableParser
from ...tokens.tokenizer import token_ids
from ..api_error import ApiError

__all__ = ["ParseRequest", "ParsedTokens", "parsed_tokens"]


class ParseRequest(RequestBody):
    """What is to be parsed: `tokens` or `text`."""

    tokens: list[int] | None = Field(default=None, description="Token ids.")
    text: str | None = Field(
        default=None, description="Text with special tokens, such as <|channel|>."
    )
    role: Literal["assistant", "user", "system", "developer", "tool"] | None = Field(
        default="assistant",
        description="Who speaks first, as it was in the prompt; null for a whole prompt.",
    )
    tools: list[str] | None = Field(
        default=None,
        description="The recipients that the conversation declares, such as functions.now.",
    )
    strict: bool | None = Field(
        default=None,
        description="Whether broken markup is an error; otherwise it is read for what was meant.",
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
    """What ``harmony parse --output json`` prints, and the number of tokens.

    `messages` are harmony JSON; `incomplete` tells that the tokens end inside a message.
    """

    messages: list[dict[str, Any]]
    incomplete: bool
    recoveries: list[RecoveryJson]
    count: int


def parsed_tokens(request: ParseRequest) -> ParsedTokens:
    """Parse; it may take a while. Raises `ApiError` for what is broken, in strict mode."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    strict = bool(request.strict)
    parser = StreamableParser(encoding, request.role, strict=strict, tools=request.tools or ())
    tokens = request.tokens
    if tokens is None:
        tokens = encoding.encode(request.text or "", allowed_special="all")
    field = "tokens" if request.text is None else "text"
    try:
        parser.process_many(token_ids(tokens) if strict else tokens)
        parser.process_eos()
    except TokenError as error:
        problem = f"{error}; with strict false it is read for what the model meant"
        raise ApiError(400, problem, param=field, code="invalid_markup") from error
    except VocabularyError as error:
        raise ApiError(400, str(error), param=field, code="invalid_value") from error
    return {
        "messages": [message.to_dict() for message in parser.messages],
        "incomplete": parser.incomplete,
        "recoveries": [
            {"kind": kind.value, "position": position, "text": text}
            for kind, position, text in parser.recoveries
        ],
        "count": len(tokens),
    }
