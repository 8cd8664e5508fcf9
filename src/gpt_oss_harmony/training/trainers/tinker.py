"""A renderer for tinker-cookbook: the prompts of our server, and examples by our rules.

Register it under a name, which also lets it be pickled::

    register_renderer("harmony", lambda tokenizer, image_processor=None: HarmonyRenderer(tokenizer))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tinker  # type: ignore[import-not-found, unused-ignore]
import torch
from tinker_cookbook.renderers.base import (  # type: ignore[import-not-found, unused-ignore]
    ParseTermination,
    RenderContext,
    RenderedMessage,
    Renderer,
    ToolCall,
    TrainOnWhat,
    UnparsedToolCall,
)

from ...apis.current_date import TODAY, current_date
from ...conversation.messages import Role
from ...encoding import load_harmony_encoding
from ...tokens.special_tokens import CALL, RETURN
from ..options import TrainingOptions
from ..rows import examples_of, read_row
from .chat_tokens import chat_prompt, read_completion

_TOOLS = "tools"
"""The field of a system's message with the tools, which tinker-cookbook keeps in messages."""


class HarmonyRenderer(Renderer):  # type: ignore[misc, unused-ignore]
    """A renderer of chats to tokens and back; `start_date` is the current date of the prompt."""

    def __init__(
        self, tokenizer: Any = None, *, effort: str = "medium", start_date: str | None = TODAY
    ) -> None:
        super().__init__(tokenizer)
        self._effort = effort
        self._date = current_date(start_date)

    def get_stop_sequences(self) -> list[int]:
        """Return the tokens at which sampling stops."""
        return [RETURN, CALL]

    def build_generation_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        role: str = "assistant",
        prefill: str | None = None,
    ) -> Any:
        """Render the prompt for the next message; `prefill` may spell special tokens."""
        if role != Role.ASSISTANT.value:
            raise ValueError(f"the model writes messages by the assistant, not by {role!r}")
        chat, tools = _chat(messages)
        made = chat_prompt(chat, tools, effort=self._effort, start_date=self._date)
        encoding = load_harmony_encoding("HarmonyGptOss")
        filled = encoding.encode(prefill, allowed_special="all") if prefill else []
        return tinker.ModelInput.from_ints([*made.token_ids, *filled])

    def build_supervised_examples(
        self,
        messages: Sequence[Mapping[str, Any]],
        train_on_what: TrainOnWhat = TrainOnWhat.LAST_ASSISTANT_TURN,
    ) -> list[tuple[Any, torch.Tensor]]:
        """Make as many sequences as the chat needs; each message is trained on in one of them.

        A new sequence begins at instructions that follow an answer, which was given without them.
        The stop token of an answer inside a sequence has no weight: it is ``<|end|>``, but the
        model samples ``<|return|>``.
        """
        chat, tools = _chat(messages)
        trained = _trained(messages, train_on_what)
        for index, message in enumerate(chat):
            if message["role"] == Role.ASSISTANT.value:
                message["weight"] = float(index in trained)
        row = {"messages": chat, "tools": tools or None, "reasoning_effort": self._effort}
        read = read_row(row, form="chat", start_date=self._date)
        made, _ = examples_of(read, TrainingOptions())
        return [
            (
                tinker.ModelInput.from_ints(example.input_ids),
                torch.tensor(example.assistant_masks(), dtype=torch.float32),
            )
            for example in made.examples
        ]

    def build_supervised_example(
        self,
        messages: Sequence[Mapping[str, Any]],
        train_on_what: TrainOnWhat = TrainOnWhat.LAST_ASSISTANT_MESSAGE,
    ) -> tuple[Any, torch.Tensor]:
        """Make one sequence; raises `ValueError` if the chat needs none or several."""
        examples = self.build_supervised_examples(messages, train_on_what)
        if len(examples) != 1:
            raise ValueError(
                f"the chat makes {len(examples)} sequences; call build_supervised_examples"
            )
        return examples[0]

    def parse_response(self, response: Sequence[int]) -> tuple[dict[str, Any], ParseTermination]:
        """Read a completion with the lenient parser."""
        read = read_completion(response)
        sent = read.chat_message
        text = sent["content"] or ""
        message: dict[str, Any] = {"role": Role.ASSISTANT.value, "content": text}
        if sent["reasoning"]:
            parts = [{"type": "thinking", "thinking": sent["reasoning"]}]
            message["content"] = [*parts, *([{"type": "text", "text": text}] if text else [])]
        for call in sent.get("tool_calls", ()):
            try:
                json.loads(call["function"]["arguments"])
            except ValueError as error:
                raw = json.dumps(call["function"], ensure_ascii=False)
                unparsed = UnparsedToolCall(raw_text=raw, error=f"Invalid JSON: {error}")
                message.setdefault("unparsed_tool_calls", []).append(unparsed)
            else:
                message.setdefault("tool_calls", []).append(ToolCall.model_validate(call))
        ended = ParseTermination.STOP_SEQUENCE if read.is_stopped else ParseTermination.MALFORMED
        return message, ended

    def create_conversation_prefix_with_tools(
        self, tools: Sequence[Mapping[str, Any]], system_prompt: str = ""
    ) -> list[dict[str, Any]]:
        """Return a system message with the tools, for the start of a chat."""
        return [{"role": "system", "content": system_prompt, _TOOLS: [dict(t) for t in tools]}]

    def render_message(self, message: Any, ctx: RenderContext) -> RenderedMessage:
        """Raise an error: in harmony, the tokens of a message depend on the other messages."""
        raise NotImplementedError(
            "messages are not rendered one by one; call build_generation_prompt or "
            "build_supervised_examples"
        )


def _chat(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], list[Mapping[str, Any]]]:
    """Convert messages of tinker-cookbook to Chat Completions; return them and the tools."""
    tools: list[Mapping[str, Any]] = []
    chat: list[dict[str, Any]] = []
    for message in messages:
        fields = dict(message)
        tools += fields.pop(_TOOLS, ())
        calls = [call.model_dump() for call in fields.pop("tool_calls", None) or ()]
        chat.append({**fields, "tool_calls": calls} if calls else fields)
    return chat, tools


def _trained(messages: Sequence[Mapping[str, Any]], what: TrainOnWhat) -> set[int]:
    """Return the indices of the messages that are trained on."""
    own = [i for i, message in enumerate(messages) if message["role"] == Role.ASSISTANT.value]
    asked = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    if what == TrainOnWhat.LAST_ASSISTANT_MESSAGE:
        return {i for i in own if i == len(messages) - 1}
    if what == TrainOnWhat.LAST_ASSISTANT_TURN:
        return {i for i in own if i > asked}
    if what == TrainOnWhat.ALL_ASSISTANT_MESSAGES:
        return set(own)
    if what == TrainOnWhat.CUSTOMIZED:
        return {i for i in own if messages[i]["trainable"]}
    raise ValueError(f"{what} trains on tokens that are never sampled; train on the assistant")
