"""The form that a request wants an answer in: `response_format` of Chat, `text.format`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..conversation.json_field import JsonField

__all__ = ["AnswerFormat", "read_answer_format"]


class AnswerFormat(NamedTuple):
    """JSON for an answer: any object, or what follows a schema, which has a name.

    Where it is strict, the schema has to be enforced.
    """

    name: str | None = None
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool = False

    def to_response_format(self) -> dict[str, Any]:
        """Write it as Chat Completions has it."""
        if self.name is None:
            return {"type": "json_object"}
        wanted: dict[str, Any] = {
            "name": self.name,
            "schema": self.schema or {},
            "strict": self.strict,
        }
        if self.description is not None:
            wanted["description"] = self.description
        return {"type": "json_schema", "json_schema": wanted}


def read_answer_format(wanted: JsonField) -> AnswerFormat | None:
    """Read a format, whose fields may stand under ``json_schema``; None is for text.

    >>> read_answer_format(JsonField({"type": "json_schema", "name": "list", "schema": {}}))
    AnswerFormat(name='list', schema={}, description=None, strict=False)
    """
    if wanted.is_null:
        return None
    kind = wanted["type"]
    if kind.text() not in ("text", "json_object", "json_schema"):
        raise kind.unexpected("one of text, json_object, json_schema")
    if kind.value == "text":
        return None
    if kind.value == "json_object":
        return AnswerFormat()
    fields = wanted if _is_flat(wanted) else wanted["json_schema"]
    schema = fields["schema"]
    return AnswerFormat(
        name=fields["name"].text(),
        schema={} if schema.is_null else dict(schema.object()),
        description=fields["description"].optional_text(),
        strict=fields["strict"].value is True,
    )


def _is_flat(wanted: JsonField) -> bool:
    return wanted["json_schema"].is_null and not wanted["name"].is_null
