"""The Responses API: one request, one response."""

from __future__ import annotations

from itertools import groupby

import pytest

from responses_server import CALL, NOW, PREAMBLE, TEXT, THOUGHT, create, serving, stream, types

MESSAGE = ["output_item.added", "content_part.added", "output_text.delta", "output_text.done"]
PART_DONE = ["content_part.done", "output_item.done"]
REASONING = [
    "output_item.added",
    "content_part.added",
    "reasoning_text.delta",
    "reasoning_text.done",
    *PART_DONE,
]
CALLING = [
    "output_item.added",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.done",
]

ORDERS = {
    "text": (TEXT, [*MESSAGE, *PART_DONE]),
    "reasoning and text": (THOUGHT + TEXT, [*REASONING, *MESSAGE, *PART_DONE]),
    "call": (CALL, CALLING),
    "reasoning and call": (THOUGHT + CALL, [*REASONING, *CALLING]),
    "preamble and call": (PREAMBLE + CALL, [*MESSAGE, *PART_DONE, *CALLING]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_events_come_in_the_order_of_the_specification(name: str) -> None:
    completion, items = ORDERS[name]
    with serving(completion, completion) as client:
        events = stream(client, input="hi", tools=[NOW])
        response = create(client, input="hi", tools=[NOW])
    told = [name for name, _ in groupby(types(events))]
    assert told == ["created", "in_progress", *items, "completed"]
    last = events[-1]["response"]
    assert [item["type"] for item in last["output"]] == [
        item["type"] for item in response["output"]
    ]
    assert last["usage"] == response["usage"]
