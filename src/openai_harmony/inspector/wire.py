"""What the page sends: bodies of requests, checked. `page/wire.d.ts` says the same to the page."""

from __future__ import annotations

import re
from datetime import date as calendar_date
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, field_validator

from ..apis.request_body import RequestBody
from ..config import HeaderStyle, SchemaDialect

__all__ = [
    "AllowedBody",
    "ExportBody",
    "Form",
    "FormName",
    "ParseBody",
    "RenderBody",
    "SourceBody",
]

Form: TypeAlias = Literal["harmony", "chat", "responses"]

FormName: TypeAlias = Literal["auto", "harmony", "chat", "responses"]


class _Body(RequestBody):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class SourceBody(_Body):
    """A conversation, or a request, in one of the forms; `date` is for requests."""

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
        if value is None:
            return None
        try:
            # Later Pythons read other ISO formats as well; the model knows this one.
            if re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII):
                return calendar_date.fromisoformat(value).isoformat()
        except ValueError:
            pass  # a day that no month has
        raise ValueError(f"{value!r:.40} is no date; write it as YYYY-MM-DD")


class RenderBody(SourceBody):
    """A source, and how it is rendered."""

    ending: Literal["completion", "training"] = "completion"
    header_style: HeaderStyle = "guide"
    schema_dialect: SchemaDialect = "typescript"
    reasoning: Literal["by-turn", "reference", "keep"] = "by-turn"
    example: int = Field(default=0, ge=0)


class ExportBody(RenderBody):
    """A source to take away, and as what."""

    format: Literal["json", "python", "vector"]


class ParseBody(_Body):
    """Token ids or marked-up text; `role` speaks first, `tools` are declared recipients."""

    input: str
    role: Literal["assistant", "user", "system", "developer", "tool"] | None = "assistant"
    tools: list[str] = Field(default_factory=list)


class AllowedBody(SourceBody):
    """A source, a completion of it, and from which token on the steps are asked for."""

    completion: str = ""
    tool_choice: Any = None
    reasoning: bool = True
    start: int = Field(default=0, ge=0, alias="from")
