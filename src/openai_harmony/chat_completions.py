"""A Chat Completions request comes in, with the field names of the OpenAI API; out comes the
harmony conversation that says the same.

===========================  ====================================================================
system settings              a ``system`` message, from the defaults and ``reasoning_effort``
``system``, ``developer``    the instructions of one ``developer`` message, wherever they stood
``tools``                    functions in that ``developer`` message
``response_format``          a response format in that ``developer`` message
``reasoning`` or its like    an assistant's ``analysis`` message
``content``                  ``final``, or a preamble on ``commentary`` when calls follow
``tool_calls``               calls on ``commentary``, their arguments as they are
``tool``                     the answer by the function that was called
===========================  ====================================================================

Fields that say nothing about the prompt (``model``, ``tool_choice``, ...) are ignored, and so is
an author's ``name``: the format names only tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .content import DeveloperContent, ReasoningEffort, SystemContent, TextContent
from .errors import ConversationError
from .messages import Author, Conversation, Message, Role
from .tool_namespaces import ToolDescription

__all__ = ["conversation_from_chat", "is_chat", "tool_from_chat"]


def conversation_from_chat(
    request: Mapping[str, Any] | list[Any], *, conversation_start_date: str | None = None
) -> Conversation:
    """Turn a request, or its list of messages, into a harmony conversation.

    Raises `ConversationError`, which names the field at fault.

    >>> chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    >>> [message.author.role.value for message in conversation_from_chat(chat).messages]
    ['system', 'developer', 'user']
    """
    chat = _Field(request if isinstance(request, Mapping) else {"messages": request})
    _refuse_old_functions(chat["functions"], "send tools instead")
    messages = list(chat["messages"].items())
    system = _system(chat["reasoning_effort"], conversation_start_date)
    developer = _developer(messages, chat)
    opening = [Message.from_role_and_content(Role.SYSTEM, system)]
    if developer != DeveloperContent():
        opening.append(Message.from_role_and_content(Role.DEVELOPER, developer))
    return Conversation.from_messages([*opening, *_history(messages)])


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
    return _tool(_Field(raw, field))


# Reading JSON


@dataclass(frozen=True)
class _Field:
    """A JSON value and where it stands, so that every error can name the place."""

    value: Any
    place: str = ""

    def __getitem__(self, key: str) -> _Field:
        """Return a field of an object; null when it is missing."""
        return _Field(self.object().get(key), f"{self.place}.{key}" if self.place else key)

    @property
    def is_null(self) -> bool:
        return self.value is None

    def object(self) -> Mapping[str, Any]:
        if not isinstance(self.value, Mapping):
            raise self.unexpected("an object")
        return self.value

    def items(self) -> Iterator[_Field]:
        if not isinstance(self.value, list):
            raise self.unexpected("a list")
        for at, item in enumerate(self.value):
            yield _Field(item, f"{self.place}[{at}]")

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.unexpected("text")
        return self.value

    def unexpected(self, expected: str) -> ConversationError:
        if self.is_null:
            return self.error(f"the field is missing; expected {expected}")
        return self.error(f"expected {expected}, found {self.value!r:.80}")

    def error(self, problem: str) -> ConversationError:
        return ConversationError(problem, field=self.place)


def _optional_items(field: _Field) -> Iterable[_Field]:
    return () if field.is_null else field.items()


def _optional_text(field: _Field) -> str | None:
    return None if field.is_null else field.text()


def _refuse_old_functions(field: _Field, remedy: str) -> None:
    if not field.is_null:
        raise field.error(f"functions of the API before tools are not read; {remedy}")


# The request


def _system(reasoning_effort: _Field, start_date: str | None) -> SystemContent:
    content = SystemContent(conversation_start_date=start_date)
    if reasoning_effort.is_null:
        return content
    known = {effort.value.lower(): effort for effort in ReasoningEffort}
    effort = reasoning_effort.text()
    if effort not in known:
        raise reasoning_effort.unexpected(f"one of {', '.join(known)}")
    return content.with_reasoning_effort(known[effort])


def _developer(messages: list[_Field], chat: _Field) -> DeveloperContent:
    content = DeveloperContent()
    instructions = "\n\n".join(_instructions(messages))
    if instructions:
        content.with_instructions(instructions)
    tools = [_chat_tool(tool) for tool in _optional_items(chat["tools"])]
    if tools:
        content.with_function_tools(tools)
    if not chat["response_format"].is_null:
        _add_response_format(content, chat["response_format"])
    return content


def _instructions(messages: list[_Field]) -> Iterator[str]:
    for message in messages:
        if _role(message) in (Role.SYSTEM, Role.DEVELOPER):
            yield from filter(None, _texts(message["content"]))


def _chat_tool(tool: _Field) -> ToolDescription:
    kind = tool["type"]
    if kind.text() != "function":
        raise kind.error(f"tools of the type {kind.value!r} have no form in harmony; remove it")
    return _tool(tool)


def _tool(tool: _Field) -> ToolDescription:
    function = tool if tool["function"].is_null else tool["function"]
    parameters = function["parameters"]
    return ToolDescription(
        name=function["name"].text(),
        description=_optional_text(function["description"]) or "",
        parameters=None if parameters.is_null else dict(parameters.object()),
    )


def _add_response_format(content: DeveloperContent, response_format: _Field) -> None:
    kind = response_format["type"]
    if kind.text() not in ("text", "json_object", "json_schema"):
        raise kind.unexpected("one of text, json_object, json_schema")
    if kind.value != "json_schema":
        return  # as with the API, it is the instructions that ask for JSON
    wanted = response_format["json_schema"]
    schema = wanted["schema"]
    content.with_response_format(
        wanted["name"].text(),
        {} if schema.is_null else dict(schema.object()),
        _optional_text(wanted["description"]),
    )


# The messages


def _role(message: _Field) -> Role:
    role = message["role"]
    if role.text() == "function":
        raise role.error("messages by functions are not read; send the role 'tool' instead")
    try:
        return Role(role.value)
    except ValueError:
        known = ", ".join(item.value for item in Role)
        raise role.unexpected(f"one of {known}") from None


def _history(messages: list[_Field]) -> Iterator[Message]:
    called: dict[str, str] = {}  # the id of a tool call, and the function it named
    for message in messages:
        role = _role(message)
        if role is Role.USER:
            yield _text_message(Role.USER, _texts(message["content"]))
        elif role is Role.ASSISTANT:
            yield from _assistant(message)
            for call in _optional_items(message["tool_calls"]):
                called[call["id"].text()] = call["function"]["name"].text()
        elif role is Role.TOOL:
            yield _tool_answer(message, called)


def _assistant(message: _Field) -> Iterator[Message]:
    _refuse_old_functions(message["function_call"], "send tool_calls instead")
    reasoning = _reasoning(message)
    calls = list(_optional_items(message["tool_calls"]))
    if reasoning:
        yield _text_message(Role.ASSISTANT, [reasoning]).with_channel("analysis")
    texts = _answer(message, needed=not (reasoning or calls))
    if texts is not None:
        channel = "commentary" if calls else "final"
        yield _text_message(Role.ASSISTANT, texts).with_channel(channel)
    for call in calls:
        yield _call(call)


def _reasoning(message: _Field) -> str | None:
    """Read the reasoning under whichever of the names that servers give it."""
    names = ("reasoning", "reasoning_content", "thinking")
    return next(filter(None, (_optional_text(message[name]) for name in names)), None)


def _answer(message: _Field, *, needed: bool) -> list[str] | None:
    """Read what the assistant said; beside reasoning and calls, it may be nothing."""
    content, refusal = message["content"], message["refusal"]
    if not content.value and not refusal.is_null:
        return [refusal.text()]
    if content.is_null and not needed:
        return None
    texts = _texts(content)
    return texts if needed or any(texts) else None


def _call(call: _Field) -> Message:
    kind = call["type"]
    if not kind.is_null and kind.text() != "function":
        raise kind.error(f"calls of the type {kind.value!r} have no form in harmony; remove it")
    function = call["function"]
    return (
        Message.from_role_and_content(Role.ASSISTANT, function["arguments"].text())
        .with_channel("commentary")
        .with_recipient(f"functions.{function['name'].text()}")
        .with_content_type("<|constrain|>json")
    )


def _tool_answer(message: _Field, called: Mapping[str, str]) -> Message:
    call_id = message["tool_call_id"]
    name = called.get(call_id.text())
    if name is None:
        raise call_id.error(
            f"no tool call before this message has the id {call_id.value!r}; "
            "keep the assistant message with its tool_calls"
        )
    answer = _text_message(Role.TOOL, _texts(message["content"]))
    answer.author = Author.new(Role.TOOL, f"functions.{name}")
    return answer.with_recipient("assistant").with_channel("commentary")


def _text_message(role: Role, texts: list[str]) -> Message:
    return Message.from_role_and_contents(role, [TextContent(text=text) for text in texts])


def _texts(content: _Field) -> list[str]:
    """Read a content: text, or a list of text parts."""
    if isinstance(content.value, str):
        return [content.value]
    if not isinstance(content.value, list):
        raise content.unexpected("text or a list of text parts")
    return [_part_text(part) for part in content.items()]


def _part_text(part: _Field) -> str:
    kind = part["type"].text()
    if kind not in ("text", "refusal"):
        raise part.error(
            f"the models read text only; remove the part of the type {kind!r} or describe it"
        )
    return part[kind].text()


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
