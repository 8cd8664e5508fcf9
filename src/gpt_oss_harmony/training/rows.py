"""One row of a data set to a conversation and its examples: harmony, Chat Completions or ShareGPT.

The weights of a row belong to its messages, so the reader returns the row's message for each
message of the conversation. Rows that would teach text that no model should write are rejected.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date as calendar_date
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from ..apis.chat_input import is_chat, read_chat
from ..apis.current_date import TODAY, current_date
from ..conversation.content import TextContent
from ..conversation.json_field import JsonField
from ..conversation.messages import Conversation, Message
from ..encoding import HarmonyEncoding
from ..errors import ConversationError
from .chat_rows import (
    WEIGHT_FIELDS,
    completed_chat,
    parsed_json,
    read_weight,
    sharegpt_as_chat,
    unlearnable,
)
from .examples import ReadExamples, TrainingExample, least_context_length, read_examples
from .options import TrainingOptions
from .sequence_plan import untrainable_reason

__all__ = [
    "ReadRow",
    "RejectedRow",
    "RowDates",
    "RowForm",
    "detect_form",
    "parse_line",
    "read_row",
    "row_examples",
    "stream_examples",
    "without_nulls",
]

RowForm: TypeAlias = Literal["harmony", "chat", "sharegpt"]


class RejectedRow(ConversationError):
    """A row has no examples, or examples that must not be trained on.

    `too_long` are the messages that do not fit into the context.
    """

    def __init__(self, problem: str, too_long: Sequence[int] = ()) -> None:
        super().__init__(problem)
        self.too_long = too_long


class ReadRow(NamedTuple):
    """A conversation and its form.

    `weights` has the messages whose weight the row gives, `unlearnable` the messages that must not
    be trained on, with the reason; both by the index of the message in the conversation.
    """

    form: RowForm
    conversation: Conversation
    weights: dict[int, float]
    unlearnable: dict[int, str]


def row_examples(
    raw: object,
    options: TrainingOptions | None = None,
    *,
    form: RowForm | None = None,
    start_date: str | None = None,
    encoding: HarmonyEncoding | None = None,
) -> tuple[ReadRow, ReadExamples]:
    """Read a row of parsed JSON and make its examples; see `read_row` for the arguments.

    Raises `ConversationError` for a row that cannot be read. Raises `RejectedRow` for a row without
    examples, or one that would teach text that no model should write, such as the note in place of
    an image, or ``<think>`` as text.
    """
    try:
        row = read_row(raw, form=form, start_date=start_date)
        made = read_examples(row.conversation, options, weights=row.weights, encoding=encoding)
    except RecursionError:
        raise RejectedRow("nested too deeply to be read") from None
    if made.too_long and not made.examples:
        limit = options and options.context_length
        least = least_context_length(
            row.conversation, options, weights=row.weights, encoding=encoding
        )
        problem = f"nothing fits in {limit} tokens; the shortest part of the row has {least:,}"
        raise RejectedRow(f"{problem} tokens; raise the context length", made.too_long)
    if not made.examples:
        name = "conversations" if row.form == "sharegpt" else "messages"
        if _row_object(raw).object().get(name) in ([], "[]"):
            raise RejectedRow(f"{name} is empty; write the messages of a conversation there")
        messages = row.conversation.messages
        reason = untrainable_reason(messages, options or TrainingOptions(), row.weights)
        raise RejectedRow(f"nothing to train on: {reason}")
    if row.unlearnable:
        trained = (
            part.message
            for example in made.examples
            for part in filter(example.is_trainable, example.messages)
        )
        reason = next((row.unlearnable[i] for i in trained if i in row.unlearnable), None)
        if reason is not None:
            raise RejectedRow(reason, made.too_long)
    return row, made


def stream_examples(
    rows: Iterable[object],
    options: TrainingOptions | None = None,
    *,
    form: RowForm | None = None,
    start_date: str | None = TODAY,
    on_rejected: Callable[[object, ConversationError], None] | None = None,
) -> Iterator[TrainingExample]:
    """Make the examples of rows one after the other, for trainers that do not read files.

    `start_date` is as in `PrepareSettings`; the default is today. `on_rejected` is called for each
    rejected row; without it, the row's `ConversationError` is raised.

    >>> rows = [{"messages": [{"role": "user", "content": "hi"},
    ...                       {"role": "assistant", "content": "ho"}]}]
    >>> [example.trainable_tokens for example in stream_examples(rows)]
    [5]
    """
    start_date = current_date(start_date)
    for raw in rows:
        try:
            _, made = row_examples(raw, options, form=form, start_date=start_date)
        except ConversationError as error:
            if on_rejected is None:
                raise
            on_rejected(raw, error)
        else:
            yield from made.examples


def read_row(raw: object, *, form: RowForm | None = None, start_date: str | None = None) -> ReadRow:
    """Read a row of parsed JSON; the form is detected unless it is given.

    `start_date` is the date in the system message of a chat, as `RowDates.parse` reads it. Raises
    `ConversationError`, which names the wrong field.

    >>> row = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}
    >>> read = read_row(row)
    >>> read.form, read.conversation.messages[-1].channel
    ('sharegpt', 'final')
    """
    row = _row_object(raw)
    form = form or detect_form(row.object())
    if form == "harmony":
        return _harmony_row(row)
    if start_date is not None:
        start_date = RowDates.parse(start_date).date_of(row.object())
    if form == "sharegpt":
        row = JsonField(sharegpt_as_chat(row))
    request = completed_chat(row)
    read = read_chat(request, conversation_start_date=start_date)
    result = ReadRow(form, read.conversation, {}, {})
    sources = [
        (read_weight(JsonField(message, f"messages[{index}]")), unlearnable(message))
        for index, message in enumerate(request["messages"])
    ]
    for index, source in enumerate(read.sources):
        if source is None:
            continue
        weight, reason = sources[source]
        if weight is not None:
            result.weights[index] = weight
        if reason is not None:
            result.unlearnable[index] = reason
    return result


def _row_object(raw: object) -> JsonField:
    """Return a row as an object; raises `ConversationError` for other values."""
    if not isinstance(raw, (Mapping, list)):
        kind = "null" if raw is None else "text" if isinstance(raw, str) else f"{raw!r:.40}"
        raise ConversationError(f"the row is {kind}; expected an object with messages")
    if isinstance(raw, list) and raw and isinstance(raw[0], Mapping) and "messages" in raw[0]:
        raise ConversationError("the row is a list of rows; write each of them on its own line")
    return JsonField({"messages": raw} if isinstance(raw, list) else raw)


def detect_form(row: Mapping[str, Any]) -> RowForm:
    """Return the form of a row by its messages; raises `ConversationError` if it has none."""
    field = JsonField(row)
    if row.get("conversations") is not None:
        shared = list(parsed_json(field["conversations"]).optional_items())
        if shared and "from" not in shared[0].object():
            raise field["conversations"].error(
                "the messages have no 'from'; rename the field 'conversations' to 'messages' if "
                "they have 'role' and 'content'"
            )
        if shared or row.get("messages") is None:
            return "sharegpt"
    if row.get("messages") is None:
        names = [repr(name) for name, value in row.items() if value is not None]
        fields = ", ".join(names[:8]) or "none"
        raise ConversationError(f"the row has no messages; its fields are {fields}; {_remedy(row)}")
    return "chat" if is_chat(parsed_json(field["messages"]).value) else "harmony"


_OTHER_FORMS = (
    ("instruction", "output"),  # Alpaca
    ("prompt", "completion"),
    ("prompt", "response"),
    ("question", "answer"),
)
"""Fields in which rows of other forms have what the user and the assistant say."""


def _remedy(row: Mapping[str, Any]) -> str:
    """Say how to write a row of another form as a conversation."""
    if {"chosen", "rejected"} <= row.keys():
        return "preference pairs are not read; write the chosen conversation as 'messages'"
    user, assistant = "...", "..."
    for question, answer in _OTHER_FORMS:
        if {question, answer} <= row.keys():
            user, assistant = f"<{question}>", f"<{answer}>"
            break
    return (
        f'write it as {{"messages": [{{"role": "user", "content": "{user}"}}, '
        f'{{"role": "assistant", "content": "{assistant}"}}]}}'
    )


def parse_line(line: bytes | str) -> Any:
    """Parse a line of JSON as `json.loads` does, but faster.

    >>> parse_line(b'{"a": 1}')
    {'a': 1}
    """
    try:
        return from_json(line)
    except ValueError:
        return json.loads(line)  # reads more, such as half of a surrogate pair, or explains why not


def without_nulls(value: Any) -> Any:
    """Leave out null fields of objects, because columns store missing fields as null.

    >>> without_nulls([{"city": "Rome", "unit": None}])
    [{'city': 'Rome'}]
    """
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


# Harmony

_MESSAGES = TypeAdapter(list[Message])


def _harmony_row(row: JsonField) -> ReadRow:
    """Read a row in harmony's own JSON without any changes.

    All messages are validated at once. If that fails, they are read one by one, which takes twice
    as long, accepts a few more spellings, and names the wrong field.
    """
    items = parsed_json(row["messages"])
    try:
        fields = []
        for raw in items.value:
            content = raw["content"]
            if isinstance(content, str):
                content = [TextContent(text=content)]
            else:
                for part in content:
                    part["type"]  # a part without a type could be read as another content
            fields.append({**raw, "author": raw, "content": content})  # others are ignored
        messages = _MESSAGES.validate_python(fields)
    except (LookupError, TypeError, AttributeError, ValidationError):
        messages = []
        for item in items.items():
            try:
                messages.append(Message.from_dict(dict(item.object())))
            except ConversationError as error:
                path = f"{item.path}.{error.field}" if error.field else item.path
                raise ConversationError(error.problem, field=path) from error
    weights = {
        index: weight
        for index, raw in enumerate(items.value)
        if not WEIGHT_FIELDS.isdisjoint(raw)
        and (weight := read_weight(JsonField(raw, f"{items.path}[{index}]"))) is not None
    }
    return ReadRow("harmony", Conversation.from_messages(messages), weights, {})


# Dates

_RANGE = re.compile(r"(\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_FIELD = "field:"


@dataclass(frozen=True)
class RowDates:
    """The current date in the prompt of each row: one date, one of a range, or the row's own.

    >>> dates = RowDates.parse("2025-01-01..2025-12-31")
    >>> dates.date_of({"messages": "a"}), dates.date_of({"messages": "b"})
    ('2025-04-06', '2025-04-30')
    >>> RowDates.parse("field:created").date_of({"created": 1751068800})
    '2025-06-28'
    """

    first: calendar_date | None = None
    days: int = 1
    field: str | None = None

    @classmethod
    @functools.lru_cache(maxsize=16)
    def parse(cls, text: str) -> RowDates:
        """Read ``YYYY-MM-DD``, ``YYYY-MM-DD..YYYY-MM-DD`` or ``field:NAME``.

        A range assigns one of its days to each row, always the same one. Raises `ValueError`.
        """
        if text.startswith(_FIELD) and text != _FIELD:
            return cls(field=text.removeprefix(_FIELD))
        bounds = _RANGE.fullmatch(text)
        if bounds is None and not _DAY.fullmatch(text):
            raise ValueError(
                f"{text!r} is not a date; write YYYY-MM-DD, YYYY-MM-DD..YYYY-MM-DD or {_FIELD}NAME"
            )
        first, last = map(calendar_date.fromisoformat, bounds.groups() if bounds else (text, text))
        if last < first:
            raise ValueError(f"{text!r} ends before it begins; swap the two dates")
        return cls(first, (last - first).days + 1)

    def date_of(self, row: Mapping[str, Any]) -> str:
        """Return the date of a row; raises `ConversationError` if its field has no date."""
        if self.first is None:
            return self._date_in(JsonField(row.get(self.field or ""), self.field or ""))
        if self.days == 1:
            return self.first.isoformat()
        text = json.dumps(row, sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return (self.first + timedelta(int.from_bytes(digest, "big") % self.days)).isoformat()

    @staticmethod
    def _date_in(field: JsonField) -> str:
        """Read a date, a time in ISO 8601, or seconds since 1970, as they occur in columns."""
        value = field.value
        try:
            if isinstance(value, str):
                return calendar_date.fromisoformat(value[:10]).isoformat()
            if isinstance(value, calendar_date):  # or a datetime
                return value.isoformat()[:10]
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return datetime.fromtimestamp(value, timezone.utc).date().isoformat()
        except (ValueError, OverflowError, OSError):
            pass  # not a date, which is the error below
        raise field.unexpected("a date, such as 2025-06-28, or seconds since 1970")
