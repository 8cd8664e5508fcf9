"""The chunks of a chat completion to the whole one, as a client joins them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ...conversation.messages import Message
from ..items import Ending, ItemRules, NewId, TurnEnded
from ..reader import item_events
from .writer import ChatCompletion, ChatWriter


@dataclass
class _Choice:
    """A choice so far: pieces of its texts by name, and its calls."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    arguments: list[list[str]] = field(default_factory=list)
    logprobs: list[Any] | None = None
    end: dict[str, Any] = field(default_factory=dict)

    def add(self, choice: Mapping[str, Any]) -> None:
        for name, value in choice["delta"].items():
            if name == "tool_calls":
                for call in value:
                    if call["index"] == len(self.calls):
                        self.calls.append({name: call[name] for name in call if name != "index"})
                        self.arguments.append([])
                    kind = self.calls[call["index"]]["type"]
                    self.arguments[call["index"]].append(call[kind][_TEXTS[kind]])
            elif name not in _CONSTANT:
                self.texts.setdefault(name, []).append(value)
        if choice["logprobs"] is not None:
            self.logprobs = (self.logprobs or []) + choice["logprobs"]["content"]
        if choice["finish_reason"] is not None:
            self.end = {name: choice[name] for name in choice if name not in _OF_CHUNK}

    def whole(self, index: int) -> dict[str, Any]:
        texts = {name: "".join(pieces) for name, pieces in self.texts.items()}
        content = texts.get("content", "")
        for call, pieces in zip(self.calls, self.arguments, strict=True):
            call[call["type"]] = {**call[call["type"]], _TEXTS[call["type"]]: "".join(pieces)}
        message = {
            "role": "assistant",
            "content": None if self.calls and not content else content,
            "refusal": None,
            "annotations": [],
            "reasoning": texts.get("reasoning") or None,
            "reasoning_content": texts.get("reasoning_content") or None,
            **({"tool_calls": self.calls} if self.calls else {}),
        }
        logprobs = None if self.logprobs is None else {"content": self.logprobs, "refusal": None}
        return {"index": index, "message": message, "logprobs": logprobs, **self.end}


_CONSTANT = ("role", "refusal", "annotations")
_OF_CHUNK = ("index", "delta", "logprobs")
_TEXTS = {"function": "arguments", "custom": "input"}


class ChatFold:
    """Joins the chunks of a stream; it has no usage if they have none."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._usage: dict[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Add a chunk."""
        if not self._head:
            self._head = {name: chunk[name] for name in chunk if name not in _JOINED}
        for choice in chunk["choices"]:
            self._choices.setdefault(choice["index"], _Choice()).add(choice)
        if chunk.get("usage") is not None:
            self._usage = {"usage": chunk["usage"]}

    def whole(self) -> ChatCompletion:
        """Return the completion."""
        choices = [choice.whole(index) for index, choice in sorted(self._choices.items())]
        whole = {**self._head, "object": "chat.completion", "choices": choices, **self._usage}
        return cast("ChatCompletion", whole)


_JOINED = ("object", "choices", "usage")


def chat_message_of(
    messages: Sequence[Message],
    new_id: NewId,
    *,
    custom_tools: Collection[str] = (),
    text_tools: Collection[str] = (),
    shows_reasoning: bool = True,
    is_cut: bool = False,
) -> dict[str, Any]:
    """Make the message for a turn; `new_id` makes the ids of calls.

    `text_tools` are the custom tools whose calls contain plain text instead of JSON. With `is_cut`,
    the tokens ended inside the last message; a call without arguments gets ``{}`` only if the model
    ended it.

    The content joins the preambles and the answer. Clients read reasoning under one of two names,
    so the message has it under both.

    >>> thought = Message.from_role_and_content("assistant", "Hm.").with_channel("analysis")
    >>> chat_message_of([thought], str)["reasoning"]
    'Hm.'
    """
    rules = ItemRules(custom_tools, text_tools, shows_reasoning=shows_reasoning)
    writer, fold = ChatWriter({}), ChatFold()
    events: Iterable[Any] = item_events(messages, rules, new_id, is_cut=is_cut)
    for event in (*events, TurnEnded(Ending.ANSWER)):
        for chunk in writer.take(event):
            fold.add(chunk.fields())
    message: dict[str, Any] = fold.whole()["choices"][0]["message"]
    return message
