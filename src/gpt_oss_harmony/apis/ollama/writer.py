"""Item events to the lines of an answer of Ollama's API, each a JSON object.

Reasoning, text and calls come in lines of their own; a call comes whole, because its arguments are
an object, and one that was cut does not come. The last line has the numbers of tokens, and the
time that they took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

from ..chat.writer import CHAT_JOINT
from ..conversation_builder import arguments_object
from ..items import ItemBegun, ItemEnded, ItemEvent, ItemKind, ItemText, TurnEnded
from ..wire_events import Event, event_of

INVALID_ARGUMENTS = "invalid_json"
"""The only argument of a call whose arguments are not a JSON object: its text."""


class OllamaWriter:
    """Writes the lines; without `is_chat`, they are those of ``/api/generate``.

    `now` returns the time in nanoseconds since 1970.

    >>> writer = OllamaWriter("gpt-oss:20b", now=lambda: 0)
    >>> for event in (ItemBegun(0, ItemKind.FINAL_ANSWER), ItemText(0, "Hi")):
    ...     lines = [line.fields() for line in writer.take(event)]
    >>> lines[0]["message"], lines[0]["created_at"]
    ({'role': 'assistant', 'content': 'Hi'}, '1970-01-01T00:00:00.000000Z')
    """

    def __init__(self, model: str, *, now: Callable[[], int], is_chat: bool = True) -> None:
        self._model = model
        self._now = now
        self._is_chat = is_chat
        self._began = now()
        self._first: int | None = None  # the time of the first event
        self._item: ItemBegun | None = None
        self._with_text: set[bool] = set()  # whether the reasoning or the answer has text, or both
        self._calls = 0
        self._joint = ""

    def take(self, event: ItemEvent) -> Iterator[Event]:
        """Write the lines of an event."""
        if self._first is None:
            self._first = self._now()
        if isinstance(event, ItemBegun):
            self._item = event
            # All reasoning is one text, and a preamble and the answer are, as in Chat Completions.
            is_reasoning = event.kind is ItemKind.REASONING
            self._joint = CHAT_JOINT if is_reasoning in self._with_text else ""
        elif isinstance(event, TurnEnded):
            yield self._line("", done=True, **self._end(event))
        elif self._item is None:
            raise ValueError(f"{event} does not belong to an item that has begun")
        elif isinstance(event, ItemText):
            yield from self._text(self._item, event)
        elif self._item.kind.is_call and self._is_chat and event.is_complete:
            yield self._call(self._item, event)

    def _text(self, item: ItemBegun, added: ItemText) -> Iterator[Event]:
        if item.kind.is_call or item.is_hidden:
            return
        is_reasoning = item.kind is ItemKind.REASONING
        text, self._joint = self._joint + added.text, ""
        self._with_text.add(is_reasoning)
        if is_reasoning:
            yield self._line("", thinking=text)
            return
        more: dict[str, Any] = {}
        if added.logprobs:
            more["logprobs"] = [logprob.to_json() for logprob in added.logprobs]
        yield self._line(text, **more)

    def _call(self, item: ItemBegun, ended: ItemEnded) -> Event:
        arguments = arguments_object(ended.text, INVALID_ARGUMENTS)
        index, self._calls = self._calls, self._calls + 1
        function = {"index": index, "name": item.full_name, "arguments": arguments}
        return self._line("", tool_calls=[{"id": item.call_id, "function": function}])

    def _end(self, ended: TurnEnded) -> dict[str, Any]:
        now, first = self._now(), self._first or self._began
        return {
            "done_reason": ended.ending.finish_reason,
            "total_duration": now - self._began,
            "load_duration": 0,
            "prompt_eval_count": ended.usage.input_tokens,
            "prompt_eval_duration": first - self._began,
            "eval_count": ended.usage.output_tokens,
            "eval_duration": now - first,
        }

    def _line(self, text: str, *, done: bool = False, **more: Any) -> Event:
        time = datetime.fromtimestamp(self._now() / 1e9, timezone.utc)
        head = {"model": self._model, "created_at": time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        names = ("thinking", "tool_calls")
        said: dict[str, Any] = {name: more.pop(name) for name in names if name in more}
        if self._is_chat:
            said = {"message": {"role": "assistant", "content": text, **said}}
        else:
            said["response"] = text
        return event_of({**head, **said, "done": done, **more})
