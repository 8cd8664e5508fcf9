"""Conversations as Python objects and as JSON, and the tools that they declare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    FailFast,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    WrapSerializer,
)

from ..config import CheckedModel, require_list
from ..errors import ConversationError, wrong_type
from .content import Content, DeveloperContent, SystemContent, TextContent, require_text
from .json_field import invalid_value, json_problem, missing_field, shown
from .tool_namespaces import ToolDescription

_Model = TypeVar("_Model", bound=BaseModel)

INVISIBLE = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Control characters, and those with Unicode's property Default_Ignorable_Code_Point."""

INVISIBLE_RUN = re.compile(rf"[{INVISIBLE}]+")


class Role(str, Enum):
    """The author's role in a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"
    TOOL = "tool"

    __hash__ = str.__hash__  # faster than Enum's own, which is written in Python

    @classmethod
    def _missing_(cls, value: object) -> Role:
        known = ", ".join(repr(role.value) for role in cls)
        raise ValueError(f"Unknown role: {value!r} (known: {known})")


ROLES = {role.value: role for role in Role}
"""The word of each role in a header, and the role."""

NOT_TOOLS = frozenset({"all", *ROLES})
"""Recipients that are not tools; models sometimes write ``to=user``."""


def is_reasoning(channel: str | None, recipient: str | None) -> bool:
    """Return whether the assistant's message on a channel is reasoning, and no call.

    >>> is_reasoning("analysis", None), is_reasoning("analysis", "python")
    (True, False)
    """
    return channel == "analysis" and (recipient is None or recipient in NOT_TOOLS)


def _known(role: Role) -> Role:
    """Raise `ValueError` for an unknown role, in one sentence; pydantic writes several lines."""
    return role if type(role) is Role else Role(role)


class Author(CheckedModel):
    """The author of a message: a role and an optional name; a tool needs a name.

    >>> Author.new(Role.TOOL, "functions.now").name
    'functions.now'
    """

    role: Role
    name: str | None = None

    @classmethod
    def new(cls, role: Role, name: str) -> Author:
        """Make an author with a name, such as a tool; ``Author(role=role)`` has none."""
        return cls(role=_known(role), name=name)


_CONTENT_TYPES: dict[str, type[Content]] = {
    "text": TextContent,
    "system_content": SystemContent,
    "developer_content": DeveloperContent,
}


def _read_content(raw: object) -> object:
    """Read a content dict, either with a ``type`` or as pydantic's `model_dump` writes it."""
    if type(raw) is TextContent or isinstance(raw, Content):  # the first test is quick
        return raw
    if not isinstance(raw, Mapping):
        raise ValueError(_no_content(raw))
    kind = raw.get("type")
    if kind is None:
        fits = (c for c in _CONTENT_TYPES.values() if raw.keys() <= c.model_fields.keys())
        # An empty object would fit each of them.
        content_class = next(fits, None) if raw else None
    else:
        content_class = _CONTENT_TYPES.get(kind) if isinstance(kind, str) else None
    if content_class is None:
        raise ValueError(_unknown_variant(raw))
    return content_class.model_validate(raw)


def _no_content(raw: object) -> str:
    if isinstance(raw, str):
        return "write TextContent(text=...) for a text in a list of contents"
    if isinstance(raw, (list, tuple)):
        return "one content, not a list; Message.from_role_and_contents takes several"
    return "a content is a text, or a TextContent, SystemContent or DeveloperContent"


def _unknown_variant(raw: object) -> str:
    known_types = ", ".join(_CONTENT_TYPES)
    return f"Unknown content variant: {shown(raw, 200)} (known types: {known_types})"


def _name_type(item: Content, write: SerializerFunctionWrapHandler) -> Any:
    """Dump a content with its ``type``: it can be read again even if fields were left out."""
    kind = next((name for name, cls in _CONTENT_TYPES.items() if type(item) is cls), None)
    return write(item) if kind is None else {"type": kind, **write(item)}


# `SerializeAsAny`, because pydantic dumps only the fields of the declared class, and this one has
# none: `model_dump` of openai-harmony has `{}` for each content.
_ContentItem = Annotated[
    SerializeAsAny[Content], BeforeValidator(_read_content), WrapSerializer(_name_type)
]


class Header(NamedTuple):
    """The fields of a message that its header contains, however the header is spelled."""

    role: Role
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None


class Message(CheckedModel):
    """One message: its author, content, channel, recipient and content type.

    - `channel` is ``analysis``, ``commentary`` or ``final``.
    - `recipient` is the name of a tool in a call, and ``assistant`` in a tool's answer.
    - `content_type` is a word such as ``json``, with ``<|constrain|>`` before it if the model is
      constrained to that type.

    >>> Message.from_role_and_content(Role.USER, "hi").to_json()
    '{"role": "user", "name": null, "content": [{"type": "text", "text": "hi"}]}'
    """

    _remedies: ClassVar[Mapping[str, str]] = {
        "role": "write Message.from_role_and_content(role, content)"
    }

    author: Author
    content: list[_ContentItem] = Field(default_factory=list)
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None

    @classmethod
    def from_author_and_content(cls, author: Author, content: str | Content) -> Message:
        """Make a message with one item of content."""
        return cls(author=author, content=[_as_content(content)])

    @classmethod
    def from_role_and_content(cls, role: Role, content: str | Content) -> Message:
        """Make a message with one item of content by an author without a name."""
        return cls(author=Author(role=_known(role)), content=[_as_content(content)])

    @classmethod
    def from_role_and_contents(cls, role: Role, contents: Sequence[Content]) -> Message:
        """Make a message with several items of content by an author without a name."""
        return cls(author=Author(role=_known(role)), content=list(contents))

    @property
    def text(self) -> str:
        """The text of the message: all its items of text, joined."""
        return "".join(item.text for item in self.content if isinstance(item, TextContent))

    def adding_content(self, content: str | Content) -> Message:
        """Append an item of content, in place."""
        self.content.append(_as_content(content))
        return self

    def with_channel(self, channel: str) -> Message:
        """Set the channel (``analysis``, ``commentary`` or ``final``), in place."""
        require_text("channel", channel, "final")
        self.channel = channel
        return self

    def with_recipient(self, recipient: str) -> Message:
        """Set the recipient, such as ``functions.now``, in place; a message to a tool is a call."""
        require_text("recipient", recipient, "functions.now")
        self.recipient = recipient
        return self

    def with_content_type(self, content_type: str) -> Message:
        """Set the content type, such as ``<|constrain|>json``, in place."""
        require_text("content_type", content_type, "<|constrain|>json")
        self.content_type = content_type
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical JSON form: role, name and content, then the fields that are set."""
        # The name is there even if it is null, as in openai-harmony's JSON.
        out: dict[str, Any] = {"role": self.author.role, "name": self.author.name}
        out["content"] = [item.to_dict() for item in self.content]
        for key in ("channel", "recipient", "content_type"):
            value = getattr(self, key)
            if value is not None:
                out[key] = value
        return out

    def to_json(self) -> str:
        """Return the canonical JSON form as text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Message:
        """Read the canonical JSON form; the content may be a list or plain text.

        Raises `ConversationError` (a `ValueError`) that names the wrong field.
        """
        return _message_from_dict(data, field="")


def _read_message(raw: object) -> object:
    """Refuse what people write instead of a message, with the way to make one."""
    if isinstance(raw, Message):
        return raw
    if not isinstance(raw, Mapping):
        # The first sentence is the reference's, for whose text programs look.
        raise ValueError(
            "Input should be a valid dictionary or instance of Message: "
            "expected a Message; a conversation is a list of them"
        )
    if "role" in raw and "author" not in raw:
        raise ValueError(
            "Message.from_dict() reads a dict with a role; "
            "conversation_from_chat() in gpt_oss_harmony.apis.chat.input reads Chat Completions"
        )
    return raw


class Conversation(CheckedModel):
    """A list of messages, in order.

    >>> conversation = Conversation.from_json('{"messages": [{"role": "user", "content": "hi"}]}')
    >>> conversation.messages[0].content
    [TextContent(text='hi')]
    """

    # Of a list of hundreds, all are wrong in the same way: the first one says it.
    messages: Annotated[list[Annotated[Message, BeforeValidator(_read_message)]], FailFast()] = (
        Field(default_factory=list)
    )

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> Conversation:
        """Make a conversation of `messages`."""
        if not isinstance(messages, Conversation):
            require_list("messages", messages, "a list of messages", "write [message]")
        return cls(messages=list(messages))

    def __iter__(self) -> Iterator[Message]:  # type: ignore[override]
        """Iterate over the messages (pydantic's own iterator yields pairs of field and value)."""
        return iter(self.messages)

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical JSON form."""
        return {"messages": [message.to_dict() for message in self.messages]}

    def to_json(self) -> str:
        """Return the canonical JSON form as text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, payload: str) -> Conversation:
        """Read the canonical JSON form.

        Raises `ConversationError` (a `ValueError`) that names the wrong field.
        """
        try:
            raw = json.loads(payload)
        except TypeError:
            found = type(payload).__name__
            raise ConversationError(
                f"expected JSON as text, not {found}; json.dumps() writes it, and "
                "Message.from_dict() reads one message from a dict"
            ) from None
        except (ValueError, RecursionError) as error:
            raise ConversationError(json_problem(error)) from error
        if isinstance(raw, list):
            raise ConversationError(
                f'expected an object, {{"messages": [...]}}, found the list {shown(raw)}'
            )
        messages = _require(_object(raw, field=""), "messages", list, field="")
        return cls(
            messages=[
                _message_from_dict(item, field=f"messages[{index}]")
                for index, item in enumerate(messages)
            ]
        )


def checked_conversation(conversation: object) -> Conversation:
    """Return a conversation; raise `TypeError` for what people pass instead of one."""
    if isinstance(conversation, Conversation):
        return conversation
    remedy = "write Conversation.from_messages([...])"
    if isinstance(conversation, Mapping):
        remedy += ", or conversation_from_chat() of gpt_oss_harmony.apis.chat.input"
    raise wrong_type("conversation", "a Conversation", conversation, remedy)


def is_answer(message: Message) -> bool:
    """Return whether a message is an answer, which ends the turn with ``<|return|>``."""
    return message.channel == "final" and message.author.role is Role.ASSISTANT


def declares_functions(message: Message) -> bool:
    """Return whether a message declares functions; the system message then names their channel.

    As in the reference, only the content counts, and not the role of the message.
    """
    return any(
        bool((namespace := (item.tools or {}).get("functions")) and namespace.tools)
        for item in message.content
        if isinstance(item, DeveloperContent)
    )


def declared_tools(messages: Iterable[Message]) -> dict[str, ToolDescription | None]:
    """Return the tools of system and developer messages, by the recipient of their calls.

    The value of a tool that takes free text, such as `python`, is None.

    >>> system = Message.from_role_and_content(Role.SYSTEM, SystemContent().with_python_tool())
    >>> declared_tools([system])
    {'python': None}
    """
    namespaces = (
        namespace
        for message in messages
        for item in message.content
        # The first is fast, and true of nearly all.
        if type(item) is not TextContent and isinstance(item, (SystemContent, DeveloperContent))
        for namespace in (item.tools or {}).values()
    )
    tools: dict[str, ToolDescription | None] = {}
    for namespace in namespaces:
        if not namespace.tools:
            tools[namespace.name] = None
        for tool in namespace.tools:
            tools[f"{namespace.name}.{tool.name}"] = tool
    return tools


# Reading the canonical JSON


def _as_content(content: str | Content) -> Content:
    return TextContent(text=content) if isinstance(content, str) else content


def _message_from_dict(raw: object, *, field: str) -> Message:
    data = _object(raw, field=field)
    content = _require(data, "content", (str, list, dict), field=field)
    author = {"role": _require(data, "role", str, field=field), "name": data.get("name")}
    return Message(
        author=_validate(Author, author, field=field),
        content=[
            _content_from_item(item, field=_join(field, f"content[{index}]"))
            for index, item in enumerate(content if isinstance(content, list) else [content])
        ],
        channel=_optional_text(data, "channel", field=field),
        recipient=_optional_text(data, "recipient", field=field),
        content_type=_optional_text(data, "content_type", field=field),
    )


def _content_from_item(item: object, *, field: str) -> Content:
    if isinstance(item, str):
        return TextContent(text=item)
    if not isinstance(item, Mapping):
        raise ConversationError(f"expected a content object, found {shown(item)}", field=field)
    kind = item.get("type")
    content_class = _CONTENT_TYPES.get(kind) if isinstance(kind, str) else None
    if content_class is None:
        raise ConversationError(_unknown_variant(item), field=field)
    return _validate(content_class, item, field=field)


def _validate(model: type[_Model], raw: Mapping[str, Any], *, field: str) -> _Model:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = _join(field, ".".join(map(str, first["loc"])))
        raise ConversationError(invalid_value(first), field=path) from error


def _object(raw: object, *, field: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise ConversationError(f"expected an object, found {shown(raw)}", field=field)
    return raw


def _require(
    raw: Mapping[str, Any], key: str, kinds: type | tuple[type, ...], *, field: str
) -> Any:
    if key not in raw:
        raise ConversationError(missing_field(key, raw), field=_join(field, key))
    value = raw[key]
    if not isinstance(value, kinds):
        found = f"{shown(value)} ({type(value).__name__})"
        raise ConversationError(f"the field has the wrong type: {found}", field=_join(field, key))
    return value


def _optional_text(raw: Mapping[str, Any], key: str, *, field: str) -> str | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        found = f"{shown(value)} ({type(value).__name__})"
        raise ConversationError(f"expected text or null, found {found}", field=_join(field, key))
    return value


def _join(field: str, key: str) -> str:
    return f"{field}.{key}" if field else key
