"""Texts of raw completions to their chunks, of one choice or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict  # pydantic needs that of Python 3.12

from ..chat.writer import ChatUsage, chat_usage
from ..items import (
    ItemText,
    TokenLogprob,
    TurnEnded,
    Usage,
    repetition_detail,
    shown_logprob,
)
from ..wire_events import Event, event_of
from .request import CompletionPrompt, CompletionRequest


class LogprobLists(TypedDict):
    """Lists of the same length: an entry for each token.

    With `echo`, the tokens of the prompt come first; the first of all has no log-probability.
    """

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class CompletionChoice(TypedDict):
    """A choice, or the part in a chunk; `finish_reason` is null in all chunks but the last."""

    index: int
    text: str
    logprobs: LogprobLists | None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: NotRequired[Literal["repetition"]]
    prompt_token_ids: NotRequired[list[int]]
    token_ids: NotRequired[list[int]]


class CompletionAnswer(TypedDict):
    """A completion, or a chunk of it."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: NotRequired[ChatUsage | None]


@dataclass
class _Choice:
    """What the next chunk of a choice depends on."""

    has_begun: bool = False
    last: ItemText = field(default_factory=lambda: ItemText(0, ""))
    usage: Usage | None = None


class CompletionsWriter:
    """Writes the chunks of a completion, then the usage; the text has the echo of the prompt first.

    A chunk without an addition is left out, unless it is a choice's first. The usage is in a chunk
    of its own, and null in all others, if the request or `includes_usage` asks for it.
    """

    def __init__(
        self,
        request: CompletionRequest,
        prompts: Sequence[CompletionPrompt],
        head: Mapping[str, Any],
        *,
        includes_usage: bool = False,
    ) -> None:
        self._request = request
        self._prompts = prompts
        self._head = head
        self._width = request.n or 1
        self._choices = [_Choice() for _ in range(len(prompts) * self._width)]
        self._nothing = {"usage": None} if includes_usage or request.includes_usage else {}

    def take(self, event: ItemText | TurnEnded, choice: int = 0) -> Iterator[Event]:
        """Write the chunks of an event of a choice; the choices of a prompt follow each other."""
        state, request = self._choices[choice], self._request
        if isinstance(event, ItemText):
            if event.is_last:  # clients expect the reason beside the last token
                state.last = event
                return
            added, finish = event, {"finish_reason": None}
        else:
            added, finish = state.last, self._finish(event)
            state.usage = event.usage
        addition: dict[str, Any] = {"text": added.text, "logprobs": None, **finish}
        if added.logprobs:
            addition["logprobs"] = self._logprobs(added.logprobs)
        if request.return_token_ids:
            if not state.has_begun:
                addition["prompt_token_ids"] = self._prompts[choice // self._width].tokens
            addition["token_ids"] = list(added.tokens)
        if not state.has_begun or any(addition.get(field) for field in _CHUNK_FIELDS):
            state.has_begun = True
            yield self._chunk([{"index": choice, **addition}])
        if self._nothing and all(each.usage is not None for each in self._choices):
            yield self._chunk([], usage=self._usage())

    def _finish(self, ended: TurnEnded) -> dict[str, Any]:
        return {"finish_reason": ended.ending.finish_reason, **repetition_detail(ended.ending)}

    def _chunk(self, choices: Sequence[Any], **usage: Any) -> Event:
        return event_of({**self._head, "choices": choices, **self._nothing, **usage})

    def _usage(self) -> ChatUsage:
        """Count the tokens of all choices, and those of each prompt once."""
        usages = [choice.usage or Usage() for choice in self._choices]
        firsts = range(0, len(usages), self._width)
        cached = (
            min(usage.cached_tokens for usage in usages[first : first + self._width])
            for first in firsts
        )
        total = Usage(
            input_tokens=sum(usages[first].input_tokens for first in firsts),
            cached_tokens=sum(cached),
            output_tokens=sum(usage.output_tokens for usage in usages),
        )
        return chat_usage([total])

    def _logprobs(self, logprobs: Sequence[TokenLogprob]) -> LogprobLists:
        """Write tokens as the API does; the sampled one is always among the likeliest."""
        lists: LogprobLists = {
            "text_offset": [],
            "token_logprobs": [],
            "tokens": [],
            "top_logprobs": [],
        }
        for token, data, logprob, top, offset in logprobs:
            name = self._name(token, data)
            own = None if logprob is None else shown_logprob(logprob)
            likeliest = {
                self._name(other, other_data): shown_logprob(value)
                for other, other_data, value in top
            }
            lists["text_offset"].append(offset)
            lists["token_logprobs"].append(own)
            lists["tokens"].append(name)
            lists["top_logprobs"].append(None if own is None else {**likeliest, name: own})
        return lists

    def _name(self, token: int, data: bytes) -> str:
        if self._request.return_tokens_as_token_ids:
            return f"token_id:{token}"
        try:
            return data.decode()
        except UnicodeDecodeError:  # a part of a character
            # OpenAI's API has this form for a token whose bytes are no text.
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


_CHUNK_FIELDS = ("text", "logprobs", "token_ids", "finish_reason")
