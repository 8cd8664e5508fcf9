"""The harmony messages of a conversation, built in the same way from the requests of both APIs.

The two APIs have different fields for the same things. The builder turns them into the same
messages, and therefore the same tokens:

- All instructions go into one developer message, separated by blank lines.
- Text by the assistant is its answer (``final``). It is a preamble (``commentary``) if a call
  follows before the next user message. A request may also name the channel itself.
- The author of a tool result is the tool of the call with the same id.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from ..conversation.content import DeveloperContent, ReasoningEffort, SystemContent, TextContent
from ..conversation.json_field import JsonField, strict_json
from ..conversation.messages import Author, Conversation, Message, Role
from ..errors import did_you_mean
from ..sampled_messages import SampledMessage
from .requested_tools import CUSTOM_TOOL_FIELD, RequestedTools


class RequestedFormat(NamedTuple):
    """A requested format of answers: any JSON object, a named schema, or a format of `text`.

    If it is strict, the schema must be enforced. A format of text is one of `TurnOptions`.
    """

    name: str | None = None
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool = False
    text: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the `response_format` of Chat Completions, or a format of text."""
        if self.text is not None:
            return self.text
        if self.name is None:
            return {"type": "json_object"}
        fields: dict[str, Any] = {
            "name": self.name,
            "schema": self.schema or {},
            "strict": self.strict,
        }
        if self.description is not None:
            fields["description"] = self.description
        return {"type": "json_schema", "json_schema": fields}


def read_response_format(requested: JsonField) -> RequestedFormat | None:
    """Read `response_format` of Chat Completions, or `text.format` of Responses; None is text.

    The fields of a schema may be nested under ``json_schema``.

    >>> read_response_format(JsonField({"type": "json_schema", "name": "list", "schema": {}}))
    RequestedFormat(name='list', schema={}, description=None, strict=False, text=None)
    """
    if requested.is_null:
        return None
    kind = requested["type"]
    known = ("text", "json_object", "json_schema", "grammar", "structural_tag")
    if kind.text() not in known:
        raise kind.unexpected(f"one of {', '.join(known)}")
    if kind.value == "text":
        return None
    if kind.value == "grammar":
        return RequestedFormat(text={"type": "grammar", "grammar": requested["grammar"].text()})
    if kind.value == "structural_tag":
        return RequestedFormat(text=dict(requested.object()))
    if kind.value == "json_object":
        return RequestedFormat()
    is_flat = requested["json_schema"].is_null and not (
        requested["name"].is_null and requested["schema"].is_null
    )
    fields = requested if is_flat else requested["json_schema"]
    schema, name = fields["schema"], fields["name"].text()
    if not _SCHEMA_NAME.fullmatch(name):
        raise fields["name"].error(
            f"{name!r:.80} is no name of a schema; use 1 to 64 of a-z, A-Z, 0-9, _ and -"
        )
    return RequestedFormat(
        name=name,
        schema={} if schema.is_null else dict(schema.object()),
        description=fields["description"].optional_text(),
        strict=fields.peek("strict").flag(),
    )


_SCHEMA_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_TEXT_TYPES = {"text", "input_text", "output_text", "reasoning_text", "summary_text"}

REASONING_TYPES = frozenset({"thinking", "reasoning"})
"""The types of content parts with the assistant's reasoning."""

PART_TYPES = frozenset({*_TEXT_TYPES, *REASONING_TYPES, "refusal"})
"""The types of content parts that the assistant can write; notes replace all others."""

_ATTACHMENTS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "computer_screenshot": "image",
    "file": "file",
    "input_file": "file",
    "input_audio": "audio",
    "audio_url": "audio",
    "document": "file",
    "input_video": "video",
    "video_url": "video",
}


def content_texts(content: JsonField, skipped: Collection[str] = ()) -> list[str]:
    """Read a content: text, or a list of content parts, without those of the `skipped` types.

    A note replaces each part without text. Files of text in base64 are texts, too.

    >>> content_texts(JsonField([{"type": "text", "text": "See:"}, {"type": "image_url"}]))
    ['See:', '[image: not shown, this model reads text only]']
    """
    if isinstance(content.value, str):
        return [content.value]
    if not isinstance(content.value, list):
        raise content.unexpected("text or a list of parts")
    return [part_text(part) for part in content.items() if part["type"].text() not in skipped]


def part_text(part: JsonField) -> str:
    """Read a content part: its text, or a note in its place."""
    kind = part["type"].text()
    if kind == "refusal":
        return part["refusal"].text()
    if kind in _TEXT_TYPES:
        if kind == "output_text":  # which comes back
            part.accept("annotations")
            part.accept("logprobs")
        return part["text"].text()
    if kind in ("file", "input_file") and (text := _file_text(part)) is not None:
        return text
    if kind not in _ATTACHMENTS and not part.peek("text").is_null:  # which a note would lose
        remedy = did_you_mean(kind, sorted(_TEXT_TYPES), "write text")
        raise part["type"].error(f"{kind!r:.60} is not a type of content; {remedy}")
    # Tools answer with screenshots beside their texts. The note states that they are not shown.
    return f"[{_ATTACHMENTS.get(kind, 'attachment')}: not shown, this model reads text only]"


def arguments_object(text: str, invalid: str) -> dict[str, Any]:
    """Read the arguments of a call; what is no JSON object becomes the field `invalid` of one.

    >>> arguments_object('{"a": 1}', "invalid"), arguments_object("print(1)", "invalid")
    ({'a': 1}, {'invalid': 'print(1)'})
    """
    try:
        read = strict_json(text)
    except (ValueError, RecursionError):
        read = None
    return read if isinstance(read, dict) else {invalid: text}


def arguments_text(arguments: JsonField, invalid: str) -> str:
    """Write the arguments of a call as the model does, without white space.

    This undoes `arguments_object`.

    >>> arguments_text(JsonField({"a": 1, "b": 2}), "invalid")
    '{"a":1,"b":2}'
    """
    fields = arguments.object()
    if fields.keys() == {invalid} and isinstance(fields[invalid], str):
        text: str = fields[invalid]
        return text
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def attachment_in(part: JsonField) -> str | None:
    """Return what the model cannot read of a content part, such as ``image``; None for a text.

    >>> attachment_in(JsonField({"type": "input_image"}))
    'image'
    """
    kind = part["type"].text()
    if kind == "document":
        is_text = part["source"]["type"].text() in ("text", "content")
        return None if is_text else "file"
    if kind in ("file", "input_file") and _file_text(part) is not None:
        return None
    return _ATTACHMENTS.get(kind)


_TEXT_FILE = re.compile(r"data:(text/|application/(json|xml|x-yaml|toml)\b)[^,]*;base64,", re.I)


def _file_text(part: JsonField) -> str | None:
    """Return the name and the text of a file that the part contains; None for other files."""
    inside = part.unnoted("file")
    data = (JsonField(inside) if isinstance(inside, dict) else part).unnoted("file_data")
    opening = _TEXT_FILE.match(data) if isinstance(data, str) else None
    if isinstance(data, str) and opening is None:
        return None
    file = part if inside is None else part["file"]
    data = file["file_data"].optional_text()
    if data is None or opening is None:
        return None
    try:
        text = base64.b64decode(data[opening.end() :], validate=True).decode()
    except ValueError:
        raise file["file_data"].error("this is not UTF-8 text in base64") from None
    file.accept("file_id")  # of a file whose text the server has read
    return file_note(file["filename"].optional_text(), text)


def file_note(name: str | None, text: str) -> str:
    """Write the text of a file as the model reads it.

    >>> file_note("notes.txt", "Buy milk.")
    '[file: notes.txt]\\nBuy milk.'
    """
    return f"[file: {name or 'without a name'}]\n{text}"


class ConversationBuilder:
    """Collects messages in order; `tokens` are the sampled tokens of a message.

    >>> builder = ConversationBuilder()
    >>> builder.add_text(["I will look."])
    >>> builder.add_call("call_1", "ls", None, "{}")
    >>> [message.channel for message in builder.messages]
    ['commentary', 'commentary']
    """

    def __init__(self, tools: RequestedTools | None = None) -> None:
        self.tools = tools or RequestedTools()
        self.messages: list[Message] = []
        self._instructions: list[str] = []
        self._answers: list[Message] = []  # of this turn, before any call
        self._waiting: dict[str, list[str]] = {}  # recipients without a result, by the call's id
        self._recipients: dict[str, str] = {}  # of the last result, by the call's id

    def add_instructions(self, texts: Sequence[str]) -> None:
        """Add to the instructions of the developer message."""
        self._instructions += filter(None, texts)

    def begin_anew(self, own_instructions: str | None) -> None:
        """Remove everything that was added, except the instructions of the request itself."""
        self.messages.clear()
        self._answers.clear()
        self._waiting.clear()
        self._recipients.clear()
        self._instructions = [own_instructions] if own_instructions else []

    def add_question(self, texts: Sequence[str], name: str | None = None) -> None:
        """Add a message by the user, who may have a name."""
        self._answers.clear()
        message = _message(Role.USER, texts)
        message.author.name = name
        self.messages.append(message)

    def add_reasoning(self, texts: Sequence[str], tokens: Sequence[int] | None = None) -> None:
        """Add reasoning of the assistant."""
        self._add_sampled(_spoken(texts).with_channel("analysis"), tokens)

    def add_text(
        self,
        texts: Sequence[str],
        channel: str | None = None,
        tokens: Sequence[int] | None = None,
    ) -> None:
        """Add text by the assistant; without a channel, the next messages determine the channel."""
        message = _spoken(texts).with_channel(channel or "final")
        added = self._add_sampled(message, tokens)
        if channel is None:
            self._answers.append(added)

    def add_call(
        self,
        call_id: str,
        name: str,
        namespace: str | None,
        arguments: str,
        tokens: Sequence[int] | None = None,
        content_type: str = "<|constrain|>json",
    ) -> None:
        """Add a call, with its arguments unchanged."""
        for message in self._answers:
            message.with_channel("commentary")
        self._answers.clear()
        recipient = self.tools.recipient(name, namespace)
        self._waiting.setdefault(call_id, []).append(recipient)
        message = Message.from_role_and_content(Role.ASSISTANT, arguments)
        message.with_channel("commentary").with_recipient(recipient)
        self._add_sampled(message.with_content_type(content_type), tokens)

    def add_custom_call(
        self,
        call_id: str,
        name: str,
        namespace: str | None,
        text: str,
        tokens: Sequence[int] | None = None,
    ) -> None:
        """Add a call of a custom tool with its text."""
        is_text = self.tools.recipient(name, namespace) in self.tools.texts
        arguments = json.dumps({CUSTOM_TOOL_FIELD: text}, ensure_ascii=False)
        content_type, body = ("code", text) if is_text else ("<|constrain|>json", arguments)
        self.add_call(call_id, name, namespace, body, tokens, content_type)

    def add_result(self, call_id: JsonField, texts: Sequence[str], *, remedy: str) -> None:
        """Add the result of a call; raise `ConversationError` if no call has that id."""
        # Some clients give all calls one id: then their results come in the order of the calls.
        if waiting := self._waiting.get(call_id.text()):
            self._recipients[call_id.value] = waiting.pop(0)
        recipient = self._recipients.get(call_id.value)
        if recipient is None:
            problem = f"no tool call before this message has the id {call_id.value!r:.80}"
            raise call_id.error(f"{problem}; {remedy}")
        message = _message(Role.TOOL, texts)
        message.author = Author.new(Role.TOOL, recipient)
        self.messages.append(message.with_recipient("assistant").with_channel("commentary"))

    def add_exchange(
        self, call: Message, results: Sequence[Message], tokens: Sequence[int] | None = None
    ) -> None:
        """Add a call of a built-in tool, and the tool's messages."""
        self._add_sampled(call, tokens)
        self.messages += results

    def conversation(
        self,
        *,
        effort: ReasoningEffort | None,
        start_date: str | None,
        response_format: RequestedFormat | None,
    ) -> Conversation:
        """Return the system message, the developer message, and the collected messages."""
        system = SystemContent(reasoning_effort=effort, conversation_start_date=start_date)
        for built_in in self.tools.built_in.values():
            system.with_tools(built_in)
        developer = DeveloperContent()
        if self._instructions:
            developer.with_instructions("\n\n".join(self._instructions))
        for namespace in self.tools.namespaces.values():
            developer.with_tools(namespace)
        # As in the API, for JSON without a schema the instructions themselves must request JSON.
        if response_format is not None and response_format.name is not None:
            developer.with_response_format(
                response_format.name, response_format.schema or {}, response_format.description
            )
        opening = [Message.from_role_and_content(Role.SYSTEM, system)]
        if developer != DeveloperContent():
            opening.append(Message.from_role_and_content(Role.DEVELOPER, developer))
        return Conversation.from_messages([*opening, *self.messages])

    def _add_sampled(self, message: Message, tokens: Sequence[int] | None) -> Message:
        if tokens:
            message = SampledMessage.of(message, tokens)
        self.messages.append(message)
        return message


def _spoken(texts: Sequence[str]) -> Message:
    """Join the texts of the assistant: the model samples them as one, and with other tokens."""
    return _message(Role.ASSISTANT, ["".join(texts)])


def _message(role: Role, texts: Sequence[str]) -> Message:
    return Message.from_role_and_contents(role, [TextContent(text=text) for text in texts])
