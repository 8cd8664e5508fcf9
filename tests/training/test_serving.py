"""Training and serving see the same prompts: each one of the server begins an example."""

from __future__ import annotations

from typing import Any

import pytest

from gpt_oss_harmony.apis.chat.request import ChatRequest, turn_of_chat
from gpt_oss_harmony.training import IGNORED, training_examples
from gpt_oss_harmony.training.rows import read_row

preparation = pytest.importorskip(
    "gpt_oss_harmony.server.preparation", reason="the extra serve is not installed"
)

DATE = "2025-06-28"
SYSTEM = {"role": "system", "content": "Be brief."}
TOOLS = [{"type": "function", "function": {"name": "f", "description": "A function."}}]


def asked(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answered(text: str, thought: str = "hm") -> dict[str, Any]:
    return {"role": "assistant", "content": text, "reasoning": thought}


def called(number: int, **fields: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": f'{{"a": {number}}}'}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [call], "reasoning": "a call", **fields}


def returned(number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": "{}"}


CHATS: dict[str, dict[str, Any]] = {
    "a turn": {"messages": [asked("hi"), answered("ho")]},
    "turns": {"messages": [SYSTEM, asked("1"), answered("2"), asked("3"), answered("4")]},
    "calls": {
        "messages": [
            *(SYSTEM, asked("1"), called(1), returned(1), called(2), returned(2), answered("2")),
            *(asked("3"), called(3, content="I look."), returned(3), answered("4")),
        ],
        "tools": TOOLS,
        "reasoning_effort": "high",
    },
    "without reasoning": {"messages": [asked("1"), answered("2", ""), asked("3"), answered("4")]},
}


@pytest.mark.parametrize("name", CHATS)
def test_the_prompts_of_the_server_are_trained_on(name: str) -> None:
    chat = CHATS[name]
    examples = training_examples(read_row(chat, start_date=DATE).conversation)
    spoken = [index for index, entry in enumerate(chat["messages"]) if entry["role"] == "assistant"]
    for index in spoken:
        request = ChatRequest(**{**chat, "messages": chat["messages"][:index]})
        turn = turn_of_chat(request, date=DATE)
        prompt, *_ = preparation.prepare_turn(turn)
        following = [entry for entry in examples if entry.input_ids[: len(prompt)] == prompt]
        # What the model is to say next is trained on right after it, in one of the examples.
        assert any(entry.labels[len(prompt)] != IGNORED for entry in following), index
