"""One row of a data set to a conversation and its examples, in any of the forms of `row_forms`.

The weights of a row belong to its messages, so the reader returns the row's message for each
message of the conversation. Rows that would teach text that no model should write are rejected.

If instructions follow an answer, that answer was given without them. So the row has an earlier
conversation, which ends before these instructions, and the answer is trained on there. The same
holds for tools that change after an answer.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date as calendar_date
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from ..apis.chat.input import read_chat
from ..apis.current_date import TODAY, current_date
from ..conversation.built_in_tools import BUILT_IN_TOOLS
from ..conversation.content import SystemContent, TextContent
from ..conversation.json_field import JsonField, ReadObject
from ..conversation.messages import Conversation, Message, Role
from ..errors import ConversationError
from .chat_rows import (
    WEIGHT_FIELDS,
    completed_chat,
    parsed_json,
    read_weight,
    template_arguments,
    unlearnable,
)
from .examples import ReadExamples, TrainingExample, least_context_length, read_examples
from .options import TrainingOptions
from .rendered_rows import read_rendered
from .row_checks import (
    REJECTED_FINDINGS,
    Finding,
    FindingKind,
    find_after_trained,
    find_in_opening,
    find_in_repairs,
    find_in_trained,
)
from .row_fields import unused_chat_fields, unused_harmony_fields
from .row_forms import RowForm, as_chat, detect_form, refuse_bad_answer
from .sequence_plan import untrainable_reason


class RejectedRow(ConversationError):
    """A row has no examples, or examples that must not be trained on.

    `too_long` are the messages that do not fit into the context.
    """

    def __init__(self, problem: str, too_long: Sequence[int] = ()) -> None:
        super().__init__(problem)
        self.too_long = too_long


class ReadRow(NamedTuple):
    """A conversation and its form.

    - `weights`: the messages whose weight the row gives; by their index in the conversation.
    - `unlearnable`: the messages that must not be trained on, with the reason; by their index.
    - `unused`: the names of the fields that the conversation does not have.
    - `wants_json`: whether the row requests JSON without a schema.
    - `repairs`: the kinds of `RecoveryKind` that a rendered text needed to be read.
    - `earlier`: the conversations up to each place where instructions or other tools follow an
      answer.
    """

    form: RowForm
    conversation: Conversation
    weights: dict[int, float]
    unlearnable: dict[int, str]
    unused: Sequence[str] = ()
    earlier: Sequence[EarlierConversation] = ()
    wants_json: bool = False
    repairs: Sequence[str] = ()

    def opening_of(self, index: int) -> list[Message]:
        """Return the instructions and tools with which a message is trained on."""
        holders = (
            conversation
            for conversation, _, offset in self.earlier
            if index - offset < len(conversation.messages)
        )
        messages = next(holders, self.conversation).messages
        return [m for m in messages if m.author.role in (Role.SYSTEM, Role.DEVELOPER)]


class EarlierConversation(NamedTuple):
    """The conversation of a row before later instructions or tools; its answers are learned here.

    A message has the index of the same message in the row's conversation, less `offset`, which is 1
    if only the row's conversation has a developer message.
    """

    conversation: Conversation
    weights: dict[int, float]
    offset: int


class RowExamples(NamedTuple):
    """The examples of a row, the messages that did not fit, and the findings that are accepted."""

    examples: list[TrainingExample]
    too_long: list[int]
    findings: Sequence[Finding] = ()


def row_examples(
    raw: object,
    options: TrainingOptions | None = None,
    *,
    form: RowForm | None = None,
    start_date: str | None = None,
    reject: Collection[FindingKind] = REJECTED_FINDINGS,
) -> tuple[ReadRow, RowExamples]:
    """Read a row of parsed JSON and make its examples; see `read_row` for the arguments.

    Raises `ConversationError` for a row that cannot be read. Raises `RejectedRow` for a row without
    examples, or one that would teach text that no model should write, such as the note in place of
    an image. `reject` are the kinds of `FINDINGS` for which a row is rejected.
    """
    options = options or TrainingOptions()
    try:
        row = read_row(raw, form=form, start_date=start_date)
        refuse_bad_answer(_row_object(raw))  # after the reading, which names pairs of answers
        made, trained = examples_of(row, options)
    except RecursionError:
        raise RejectedRow("nested too deeply to be read") from None
    if made.too_long and not made.examples:
        parts = _conversations(row, options)
        leasts = (
            least_context_length(part, options, weights=weights) for part, weights, _ in parts
        )
        least = min(filter(None, leasts))
        problem = f"nothing fits in {options.context_length} tokens; the shortest part of the row"
        raise RejectedRow(
            f"{problem} has {least:,} tokens; raise the context length", made.too_long
        )
    if not made.examples:
        name = "conversations" if row.form == "sharegpt" else "messages"
        if _row_object(raw).object().get(name) in ([], "[]"):
            raise RejectedRow(f"{name} is empty; write the messages of a conversation there")
        reason = untrainable_reason(row.conversation.messages, options, row.weights)
        raise RejectedRow(f"nothing to train on: {reason}")
    reason = next((row.unlearnable[i] for i in trained if i in row.unlearnable), None)
    if reason is not None:
        raise RejectedRow(reason, made.too_long)
    messages = row.conversation.messages
    findings = find_in_opening(messages)
    for index in trained:
        findings += find_in_trained(messages[index], row.opening_of(index))
        findings += find_after_trained(messages, index, wants_json=row.wants_json)
    findings += find_in_repairs(row.repairs)
    for finding in findings:
        if finding.kind in reject:
            raise RejectedRow(finding.problem, made.too_long)
    absent = list(_absent(messages, made))
    row = row._replace(unused=[*row.unused, *absent]) if absent else row
    return row, RowExamples(made.examples, made.too_long, findings)


def _absent(messages: Sequence[Message], made: ReadExamples) -> Iterator[str]:
    """Name the messages that are in no example, except those that are too long."""
    present = {part.message for example in made.examples for part in example.messages}
    last = max(present)
    for index in range(len(messages)):
        if index in present or index in made.too_long:
            continue
        if index > last:
            yield "messages after the last answer that is trained on"
        elif messages[index].channel == "analysis":
            yield "reasoning of earlier turns"


def _conversations(row: ReadRow, options: TrainingOptions) -> list[EarlierConversation]:
    """List the conversations whose answers are learned; the row's own comes last."""
    earlier = row.earlier if options.turns == "all" else ()
    return [*earlier, EarlierConversation(row.conversation, row.weights, 0)]


def examples_of(row: ReadRow, options: TrainingOptions) -> tuple[ReadExamples, list[int]]:
    """Make the examples of all conversations of a row, and list the messages that they train on.

    The indices are those of the row's conversation.
    """
    made = ReadExamples([], [])
    for conversation, weights, offset in _conversations(row, options):
        read = read_examples(conversation, options, weights=weights)
        made.examples.extend(example.with_offset(offset) for example in read.examples)
        made.too_long.extend(index + offset for index in read.too_long)
    trained = {
        part.message
        for example in made.examples
        for part in filter(example.is_trainable, example.messages)
    }
    return made, sorted(trained)


def stream_examples(
    rows: Iterable[object],
    options: TrainingOptions | None = None,
    *,
    form: RowForm | None = None,
    start_date: str | None = TODAY,
    reject: Collection[FindingKind] = REJECTED_FINDINGS,
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
            _, made = row_examples(raw, options, form=form, start_date=start_date, reject=reject)
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
    if form in ("harmony", "rendered"):
        return _harmony_row(row) if form == "harmony" else _rendered_row(row)
    dates = None if start_date is None else RowDates.parse(start_date)
    if dates is not None:
        start_date = dates.date_of(row.object())
    fields = ReadObject(as_chat(row, form).object())
    chat = JsonField(fields)
    fields["chat_template_kwargs"] = template_arguments(chat).value
    request = completed_chat(chat)
    for name in ("messages", "tools"):
        request[name] = [ReadObject(item) for item in request[name]]
    request["earlier_tools"] = [
        (end, [ReadObject(tool) for tool in tools]) for end, tools in request["earlier_tools"]
    ]
    settings = _SystemSettings.of(chat)
    row_weight = _row_weight(chat)
    if dates is not None and dates.field is not None:
        fields.get(dates.field)  # it was read above, from the row itself, which notes nothing
    sources = [
        (
            read_weight(JsonField(message, f"messages[{index}]"))
            if message["role"] == Role.ASSISTANT.value
            else None,
            unlearnable(message),
        )
        for index, message in zip(request["origins"], request["messages"], strict=True)
    ]
    result = _conversation_of(request, len(sources), start_date, settings)
    weights: dict[int, float] = {}
    unlearned: dict[int, str] = {}
    for index, source in enumerate(result.sources):
        if source is None:
            continue
        weight, reason = sources[source]
        if weight is not None or row_weight is not None:
            weight = 1.0 if weight is None else weight
            weights[index] = weight * (1.0 if row_weight is None else row_weight)
        if reason is not None:
            unlearned[index] = reason
    earlier: list[EarlierConversation] = []
    done = 0  # the messages of the request that were trained on before
    changes = [end for end, _ in request["earlier_tools"]]
    for end in later_openings(request["messages"], changes):
        before = _conversation_of(request, end, start_date, settings)
        offset = len(result.opening) - len(before.opening)
        own = {
            index - offset: weight
            for index, weight in weights.items()
            if index - offset < len(before.conversation.messages)
        }
        own.update(before.unweighted_before(done))  # learned in the conversation before
        earlier.append(EarlierConversation(before.conversation, own, offset))
        done = end
    weights.update(result.unweighted_before(done))
    name = "conversations" if row.object().get("conversations") is not None else "messages"
    unused = unused_chat_fields(fields, request, result.others, name)
    return ReadRow(
        form, result.conversation, weights, unlearned, unused, earlier, result.wants_json
    )


class _ReadRequest(NamedTuple):
    """A conversation, its opening, and the request's message of each other message, by index."""

    conversation: Conversation
    opening: Sequence[Message]
    sources: Sequence[int | None]
    others: Collection[str]
    """The types of tools that the model cannot have."""
    wants_json: bool

    def unweighted_before(self, end: int) -> dict[int, float]:
        """Give the weight 0 to the messages of the assistant before one of the request."""
        return {
            index: 0.0
            for index, source in enumerate(self.sources)
            if source is not None
            and source < end
            and self.conversation.messages[index].author.role is Role.ASSISTANT
        }


def later_openings(
    messages: Sequence[Mapping[str, Any]], changes: Collection[int] = ()
) -> Iterator[int]:
    """Yield the indices of instructions that follow an answer, if answers lie between them.

    `changes` are the indices of messages from which on there are other tools; they count, too.
    """
    has_spoken = False
    for index, message in enumerate(messages):
        begins = index in changes or message["role"] in (Role.SYSTEM.value, Role.DEVELOPER.value)
        if begins and has_spoken:
            yield index
            has_spoken = False
        has_spoken = has_spoken or message["role"] == Role.ASSISTANT.value


def _conversation_of(
    request: Mapping[str, Any], end: int, start_date: str | None, settings: _SystemSettings
) -> _ReadRequest:
    """Read the messages of a request up to an index, as a server reads them as a history."""
    given = request["messages"][:end]
    known = (tools for stop, tools in request["earlier_tools"] if end <= stop)
    own = {"messages": given, "tools": next(known, request["tools"])}
    read = read_chat({**request, **own}, conversation_start_date=start_date)
    messages = read.conversation.messages
    for index, source in enumerate(read.sources):
        message = messages[index]
        if source is None or message.author.role is not Role.ASSISTANT:
            continue
        # A message of a chat may become reasoning, a text and calls; its channel is that of the
        # text.
        channel = given[source].get("channel")
        if channel is not None and message.recipient is None and message.channel != "analysis":
            message.with_channel(channel)
    count = sum(1 for source in read.sources if source is None)
    settings.apply_to(messages[0])
    requested = read.response_format
    wants_json = requested is not None and requested.to_dict() == {"type": "json_object"}
    opening = messages[:count]
    return _ReadRequest(read.conversation, opening, read.sources, read.tools.others, wants_json)


def _join_texts(message: Message) -> None:
    """Join the assistant's texts: the model samples them as one, and with other tokens."""
    if message.author.role is not Role.ASSISTANT or len(message.content) < 2:
        return
    if all(isinstance(part, TextContent) for part in message.content):
        message.content = [TextContent(text=message.text)]


class _SystemSettings(NamedTuple):
    """The settings of the system message that a row gives, except the effort."""

    model_identity: str | None
    built_in: Sequence[str]

    @classmethod
    def of(cls, chat: JsonField) -> _SystemSettings:
        """Read the row's fields, or the arguments of the chat template."""
        arguments = template_arguments(chat)
        identity = _first_given(chat["model_identity"], arguments["model_identity"])
        tools = parsed_json(_first_given(chat["builtin_tools"], arguments["builtin_tools"]))
        names = [tool.text() for tool in tools.optional_items()]
        for name in names:
            if name not in BUILT_IN_TOOLS:
                known = " or ".join(BUILT_IN_TOOLS)
                raise tools.error(f"{name!r:.40} is no built-in tool; write {known}")
        return cls(identity.optional_text() or None, names)

    def apply_to(self, message: Message) -> None:
        """Change a system message."""
        (content,) = message.content
        if not isinstance(content, SystemContent):
            return
        if self.model_identity is not None:
            content.with_model_identity(self.model_identity)
        for name, tool in BUILT_IN_TOOLS.items():
            if name in self.built_in:
                content.with_tools(tool.namespace)


def _first_given(one: JsonField, other: JsonField) -> JsonField:
    """Return the field that is given; raises `ConversationError` if both are, and differ."""
    if one.value in (None, "", []):
        return other
    if other.value not in (None, "", [], one.value):
        raise other.error(f"{one.path} has another value; keep one of them")
    return one


def _row_weight(row: JsonField) -> float | None:
    return read_weight(JsonField({"weight": row.object().get("weight")}))


def _row_object(raw: object) -> JsonField:
    """Return a row as an object; raises `ConversationError` for other values."""
    if not isinstance(raw, (Mapping, list)):
        kind = "null" if raw is None else "text" if isinstance(raw, str) else f"{raw!r:.40}"
        raise ConversationError(f"the row is {kind}; expected an object with messages")
    if isinstance(raw, list) and raw and isinstance(raw[0], Mapping) and "messages" in raw[0]:
        raise ConversationError("the row is a list of rows; write each of them on its own line")
    return JsonField({"messages": raw} if isinstance(raw, list) else raw)


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
    row_weight = _row_weight(row)
    if row_weight is not None:
        weights = {i: weights.get(i, 1.0) * row_weight for i in range(len(messages))}
    for message in messages:
        _join_texts(message)
    unused = unused_harmony_fields(row.object(), items.value)
    return ReadRow("harmony", Conversation.from_messages(messages), weights, {}, unused)


def _rendered_row(row: JsonField) -> ReadRow:
    """Read a row whose text is rendered already; its weight counts for all messages.

    Those of a prompt with a completion are not learned, as in the form ``completion``.
    """
    fields = ReadObject(row.object())
    text = read_rendered(JsonField(fields))
    row_weight = _row_weight(JsonField(fields))
    weights = {} if row_weight is None else dict.fromkeys(range(len(text.messages)), row_weight)
    weights.update(dict.fromkeys(range(text.asked), 0.0))
    unused = [name for name in fields.unread() if name not in text.columns]
    conversation = Conversation.from_messages(text.messages)
    return ReadRow("rendered", conversation, weights, {}, unused, repairs=text.repairs)


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
        # Not `hash`, which differs from process to process.
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
