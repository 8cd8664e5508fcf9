"""What a conversation says in vain: fields that nothing reads, channels and types that are none."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..conversation.content import CHANNELS
from ..conversation.json_field import NOTHING, unread_in
from ..conversation.messages import Conversation, Message, declared_tools
from ..errors import did_you_mean
from ..typescript.json_text import JsonValue
from ..typescript.references import type_problem, unknown_types

_SHOWN = 5


def notices(conversation: Conversation, unread: Sequence[str]) -> list[str]:
    """Name the `unread` fields, the first unknown channel, and the first unknown type of a tool."""
    found = [f"nothing reads {', '.join(unread[:_SHOWN])}"] if unread else []
    channels = ((i, one.channel) for i, one in enumerate(conversation.messages) if one.channel)
    for index, channel in itertools.islice((c for c in channels if c[1] not in CHANNELS), 1):
        remedy = did_you_mean(channel, CHANNELS, f"there are {', '.join(CHANNELS)}")
        problem = f"the models know no channel {channel!r:.60}; {remedy}"
        found.append(f"messages[{index}].channel: {problem}")
    tools = declared_tools(conversation.messages).values()
    return found + schema_notices(tool.parameters for tool in tools if tool is not None)


def schema_notices(schemas: Iterable[JsonValue]) -> list[str]:
    """Name the first type with an unknown name, which becomes ``any``.

    >>> schema_notices([{"type": "objct"}])
    ['"objct" is not the name of a type; write "object"']
    """
    unknown = itertools.chain.from_iterable(map(unknown_types, schemas))
    return ["; ".join(type_problem(name)) for name in itertools.islice(unknown, 1)]


def unread_of_chat(request: Any) -> list[str]:
    """Name the fields of a Chat Completions request, or its messages, that change nothing.

    Its objects have noted what was read; see `noting`. The API's own fields for sampling are not
    among them.
    """
    unread = dict.fromkeys(unread_in(request, "messages" if isinstance(request, list) else ""))
    names = [name.removeprefix(".") for name in unread]
    if isinstance(request, Mapping) and any("." not in name for name in names):
        # Imported where it is needed, because a command would start later.
        from .chat.request import ChatRequest
        from .request_body import unknown_fields

        unknown = unknown_fields(ChatRequest, request)
        names = [name for name in names if name in unknown or "." in name]
        names = with_meant(names, ChatRequest.model_fields)
    return names


def unread_of_harmony(messages: Sequence[Any], conversation: Conversation) -> list[str]:
    """Name the fields of messages in canonical JSON that the conversation made of them lacks."""
    kept = conversation.to_dict()["messages"]
    return list(dict.fromkeys(_lacking(messages, kept, "messages")))


def _lacking(written: Any, kept: Any, path: str) -> Iterator[str]:
    """Yield the names of the fields that are written, but not kept; without indices."""
    if isinstance(written, Mapping) and isinstance(kept, Mapping):
        known = {*kept, *Message.model_fields}  # fields without a value are not kept
        for name, value in written.items():
            if name in kept:
                yield from _lacking(value, kept[name], f"{path}.{name}")
            elif value not in NOTHING:
                yield f"{path}.{with_meant([name], known)[0]}"
    elif isinstance(kept, list):  # one content may stand without a list
        for inner, of_inner in zip(
            written if type(written) is list else [written], kept, strict=False
        ):
            yield from _lacking(inner, of_inner, f"{path}[]")


def with_meant(unknown: Iterable[str], fields: Collection[str]) -> list[str]:
    """Add to each unknown field the one that may be meant.

    >>> with_meant(["tool_choise", "x"], ["tool_choice"])
    ['tool_choise (did you mean tool_choice?)', 'x']
    """
    meant = ((name, did_you_mean(name, fields, likeness=0.8)) for name in unknown)
    return [f"{name} ({remedy})" if remedy else name for name, remedy in meant]
