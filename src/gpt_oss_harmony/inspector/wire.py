"""The data that the page and its API exchange: bodies of requests, lists of tokens, errors.

`page/wire.d.ts` declares the same types for the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, field_validator
from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from ..apis.current_date import iso_date
from ..apis.request_body import RequestBody
from ..config import HeaderStyle, SchemaDialect
from ..encoding import load_harmony_encoding
from ..errors import ConversationError, HarmonyError
from ..tokens.special_tokens import VOCABULARY_SIZE


class InspectorError(HarmonyError):
    """A response with an HTTP status of 400 or more; `param` is the path of the field at fault."""

    def __init__(self, status: int, problem: str, *, param: str | None = None) -> None:
        super().__init__(problem)
        self.status = status
        self.problem = problem
        self.param = param

    @classmethod
    def of(cls, error: HarmonyError) -> InspectorError:
        """Make a response of an error of the library, which is about the request.

        >>> InspectorError.of(ConversationError("expected text", field="messages[0]")).param
        'messages[0]'
        """
        if isinstance(error, InspectorError):
            return error
        if isinstance(error, ConversationError):
            return cls(422, error.problem, param=error.field or None)
        return cls(422, str(error), param=getattr(error, "pointer", "") or None)

    def body(self) -> dict[str, Any]:
        """Return the JSON of the response."""
        return {"error": {"message": self.problem, "param": self.param}}


class TokenList(TypedDict):
    """Token ids, with the text or the bytes of each.

    A token that is not valid UTF-8 by itself has None in `texts`, and its bytes in `bytes`, by its
    index. An id outside the vocabulary has no bytes.
    """

    ids: list[int]
    texts: list[str | None]
    bytes: dict[str, str]


def token_list(tokens: Sequence[int]) -> TokenList:
    """List tokens.

    >>> token_list([3686, 162, 200008])["texts"], token_list([162])["bytes"]
    (['hi', None, '<|message|>'], {'0': 'e6'})
    """
    pieces = load_harmony_encoding("HarmonyGptOss").tokenizer.pieces
    spelled = {
        token: pieces[token] if 0 <= token < VOCABULARY_SIZE else b"" for token in set(tokens)
    }
    texts: dict[int, str | None] = {}
    for token, piece in spelled.items():
        try:
            texts[token] = piece.decode() or None
        except UnicodeDecodeError:
            texts[token] = None
    return {
        "ids": list(tokens),
        "texts": [texts[token] for token in tokens],
        "bytes": {
            str(index): spelled[token].hex(" ")
            for index, token in enumerate(tokens)
            if texts[token] is None
        },
    }


Form: TypeAlias = Literal["harmony", "chat", "responses"]

FormName: TypeAlias = Literal["auto", "harmony", "chat", "responses"]


class _Body(RequestBody):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class SourceBody(_Body):
    """A conversation or a request, in one of the forms; `date` is only for requests."""

    source: dict[str, Any] | list[Any]
    form: FormName = "auto"
    date: str | None = None

    @field_validator("source", mode="before")
    @classmethod
    def _can_hold_messages(cls, value: object) -> object:
        if isinstance(value, (dict, list)):
            return value
        raise ValueError("expected an object with messages or an input, or a list of messages")

    @field_validator("date")
    @classmethod
    def _is_a_date(cls, value: str | None) -> str | None:
        return None if value is None else iso_date(value)


class RenderBody(SourceBody):
    """A source, and the options of its rendering."""

    ending: Literal["completion", "training"] = "completion"
    header_style: HeaderStyle = "guide"
    schema_dialect: SchemaDialect = "typescript"
    reasoning: Literal["by-turn", "reference", "keep"] = "by-turn"
    example: int = Field(default=0, ge=0)


class AppendBody(SourceBody):
    """A source, and messages in harmony JSON to append: a turn, a question, or a tool's result."""

    messages: list[dict[str, Any]]


class ExportBody(RenderBody):
    """A source, and the format of its export."""

    format: Literal["json", "python", "vector"]


class ParseBody(_Body):
    """Token ids or marked-up text; `role` is the first author, `tools` are declared recipients."""

    input: str
    role: Literal["assistant", "user", "system", "developer", "tool"] | None = "assistant"
    tools: list[str] = Field(default_factory=list)


class AllowedBody(SourceBody):
    """A source, a completion of it, and the token at which the requested steps begin."""

    completion: str = ""
    tool_choice: Any = None
    reasoning: bool = True
    start: int = Field(default=0, ge=0, alias="from")
