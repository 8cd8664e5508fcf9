"""What the bodies of all requests share: how they are read, and how errors name the place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import ConversationError

__all__ = [
    "Metadata",
    "RequestBody",
    "field_path",
    "is_deeper",
    "read_body",
    "validation_problem",
]

_Body = TypeVar("_Body", bound="RequestBody")

Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]
"""Up to 16 pairs of a key (64 characters) and a text (512), for the client's own use."""


NESTING_LIMIT = 200
"""What is stored and repeated has to be written as JSON again, which Python does by recursion."""


class RequestBody(BaseModel):
    """A request; unknown fields are ignored, and null is the same as leaving a field out."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _can_be_written_again(cls, data: Any) -> Any:
        for name, value in data.items() if isinstance(data, dict) else ():
            if is_deeper(value, NESTING_LIMIT):
                raise ValueError(f"{name} is nested deeper than {NESTING_LIMIT} levels; flatten it")
        return data


def read_body(body: type[_Body], raw: object) -> _Body:
    """Read parsed JSON; raise `ConversationError`, which names the field at fault.

    >>> from openai_harmony.apis import ChatRequest
    >>> read_body(ChatRequest, {"messages": [{}], "n": 0})
    Traceback (most recent call last):
    openai_harmony.errors.ConversationError: n: Input should be greater than or equal to 1
    """
    if not isinstance(raw, Mapping):
        raise ConversationError(f"expected an object, found {type(raw).__name__}")
    try:
        return body.model_validate(raw)
    except ValidationError as error:
        path, problem = validation_problem(error.errors(include_url=False))
        raise ConversationError(problem, field=path) from None


def validation_problem(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Say what pydantic found first: the field's path, and the problem."""
    first = errors[0]
    return field_path(first["loc"]), str(first["msg"]).removeprefix("Value error, ")


def field_path(location: Sequence[str | int]) -> str:
    """Write a place as errors name it.

    >>> field_path(("input", 0, "content"))
    'input[0].content'
    """
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":  # pydantic's mark for the key of an object itself
            path += f".{part}" if path else part
    return path


def is_deeper(value: object, limit: int) -> bool:
    """Whether lists and objects stand in each other more often than that."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
