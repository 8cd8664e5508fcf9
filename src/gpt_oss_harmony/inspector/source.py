"""The source that the page shows: a conversation, or a request of either API, as a conversation.

Unlike a server, it keeps the reasoning of past turns, because the page shows what is left out.

Messages are appended in the format of the source, so that its other fields stay. A harmony
conversation gets the messages as they are. A request of either API gets what a client of this API
would append: the assistant's message or items, the user's question, a tool's result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count, groupby
from typing import Any, NamedTuple

from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from ..apis.chat.fold import chat_message_of
from ..apis.chat.input import is_chat, read_chat
from ..apis.items import NewId
from ..apis.notices import Unread, first_of_each, unread_of_chat, unread_of_harmony
from ..apis.request_body import read_body, unknown_fields
from ..apis.requested_tools import RequestedTools, read_tool_choice
from ..apis.responses.output_items import items_of_messages
from ..apis.responses.request import ResponsesRequest, read_response
from ..apis.turn import ParsedRequest, noted, unread_fields
from ..conversation.built_in_tools import BUILT_IN_TOOLS
from ..conversation.json_field import JsonField, noting
from ..conversation.messages import Conversation, Message, Role
from ..encoding import load_harmony_encoding
from ..errors import ConversationError, closest
from ..sampled_messages import SampledMessage, with_sampled_tokens
from .wire import AppendBody, Form, SourceBody

_STORED = ("previous_response_id", "conversation")

_SAMPLED_TOKENS = "sampled_tokens"
"""A field of messages in harmony JSON: the token ids that the message was sampled as."""


class InspectedSource(NamedTuple):
    """A source as it was read, with `tool_choice` and `response_format` for `TurnOptions`.

    `tools` are those of a request; None for a conversation. `unread` are its fields that change
    nothing.
    """

    form: Form
    conversation: Conversation
    tool_choice: Any = None
    response_format: Mapping[str, Any] | None = None
    tools: RequestedTools | None = None
    unread: Sequence[Unread] = ()


def read_source(body: SourceBody) -> InspectedSource:
    """Read a source; raises `ConversationError`, which names the field at fault.

    A request for a built-in tool declares it, as a server with this tool does.

    >>> read_source(SourceBody(source={"input": "hi"})).form
    'responses'
    """
    source = body.source
    form: Form
    if body.form != "auto":
        form = body.form
    elif isinstance(source, list) or "messages" in source:
        form = "chat" if is_chat(source) else "harmony"
    elif "input" in source:
        form = "responses"
    else:
        raise _no_source(source)
    if form == "harmony":
        return _harmony(source, body.date)
    if form == "chat":
        fields = noting(source)
        read = read_chat(fields, conversation_start_date=body.date)
        unread = unread_of_chat(fields)
        return _request(form, read, {} if isinstance(source, list) else source, unread)
    request = noted(read_body(ResponsesRequest, source))
    for name in _STORED:
        if getattr(request, name) is not None:
            problem = "nothing is stored here; send the items before it as a part of input"
            raise ConversationError(problem, field=name)
    built_in = {name: tool.namespace for name, tool in BUILT_IN_TOOLS.items()}
    read = read_response(request, date=body.date, built_in=built_in)
    assert isinstance(source, Mapping)  # nothing else is read as a request
    unknown = unknown_fields(ResponsesRequest, source)
    paths = [*unknown, *unread_fields(dict(request), indices=True)]
    unread = first_of_each((path, ResponsesRequest.model_fields) for path in paths)
    return _request(form, read, dict(request), unread)


def _no_source(source: Mapping[str, Any]) -> ConversationError:
    """Say what is wrong with an object that has neither messages nor an input."""
    if "choices" in source or "output" in source:
        return ConversationError("this is a response, not a request; parse its raw text in Tokens")
    for name in ("messages", "input"):
        if closest(name, source, 0.8):
            return JsonField(source)[name].unexpected("a list")
    return ConversationError(
        "expected messages, as in harmony and in Chat Completions, or an input, as in Responses"
    )


def conversation_json(conversation: Conversation) -> dict[str, Any]:
    """Write harmony JSON with the tokens of sampled messages, so that it can be read again."""
    messages = [message.to_dict() for message in conversation.messages]
    for message, written in zip(conversation.messages, messages, strict=True):
        if isinstance(message, SampledMessage):
            written[_SAMPLED_TOKENS] = list(message.sampled_tokens)
    return {"messages": messages}


def _request(
    form: Form, read: ParsedRequest, fields: Mapping[str, Any], unread: Sequence[Unread]
) -> InspectedSource:
    response_format = read.response_format
    return InspectedSource(
        form,
        read.conversation,
        read_tool_choice(JsonField(fields)["tool_choice"], read.tools),
        None if response_format is None else response_format.to_dict(),
        read.tools,
        unread,
    )


def _harmony(source: Mapping[str, Any] | list[Any], date: str | None) -> InspectedSource:
    if date is not None:
        raise ConversationError(
            "this is for requests; write the date into the system content of the conversation, "
            "as conversation_start_date",
            field="date",
        )
    fields = {"messages": source} if isinstance(source, list) else source
    conversation = Conversation.from_json(json.dumps(fields))
    plain = [{**message, _SAMPLED_TOKENS: None} for message in fields["messages"]]
    unread = unread_of_harmony(plain, conversation)
    for index, raw in enumerate(fields["messages"]):
        tokens = raw.get(_SAMPLED_TOKENS)
        if tokens is not None:
            field = f"messages[{index}].{_SAMPLED_TOKENS}"
            conversation.messages[index] = _sampled(conversation.messages[index], tokens, field)
    response_format = fields.get("response_format")
    if response_format is not None and not isinstance(response_format, Mapping):
        raise ConversationError("expected an object", field="response_format")
    return InspectedSource(
        "harmony", conversation, fields.get("tool_choice"), response_format, unread=unread
    )


def _sampled(message: Message, tokens: object, field: str) -> Message:
    # By `type`, because true is an instance of `int`, too.
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise ConversationError("expected a list of token ids", field=field)
    encoding = load_harmony_encoding("HarmonyGptOss")
    (sampled,) = with_sampled_tokens(encoding, [message], tokens, [len(tokens)])
    if not isinstance(sampled, SampledMessage):
        raise ConversationError("these tokens say another message; leave them out", field=field)
    return sampled


# Appending

_CHAT_FIELDS = ("role", "content", "reasoning", "tool_calls")


class Appended(TypedDict):
    """The source with the messages."""

    form: Form
    source: dict[str, Any]


def appended(body: AppendBody) -> Appended:
    """Append messages; raises `ConversationError`, which names the field at fault."""
    form, _, _, _, tools, _ = read_source(body)
    source = {"messages": body.source} if isinstance(body.source, list) else body.source
    if tools is None:
        return {"form": form, "source": {**source, "messages": source["messages"] + body.messages}}
    name = "messages" if form == "chat" else "input"
    entries = source[name]
    if isinstance(entries, str):
        entries = [_question(entries)] if entries else []
    entries = list(entries)
    write = _chat_messages if form == "chat" else _items
    messages = [Message.from_dict(message) for message in body.messages]
    for role, group in groupby(messages, key=lambda message: message.author.role):
        if role is Role.ASSISTANT:
            entries += write(list(group), _new_ids(entries), tools)
        else:
            entries += [_other(message, entries, _RESULTS[form]) for message in group]
    return {"form": form, "source": {**source, name: entries}}


def _chat_messages(
    messages: Sequence[Message], new_id: NewId, tools: RequestedTools
) -> list[dict[str, Any]]:
    message = chat_message_of(messages, new_id, custom_tools=tools.custom, text_tools=tools.texts)
    return [{name: message[name] for name in _CHAT_FIELDS if message.get(name) is not None}]


def _items(
    messages: Sequence[Message], new_id: NewId, tools: RequestedTools
) -> list[dict[str, Any]]:
    items = items_of_messages(
        messages, new_id, custom_tools=tools.custom, namespaces=tools.namespaces
    )
    return [dict(entry.item) for entry in items]


def _question(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _other(
    message: Message, entries: Sequence[Any], result: Callable[[Sequence[Any], str], dict[str, Any]]
) -> dict[str, Any]:
    text = message.text
    if message.author.role is Role.USER:
        return _question(text)
    if message.author.role is Role.TOOL:
        return result(entries, text)
    raise ConversationError(
        "append messages of the user, the assistant or a tool", field="messages"
    )


def _chat_result(entries: Sequence[Any], text: str) -> dict[str, Any]:
    calls = [
        call["id"]
        for entry in entries
        for call in entry.get("tool_calls") or ()
        if entry.get("role") == "assistant"
    ]
    answered = {entry.get("tool_call_id") for entry in entries}
    return {"role": "tool", "tool_call_id": _open_call(calls, answered), "content": text}


def _result_item(entries: Sequence[Any], text: str) -> dict[str, Any]:
    calls = {
        entry["call_id"]: entry["type"]
        for entry in entries
        if entry.get("type") in ("function_call", "custom_tool_call")
    }
    answered = {
        entry.get("call_id") for entry in entries if str(entry.get("type")).endswith("_output")
    }
    call_id = _open_call(list(calls), answered)
    return {"type": f"{calls[call_id]}_output", "call_id": call_id, "output": text}


_RESULTS: Mapping[Form, Callable[[Sequence[Any], str], dict[str, Any]]] = {
    "chat": _chat_result,
    "responses": _result_item,
}


def _open_call(calls: Sequence[str], answered: set[Any]) -> str:
    """Return the id of the last call without a result."""
    for call_id in reversed(calls):
        if call_id not in answered:
            return call_id
    raise ConversationError("there is no call without a result", field="messages")


def _new_ids(entries: Sequence[Any]) -> NewId:
    """Number new ids, so that the same turn gives the same link; no id is used twice."""
    written = json.dumps(entries)
    numbers = count(1)

    def new_id(prefix: str) -> str:
        names = (f"{prefix}_{number}" for number in numbers)
        return next(name for name in names if f'"{name}"' not in written)

    return new_id
