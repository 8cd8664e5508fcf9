"""What a conversation says in vain: fields that nothing reads, channels and types that are none."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..conversation.content import CHANNELS
from ..conversation.json_field import NOTHING, unread_in, without_indices
from ..conversation.messages import Conversation, Message, Role, declared_tools
from ..errors import did_you_mean
from ..typescript.json_text import JsonValue
from ..typescript.references import type_problem, unknown_types

_SHOWN = 5


class Notice(NamedTuple):
    """What is said in vain, and its field, if it has one."""

    text: str
    param: str | None = None


def notices(conversation: Conversation, unread: Sequence[Unread]) -> list[Notice]:
    """Name the `unread` fields, and the first unknown channel, called tool and type of a tool."""
    found: list[Notice] = []
    if unread:
        named = ", ".join(map(str, unread[:_SHOWN]))
        others = f" and {len(unread) - _SHOWN} others" if len(unread) > _SHOWN else ""
        found.append(Notice(f"nothing reads {named}{others}", unread[0].path))
    channels = ((i, one.channel) for i, one in enumerate(conversation.messages) if one.channel)
    for index, channel in itertools.islice((c for c in channels if c[1] not in CHANNELS), 1):
        remedy = did_you_mean(channel, CHANNELS, f"there are {', '.join(CHANNELS)}")
        path = f"messages[{index}].channel"
        problem = f"the models know no channel {channel!r:.60}; {remedy}"
        found.append(Notice(f"{path}: {problem}", path))
    tools = declared_tools(conversation.messages)
    found += _undeclared(conversation, tools) if tools else ()
    schemas = (tool.parameters for tool in tools.values() if tool is not None)
    return found + list(map(Notice, schema_notices(schemas)))


def _undeclared(conversation: Conversation, tools: Collection[str]) -> Iterator[Notice]:
    """Name the first call of what no message declares."""
    for index, message in enumerate(conversation.messages):
        name = message.recipient
        if message.author.role is not Role.ASSISTANT or name in (None, "assistant", "all"):
            continue
        if name not in tools and name.partition(".")[0] not in tools:
            remedy = did_you_mean(name, tools, f"there are {', '.join(tools)}"[:200])
            path = f"messages[{index}].recipient"
            yield Notice(f"{path}: no message declares {name!r:.60}; {remedy}", path)
            return


def schema_notices(schemas: Iterable[JsonValue]) -> list[str]:
    """Name the first type with an unknown name, which becomes ``any``.

    >>> schema_notices([{"type": "objct"}])
    ['"objct" is not the name of a type; write "object"']
    """
    unknown = itertools.chain.from_iterable(map(unknown_types, schemas))
    return ["; ".join(type_problem(name)) for name in itertools.islice(unknown, 1)]


class Unread(NamedTuple):
    """A field that changes nothing: its first path, the name that may be meant, and how often."""

    path: str
    meant: str = ""
    times: int = 1

    def __str__(self) -> str:
        said = [self.meant] * bool(self.meant) + [f"{self.times} times"] * (self.times > 1)
        return f"{self.path} ({', '.join(said)})" if said else self.path


def unread_of_chat(request: Any) -> list[Unread]:
    """Name the fields of a Chat Completions request, or its messages, that change nothing.

    Its objects have noted what was read; see `noting`. The API's own fields for sampling are not
    among them.
    """
    found = unread_in(request, "messages" if isinstance(request, list) else "", indices=True)
    paths = [path.removeprefix(".") for path in found]
    known: Collection[str] = ()
    if isinstance(request, Mapping) and any("." not in path for path in paths):
        # Imported where it is needed, because a command would start later.
        from .chat.request import ChatRequest
        from .request_body import unknown_fields

        unknown, known = unknown_fields(ChatRequest, request), ChatRequest.model_fields
        paths = [path for path in paths if path in unknown or "." in path]
    return first_of_each((path, known) for path in paths)


def unread_of_harmony(messages: Sequence[Any], conversation: Conversation) -> list[Unread]:
    """Name the fields of messages in canonical JSON that the conversation made of them lacks."""
    return first_of_each(_lacking(messages, conversation.to_dict()["messages"], "messages"))


def _lacking(written: Any, kept: Any, path: str) -> Iterator[tuple[str, Collection[str]]]:
    """Yield the paths of the fields that are written, but not kept, and the names beside them."""
    if isinstance(written, Mapping) and isinstance(kept, Mapping):
        known = {*kept, *Message.model_fields}  # fields without a value are not kept
        for name, value in written.items():
            if name in kept:
                yield from _lacking(value, kept[name], f"{path}.{name}")
            elif value not in NOTHING:
                yield f"{path}.{name}", known
    elif isinstance(kept, list):  # one content may stand without a list
        items = written if type(written) is list else [written]
        for index, (inner, of_inner) in enumerate(zip(items, kept, strict=False)):
            yield from _lacking(inner, of_inner, f"{path}[{index}]")


def first_of_each(paths: Iterable[tuple[str, Collection[str]]]) -> list[Unread]:
    """Keep the first of the paths that differ in their indices alone; with each, known names.

    >>> str(first_of_each([("tools[1].strct", ["strict"]), ("tools[2].strct", ["strict"])])[0])
    'tools[1].strct (did you mean strict?, 2 times)'
    """
    found: dict[str, Unread] = {}
    for path, known in paths:
        like = without_indices(path)
        if like in found:
            found[like] = found[like]._replace(times=found[like].times + 1)
        else:
            meant = did_you_mean(path.rpartition(".")[2], known, likeness=0.8)
            found[like] = Unread(path, meant)
    return list(found.values())
