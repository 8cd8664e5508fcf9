"""Requests of Ollama's API, which become Chat Completions requests and then the same turn.

=====================  ==========================================================================
``options``            sampling: ``num_predict`` is the limit on tokens, ``stop`` the stop texts
``think``              an effort, or whether the client sees the reasoning: the model always reasons
``format``             ``json``, or a JSON Schema
``tool_calls``         have no ids; a result belongs to the first call without one, of its name
``prompt``, ``system`` the messages of ``/api/generate``
=====================  ==========================================================================

``raw`` is refused: a prompt of the caller's own goes to ``/v1/completions``, as text or token ids.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from ...conversation.json_field import JsonField
from ...errors import ConversationError
from ..chat.request import ChatRequest
from ..conversation_builder import arguments_text
from ..request_body import (
    Refused,
    RequestBody,
    RequestSettings,
    StopTexts,
    Unsupported,
    read_body,
)
from .writer import INVALID_ARGUMENTS


class OllamaOptions(RequestSettings):
    """The settings of sampling, in Ollama's names."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: StopTexts | None = None
    num_predict: int | None = Field(
        default=None, ge=-2, description="The most tokens; -1 and -2 are no limit."
    )
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "seed": "seed",
    "stop": "stop",
    "repetition_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""The options that Chat Completions has as fields, by its names."""


class OllamaRequest(RequestBody):
    """What both kinds of requests have."""

    model: str
    stream: bool | None = Field(
        default=None, description="Whether the answer comes line by line; true by default."
    )
    think: bool | Literal["low", "medium", "high"] | None = Field(
        default=None, description="An effort; false hides the reasoning."
    )
    format: Literal["", "json"] | dict[str, Any] | None = Field(
        default=None, description="`json`, or a JSON Schema."
    )
    options: OllamaOptions | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)

    @property
    def streams(self) -> bool:
        """Whether the answer comes line by line."""
        return self.stream is not False

    def chat(self) -> ChatRequest:
        """Return the same request of Chat Completions. Raises `ConversationError`."""
        options = self.options or OllamaOptions()
        limit = options.num_predict
        body: dict[str, Any] = {
            **{name: getattr(options, option) for name, option in _OPTIONS.items()},
            "model": self.model,
            "messages": list(self._messages()),
            "tools": self._tools(),
            "max_tokens": limit if limit is not None and limit > 0 else None,
            "reasoning_effort": self.think if isinstance(self.think, str) else None,
            "include_reasoning": False if self.think is False else None,
            "continue_final_message": self._continues(),
            "logprobs": self.logprobs,
            "top_logprobs": self.top_logprobs,
        }
        if isinstance(self.format, dict):
            form = {"name": "answer", "schema": self.format}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif self.format:
            body["response_format"] = {"type": "json_object"}
        try:
            return read_body(ChatRequest, {k: v for k, v in body.items() if v is not None})
        except ConversationError as error:
            name = re.split(r"\W", error.field, maxsplit=1)[0]
            if name not in _OPTIONS:
                raise
            field = f"options.{_OPTIONS[name]}{error.field.removeprefix(name)}"
            raise ConversationError(error.problem, field=field) from None

    def _messages(self) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def _continues(self) -> bool:
        """Whether the model goes on writing the last message, as Ollama lets it."""
        return False

    def _tools(self) -> list[dict[str, Any]] | None:
        return None


class OllamaChatRequest(OllamaRequest):
    """A request of ``/api/chat``."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None

    def _tools(self) -> list[dict[str, Any]] | None:
        return self.tools

    def _continues(self) -> bool:
        last = self.messages[-1]
        is_text = bool(last.get("content")) and not last.get("tool_calls")
        # A form of the answer cannot be enforced after its beginning.
        return last.get("role") == "assistant" and is_text and self.format in (None, "")

    def _messages(self) -> Iterator[dict[str, Any]]:
        waiting: deque[tuple[str, str]] = deque()  # calls without a result: their ids and names
        for place, message in enumerate(JsonField(self.messages, "messages").items()):
            if message["images"].value:
                raise message["images"].error("the model reads only text; leave the images out")
            # Chat Completions reads the copy under the same names, and reports the other fields.
            said = {**message.object()}
            text = "" if said.get("content") is None else said["content"]
            if said.get("role") == "assistant" and (calls := message["tool_calls"]).value:
                said["tool_calls"] = list(_chat_calls(calls, place))
                waiting += [(call["id"], call["function"]["name"]) for call in said["tool_calls"]]
                text = None if text == "" else text
            elif said.get("role") == "tool":
                said["tool_call_id"], name = _answered_call(message, waiting)
                for field in ("tool_name", "name"):
                    if said.get(field) == name:
                        del said[field]
            said["content"] = text
            yield said


class OllamaGenerateRequest(OllamaRequest):
    """A request of ``/api/generate``."""

    prompt: str | None = None
    system: str | None = None
    raw: Annotated[
        Any,
        Refused(
            "the server renders the prompt; send a prompt of your own to `/v1/completions`, as "
            "text or token ids"
        ),
    ] = None
    suffix: Unsupported = None
    template: Unsupported = None
    context: Unsupported = None
    images: Unsupported = None

    def _messages(self) -> Iterator[dict[str, Any]]:
        if self.system:
            yield {"role": "system", "content": self.system}
        yield {"role": "user", "content": self.prompt or ""}


def _chat_calls(calls: JsonField, place: int) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(calls.optional_items()):
        function = call["function"]
        said = {**function.object(), "name": function["name"].text()}
        said["arguments"] = arguments_text(function["arguments"], INVALID_ARGUMENTS)
        said.pop("index", None)  # of an answer that comes back
        id = call["id"].optional_text() or f"call_{place}_{index}"
        yield {**call.object(), "id": id, "function": said}


def _answered_call(message: JsonField, waiting: deque[tuple[str, str]]) -> tuple[str, str]:
    """Return the call that a result answers, by its id, by its name, or in order."""
    id = message["tool_call_id"].optional_text()
    name = message["tool_name"].optional_text() or message["name"].optional_text()
    found = next((call for call in waiting if call[0] == id), None)
    if found is None and name is not None:
        found = next((call for call in waiting if call[1] == name), None)
    elif found is None and waiting:
        found = waiting[0]
    if found is None:
        problem = "no call waits for this result; keep the assistant message with its tool_calls"
        raise message.error(problem)
    waiting.remove(found)
    return found
