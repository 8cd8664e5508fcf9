"""Requests to vLLM as prompts of our mapping, and our messages as those of vLLM's library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gpt_oss_harmony.apis.chat.input import read_chat
from gpt_oss_harmony.apis.current_date import current_date
from gpt_oss_harmony.config import RenderConversationConfig
from gpt_oss_harmony.conversation.content import TextContent
from gpt_oss_harmony.conversation.messages import Conversation, Message, Role
from gpt_oss_harmony.encoding import load_harmony_encoding
from gpt_oss_harmony.rendering.history import without_past_reasoning
from gpt_oss_harmony.rendering.renderer import SegmentKind

__all__ = ["chat_messages", "prompt_of", "response_messages", "vllm_message", "vllm_messages"]

_RENDERING = RenderConversationConfig(auto_drop_analysis=False)  # already done by the mapping
_CHAT = {"messages", "reasoning_effort", "tools"}
_RESPONSE = {"input", "instructions", "reasoning", "tools"}


def chat_messages(
    request: Any, response_format: Mapping[str, Any] | None, *, with_tools: bool
) -> list[Message]:
    """Read a Chat Completions request.

    vLLM clears the format before it renders, because `adjust_request` has already read it.
    """
    fields = _CHAT if with_tools else _CHAT - {"tools"}
    body = request.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
    body["response_format"] = response_format
    parsed = read_chat(body, conversation_start_date=_date())
    return list(without_past_reasoning(parsed.conversation.messages))


def response_messages(request: Any, text: Mapping[str, Any] | None) -> list[Message]:
    """Read a Responses request; `text` is its field of that name, which contains the format."""
    from gpt_oss_harmony.apis.responses.request import ResponsesRequest, read_response

    body = request.model_dump(mode="json", by_alias=True, exclude_none=True, include=_RESPONSE)
    parsed = read_response(ResponsesRequest.model_validate({**body, "text": text}), date=_date())
    return list(without_past_reasoning(parsed.conversation.messages))


def prompt_of(messages: list[Message]) -> list[int]:
    """Render messages without past reasoning as the prompt for the next turn."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    return encoding.render_conversation_for_completion(
        Conversation.from_messages(messages), Role.ASSISTANT, _RENDERING
    )


def vllm_messages(messages: list[Message], theirs: Any) -> list[Any]:
    """Convert the messages of a prompt; `theirs` is the class `Message` of vLLM's library.

    System and developer messages become text, as rendered: that library has no response formats,
    and spells some schemas in another way.
    """
    segments = load_harmony_encoding("HarmonyGptOss").segments_for_completion(
        Conversation.from_messages(messages), Role.ASSISTANT, _RENDERING
    )
    bodies = {one.message: one.text for one in segments if one.kind is SegmentKind.BODY}
    return [
        vllm_message(
            message.model_copy(update={"content": [TextContent(text=bodies.get(index, ""))]})
            if message.author.role in (Role.SYSTEM, Role.DEVELOPER)
            else message,
            theirs,
        )
        for index, message in enumerate(messages)
    ]


def vllm_message(message: Message, theirs: Any) -> Any:
    """Convert a message to `theirs`, the class `Message` of the library that vLLM imports."""
    return theirs.from_dict(message.to_dict())


def _date() -> str | None:
    return os.environ.get("VLLM_SYSTEM_START_DATE") or current_date()
