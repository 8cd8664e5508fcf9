"""A renderer for PrimeIntellect's package ``renderers``, which verifiers and prime-rl use.

Select it by its import path, like any custom renderer::

    name = "custom"
    import_path = "gpt_oss_harmony.training.trainers.renderers.HarmonyRenderer"
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from renderers.base import (  # type: ignore[import-not-found, unused-ignore]
    ParsedResponse,
    ParsedToolCall,
    RenderedTokens,
    ToolCallParseStatus,
    extract_message_tool_names,
    reject_assistant_in_extension,
)
from renderers.configs import (  # type: ignore[import-not-found, unused-ignore]
    BaseRendererConfig,
)

from ...apis.current_date import TODAY, current_date
from ...conversation.messages import Role
from ...encoding import load_harmony_encoding
from ...sampled_messages import OPENING
from ...tokens.special_tokens import CALL, END, RETURN, STOP_TOKENS
from .chat_tokens import NO_MESSAGE, ChatTokens, chat_prompt, chat_sequence, read_completion

_Messages = Sequence[Mapping[str, Any]]


class HarmonyRendererConfig(BaseRendererConfig):  # type: ignore[misc, unused-ignore]
    """The reasoning effort, and the current date of the prompt; the default is today."""

    _template_fields = frozenset({"reasoning_effort", "conversation_start_date"})

    name: Literal["custom"] = "custom"
    reasoning_effort: str = "medium"
    conversation_start_date: str | None = TODAY


class HarmonyRenderer:
    """A renderer of chats to tokens and back, with the same prompts as our server."""

    config_class: ClassVar[type[HarmonyRendererConfig]] = HarmonyRendererConfig
    is_prefix_stable = False  # past reasoning is left out

    def __init__(self, tokenizer: Any = None, config: HarmonyRendererConfig | None = None) -> None:
        self.config = config or HarmonyRendererConfig()
        if self.config.thinking_retention == "all":
            raise ValueError(
                "past reasoning is always left out, as in our server; remove thinking_retention"
            )
        self._date = current_date(self.config.conversation_start_date)

    def render(
        self,
        messages: _Messages,
        *,
        tools: _Messages | None = None,
        add_generation_prompt: bool = False,
    ) -> RenderedTokens:
        """Render a prompt, or for training, the sequence that trains on the chat's last turn.

        Earlier answers end in ``<|end|>``, which is not marked as sampled. To train on all turns,
        build a sample of each of the `training_chats`.
        """
        options: dict[str, Any] = {
            "effort": self.config.reasoning_effort,
            "start_date": self._date,
        }
        if add_generation_prompt or messages[-1]["role"] != Role.ASSISTANT.value:
            made = chat_prompt(messages, tools, opens=add_generation_prompt, **options)
        else:
            made = chat_sequence(messages, tools, **options)
        return _rendered(made, messages)

    def render_ids(
        self,
        messages: _Messages,
        *,
        tools: _Messages | None = None,
        add_generation_prompt: bool = False,
    ) -> list[int]:
        """Render only the tokens."""
        rendered = self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt)
        tokens: list[int] = rendered.token_ids
        return tokens

    def parse_response(
        self,
        token_ids: Sequence[int],
        *,
        tools: _Messages | None = None,
        prompt_ids: Sequence[int] | None = None,
    ) -> ParsedResponse:
        """Read a completion with the lenient parser."""
        prefix = _sampled_header(prompt_ids or ())
        read = read_completion([*prefix, *token_ids], tools)
        message = read.chat_message
        calls = []
        for call, (start, end) in zip(message.get("tool_calls", ()), read.spans, strict=True):
            arguments = call["function"]["arguments"]
            span = max(0, start - len(prefix)), end - len(prefix)
            raw = load_harmony_encoding("HarmonyGptOss").decode(token_ids[span[0] : span[1]])
            calls.append(_parsed_call(raw, call["function"]["name"], arguments, span))
        last = read.messages[-1] if read.messages else None
        is_reasoning = last is not None and last.channel == "analysis" and last.recipient is None
        return ParsedResponse(
            content=message["content"] or "",
            reasoning_content=message["reasoning"],
            tool_calls=calls,
            reasoning_complete=not is_reasoning or token_ids[-1] in STOP_TOKENS,
        )

    def get_stop_token_ids(self) -> list[int]:
        """Return the tokens at which sampling stops."""
        return [RETURN, CALL]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: _Messages,
        *,
        tools: _Messages | None = None,
    ) -> RenderedTokens | None:
        """Continue after sampled tokens, with results of calls or a user's message.

        Returns None after an answer, because the next prompt has ``<|end|>`` in place of the
        sampled ``<|return|>`` and leaves out the reasoning.
        """
        if not previous_prompt_ids or not new_messages:
            return None
        if reject_assistant_in_extension(new_messages):
            return None
        read = read_completion(previous_completion_ids, tools)
        last = read.messages[-1] if read.messages else None
        if last is None or (last.channel == "final" and last.recipient is None):
            return None
        previous = [*previous_prompt_ids, *previous_completion_ids]
        if previous[-1] == RETURN:
            return None
        closing = [] if previous[-1] in STOP_TOKENS else [CALL if last.recipient else END]
        calls = read.chat_message.get("tool_calls", ())
        # The results are rendered after their calls, to find their authors; the calls are removed.
        calling = {**read.chat_message, "content": None, "reasoning": None}
        calling |= {"reasoning_content": None, "tool_calls": list(calls)}
        chat = [calling, *_results(new_messages, calls)] if calls else list(new_messages)
        if any(message["role"] not in ("tool", "user") for message in new_messages):
            return None  # instructions belong to the start of the prompt
        made = chat_prompt(chat)
        first = 1 if calls else 0
        added = [i for i, message in enumerate(made.messages) if message >= first]
        start, end = (added[0], added[-1] + 1) if added else (0, 0)
        shift = len(previous) + len(closing)
        rendered = ChatTokens(
            [*previous, *closing, *made.token_ids[start:end], *OPENING],
            [
                *[NO_MESSAGE] * shift,
                *(message - first for message in made.messages[start:end]),
                *[NO_MESSAGE] * len(OPENING),
            ],
            [False] * (shift + end - start + len(OPENING)),
            [*[False] * shift, *made.is_body[start:end], *[False] * len(OPENING)],
        )
        return _rendered(rendered, new_messages)


def _rendered(made: ChatTokens, messages: _Messages) -> RenderedTokens:
    """Make the package's result; an assistant's content is everything that it samples."""
    roles = [str(message["role"]) for message in messages]
    assistant = Role.ASSISTANT.value
    is_content = [
        is_sampled if index >= 0 and roles[index] == assistant else is_body and index >= 0
        for index, is_sampled, is_body in zip(
            made.messages, made.is_sampled, made.is_body, strict=True
        )
    ]
    return RenderedTokens(
        token_ids=made.token_ids,
        message_indices=made.messages,
        sampled_mask=made.is_sampled,
        is_content=is_content,
        message_roles=roles,
        message_tool_names=extract_message_tool_names(list(messages)),
    )


def _sampled_header(prompt: Sequence[int]) -> list[int]:
    """Return the part of the assistant's header after its role that the prompt already has."""
    for index in range(len(prompt) - 1, -1, -1):
        if tuple(prompt[index : index + 2]) == OPENING:
            return list(prompt[index + 2 :])
        if prompt[index] in STOP_TOKENS:
            break
    return []


def _parsed_call(raw: str, name: str, arguments: str, span: tuple[int, int]) -> ParsedToolCall:
    try:
        value: Any = json.loads(arguments)
        status = ToolCallParseStatus.OK
    except ValueError:
        value, status = arguments, ToolCallParseStatus.INVALID_JSON
    if not name:
        status = ToolCallParseStatus.MISSING_NAME
    return ParsedToolCall(raw=raw, name=name, arguments=value, token_span=span, status=status)


def _results(messages: _Messages, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Match results and calls by order, because the ids of sampled calls are ours."""
    result: list[dict[str, Any]] = []
    left = list(calls)
    for message in messages:
        fields = dict(message)
        if fields["role"] == "tool":
            named = (c for c in left if c["function"]["name"] == fields.get("name"))
            call = next(named, left[0] if left else calls[-1])
            if call in left:
                left.remove(call)
            fields["tool_call_id"] = call["id"]
        result.append(fields)
    return result
