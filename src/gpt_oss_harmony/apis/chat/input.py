"""Chat Completions requests become harmony conversations.

===========================  ====================================================================
``reasoning_effort``         a setting of the ``system`` message
``system``, ``developer``    instructions in one ``developer`` message, wherever they stand
``tools``                    functions in that ``developer`` message, as `requested_tools` reads
                             them
``response_format``          a response format in that ``developer`` message
``reasoning``                an ``analysis`` message, as are the other `REASONING_FIELDS` and,
                             without them, content parts of the `REASONING_TYPES`
``content``                  ``final``, or a preamble on ``commentary`` if calls follow before
                             the next user message
``tool_calls``               calls on ``commentary``, with unchanged arguments
``tool``                     a result; its author is the function that was called
===========================  ====================================================================

Fields that do not affect the prompt (``model``, ``tool_choice``, ...) are ignored. Also ignored are
the ``name`` of an author who is no user, names that a header cannot hold, and tools that the models
cannot have. Notes replace images, files and audio.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ...conversation.content import ReasoningEffort
from ...conversation.json_field import JsonField
from ...conversation.messages import Conversation, Role
from ...conversation.tool_namespaces import ToolDescription
from ..conversation_builder import (
    REASONING_TYPES,
    ConversationBuilder,
    content_texts,
)
from ..requested_format import requested_format, verbosity_instructions
from ..requested_reasoning import requested_effort
from ..requested_tools import read_function, read_tool_name, read_tools
from ..turn import ParsedRequest

REASONING_FIELDS = ("reasoning", "reasoning_content", "thinking")
"""The names that servers use for the reasoning in an assistant's message."""


def conversation_from_chat(
    request: Mapping[str, Any] | list[Any], *, conversation_start_date: str | None = None
) -> Conversation:
    """Turn a request, or its list of messages, into a harmony conversation.

    Raises `ConversationError`, which names the wrong field.

    >>> chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    >>> [message.author.role.value for message in conversation_from_chat(chat).messages]
    ['system', 'developer', 'user']
    """
    return read_chat(request, conversation_start_date=conversation_start_date).conversation


def read_chat(
    request: Mapping[str, Any] | list[Any],
    *,
    conversation_start_date: str | None = None,
    default_effort: ReasoningEffort | None = ReasoningEffort.MEDIUM,
) -> ParsedRequest:
    """Parse a request: the conversation of `conversation_from_chat`, with tools and format."""
    chat = JsonField(request if isinstance(request, Mapping) else {"messages": request})
    _refuse_old_functions(chat["functions"], "send tools instead")
    messages = list(chat["messages"].items())
    effort = requested_effort(chat, default_effort)
    tools = read_tools(chat["tools"].optional_items())
    response_format = requested_format(chat, chat["response_format"])
    builder = ConversationBuilder(tools)
    sources: list[int | None] = []
    for index, message in enumerate(messages):
        _read_message(message, builder)
        sources += [index] * (len(builder.messages) - len(sources))
    builder.add_instructions(verbosity_instructions(chat["verbosity"]))
    conversation = builder.conversation(
        effort=effort, start_date=conversation_start_date, response_format=response_format
    )
    opening = [None] * (len(conversation.messages) - len(sources))
    return ParsedRequest(conversation, tools, response_format, [*opening, *sources])


def is_chat(raw: object) -> bool:
    """Return whether parsed JSON is a Chat Completions request rather than a harmony conversation.

    It is harmony if a message has a channel, a recipient, a content type or an author, or content
    that only harmony has. JSON that could be either counts as chat.

    >>> is_chat([{"role": "user", "content": "hi"}])
    True
    >>> is_chat({"messages": [{"role": "assistant", "channel": "final", "content": "hi"}]})
    False
    """
    messages = raw.get("messages") if isinstance(raw, Mapping) else raw
    if not isinstance(messages, list):
        return True
    return not any(_is_harmony(message) for message in messages)


def tool_from_chat(raw: object, *, field: str = "") -> ToolDescription:
    """Read a function tool, or a bare function; `field` is its JSON path, for errors.

    >>> tool_from_chat({"type": "function", "function": {"name": "now"}})
    ToolDescription(name='now', description='', parameters=None)
    """
    return read_function(JsonField(raw, field))


# The messages


def _refuse_old_functions(field: JsonField, remedy: str) -> None:
    if not field.is_null:
        raise field.error(f"the old function-calling fields are not supported; {remedy}")


_ROLES = {role.value: role for role in Role}


def _read_message(message: JsonField, builder: ConversationBuilder) -> None:
    role = message["role"]
    if role.text() == "function":
        raise role.error("messages by functions are not supported; send the role 'tool' instead")
    match _ROLES.get(role.value):
        case Role.SYSTEM | Role.DEVELOPER:
            builder.add_instructions(content_texts(message["content"]))
        case Role.USER:
            # A name that a header cannot hold is not read, and so reported as ignored.
            name = message.unnoted("name")
            fits = isinstance(name, str) and re.fullmatch(r"[\w.-]{1,64}", name)
            author = message["name"].text() if fits else None
            builder.add_question(content_texts(message["content"]), author)
        case Role.ASSISTANT:
            _read_assistant(message, builder)
        case Role.TOOL:
            texts = content_texts(message["content"])
            remedy = "keep the assistant message with its tool_calls"
            builder.add_result(message["tool_call_id"], texts, remedy=remedy)
        case None:
            raise role.unexpected(f"one of {', '.join(_ROLES)}")


def _read_assistant(message: JsonField, builder: ConversationBuilder) -> None:
    _refuse_old_functions(message["function_call"], "send tool_calls instead")
    # Only the first, because servers send the same text under several names, as ours does.
    given = (message[name].optional_text() for name in REASONING_FIELDS)
    thoughts = list(islice(filter(None, given), 1))
    content, refusal = message["content"], message.peek("refusal")
    if not thoughts and isinstance(content.value, list):
        thoughts = list(filter(None, _thoughts(content)))
    calls = list(message["tool_calls"].optional_items())
    if thoughts:
        builder.add_reasoning(thoughts)
    may_be_missing = bool(thoughts or calls)
    is_refusal = not content.value and not refusal.is_null
    if is_refusal or not (content.is_null and may_be_missing):
        texts = (
            [message["refusal"].text()] if is_refusal else content_texts(content, REASONING_TYPES)
        )
        if any(texts) or not may_be_missing:
            builder.add_text(texts)
    for call in calls:
        _read_call(call, builder)


def _thoughts(content: JsonField) -> Iterator[str]:
    """Yield the texts of content parts with reasoning; servers use several names for the text."""
    for part in content.items():
        kind = part["type"].text()
        if kind in REASONING_TYPES:
            names = (kind, "text", "summary")
            yield from content_texts(
                next((part[name] for name in names if not part[name].is_null), part[kind])
            )


def _read_call(call: JsonField, builder: ConversationBuilder) -> None:
    call_id = call["id"].text()
    call.accept("index")  # of a stream that comes back
    kind = call["type"]
    if kind.value == "custom":
        custom = call["custom"]
        builder.add_custom_call(
            call_id, read_tool_name(custom["name"]), None, custom["input"].text()
        )
    elif kind.is_null or kind.text() == "function":
        function = call["function"]
        arguments = function["arguments"].text()
        builder.add_call(call_id, read_tool_name(function["name"]), None, arguments)
    else:
        raise kind.error(f"harmony has no calls of the type {kind.value!r}; remove the call")


# Detecting the format


def _is_harmony(message: object) -> bool:
    if not isinstance(message, Mapping):
        return False
    marks = ("author", "channel", "content_type", "recipient")
    if any(message.get(mark) is not None for mark in marks):
        return True
    content = message.get("content")
    items = content if isinstance(content, list) else [content]
    return any(
        isinstance(item, Mapping) and item.get("type") in ("system_content", "developer_content")
        for item in items
    )
