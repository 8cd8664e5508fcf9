"""A Chat Completions request comes in, with the field names of the OpenAI API; out comes the
harmony conversation that says the same.

===========================  ====================================================================
system settings              a ``system`` message, from the defaults and ``reasoning_effort``
``system``, ``developer``    the instructions of one ``developer`` message, wherever they stood
``tools``                    functions in that ``developer`` message; custom tools are functions
                             of one text
``response_format``          a response format in that ``developer`` message
``reasoning`` or its like    an assistant's ``analysis`` message
``content``                  ``final``, or a preamble on ``commentary`` when calls follow before
                             the next message by the user
``tool_calls``               calls on ``commentary``, their arguments as they are
``tool``                     the answer by the function that was called
===========================  ====================================================================

Fields that say nothing about the prompt (``model``, ``tool_choice``, ...) are ignored, and so are
an author's ``name`` (the format names only tools) and tools that the models cannot have. Images,
files and sounds become a note that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..conversation.content import ReasoningEffort
from ..conversation.json_field import JsonField
from ..conversation.messages import Conversation, Role
from ..conversation.tool_namespaces import ToolDescription
from .content_parts import content_texts
from .conversation_builder import Dialogue, read_effort
from .requested_tools import RequestedTools, read_function, read_tools
from .response_format import AnswerFormat, read_answer_format

__all__ = ["ReadChat", "conversation_from_chat", "is_chat", "read_chat", "tool_from_chat"]


def conversation_from_chat(
    request: Mapping[str, Any] | list[Any], *, conversation_start_date: str | None = None
) -> Conversation:
    """Turn a request, or its list of messages, into a harmony conversation.

    Raises `ConversationError`, which names the field at fault.

    >>> chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    >>> [message.author.role.value for message in conversation_from_chat(chat).messages]
    ['system', 'developer', 'user']
    """
    return read_chat(request, conversation_start_date=conversation_start_date).conversation


class ReadChat(NamedTuple):
    """A request as it was read: the conversation, and the tools and the format that it names."""

    conversation: Conversation
    tools: RequestedTools
    answer_format: AnswerFormat | None


def read_chat(
    request: Mapping[str, Any] | list[Any],
    *,
    conversation_start_date: str | None = None,
    default_effort: ReasoningEffort | None = ReasoningEffort.MEDIUM,
) -> ReadChat:
    """Read a request as `conversation_from_chat` does, and tell what else it held."""
    chat = JsonField(request if isinstance(request, Mapping) else {"messages": request})
    _refuse_old_functions(chat["functions"], "send tools instead")
    messages = list(chat["messages"].items())
    effort = read_effort(chat["reasoning_effort"], default_effort)
    tools = read_tools(chat["tools"].optional_items())
    answer_format = read_answer_format(chat["response_format"])
    dialogue = Dialogue(tools)
    for message in messages:
        _READERS[_role(message)](message, dialogue)
    conversation = dialogue.conversation(
        effort=effort, start_date=conversation_start_date, answer_format=answer_format
    )
    return ReadChat(conversation, tools, answer_format)


def is_chat(raw: object) -> bool:
    """Tell a Chat Completions request from a harmony conversation, both as parsed JSON.

    A conversation is harmony when a message has a channel, a recipient, a content type or an
    author, or a content that is no plain text. What could be either counts as chat.

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
    """Read a function tool, or the bare function; `field` is where it stands, for errors.

    >>> tool_from_chat({"type": "function", "function": {"name": "now"}})
    ToolDescription(name='now', description='', parameters=None)
    """
    return read_function(JsonField(raw, field))


# The messages


def _role(message: JsonField) -> Role:
    role = message["role"]
    if role.text() == "function":
        raise role.error("messages by functions are not read; send the role 'tool' instead")
    try:
        return Role(role.value)
    except ValueError:
        known = ", ".join(item.value for item in Role)
        raise role.unexpected(f"one of {known}") from None


def _refuse_old_functions(field: JsonField, remedy: str) -> None:
    if not field.is_null:
        raise field.error(f"functions of the API before tools are not read; {remedy}")


def _read_instructions(message: JsonField, dialogue: Dialogue) -> None:
    dialogue.add_instructions(content_texts(message["content"]))


def _read_user(message: JsonField, dialogue: Dialogue) -> None:
    dialogue.add_question(content_texts(message["content"]))


def _read_assistant(message: JsonField, dialogue: Dialogue) -> None:
    _refuse_old_functions(message["function_call"], "send tool_calls instead")
    reasoning = _reasoning(message)
    calls = list(message["tool_calls"].optional_items())
    if reasoning:
        dialogue.add_reasoning([reasoning])
    texts = _answer(message, needed=not (reasoning or calls))
    if texts is not None:
        dialogue.add_text(texts)
    for call in calls:
        _read_call(call, dialogue)


def _read_result(message: JsonField, dialogue: Dialogue) -> None:
    dialogue.add_result(
        message["tool_call_id"],
        content_texts(message["content"]),
        remedy="keep the assistant message with its tool_calls",
    )


_READERS = {
    Role.SYSTEM: _read_instructions,
    Role.DEVELOPER: _read_instructions,
    Role.USER: _read_user,
    Role.ASSISTANT: _read_assistant,
    Role.TOOL: _read_result,
}


def _reasoning(message: JsonField) -> str | None:
    """Read the reasoning under whichever of the names that servers give it."""
    names = ("reasoning", "reasoning_content", "thinking")
    return next(filter(None, (message[name].optional_text() for name in names)), None)


def _answer(message: JsonField, *, needed: bool) -> list[str] | None:
    """Read what the assistant said; beside reasoning and calls, it may be nothing."""
    content, refusal = message["content"], message["refusal"]
    if not content.value and not refusal.is_null:
        return [refusal.text()]
    if content.is_null and not needed:
        return None
    texts = content_texts(content)
    return texts if needed or any(texts) else None


def _read_call(call: JsonField, dialogue: Dialogue) -> None:
    call_id = call["id"].text()
    kind = call["type"]
    if kind.value == "custom":
        custom = call["custom"]
        dialogue.add_custom_call(call_id, custom["name"].text(), None, custom["input"].text())
    elif kind.is_null or kind.text() == "function":
        function = call["function"]
        arguments = function["arguments"].text()
        dialogue.add_call(call_id, function["name"].text(), None, arguments)
    else:
        raise kind.error(f"calls of the type {kind.value!r} have no form in harmony; remove it")


# Telling the formats apart


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
