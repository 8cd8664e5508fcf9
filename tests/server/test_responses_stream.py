"""The events of responses, whatever a model says."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.apis import ResponsesRequest, response_of, turn_of_response
from gpt_oss_harmony.apis.items import TurnEnded
from gpt_oss_harmony.apis.reader import TurnReader
from gpt_oss_harmony.apis.responses.writer import ResponseWriter
from gpt_oss_harmony.engines import FinishReason, SampledToken
from gpt_oss_harmony.tokens.special_tokens import CALL, RETURN
from support.examples import examples
from support.responses_server import EVENT, NOW, RUN, checked_response, fields_of
from support.scripted_engine import ENCODING

REQUEST = ResponsesRequest(input="hi", tools=[NOW, RUN], stop=["END"])
TURN = turn_of_response(REQUEST)

PIECES = [
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|constrain|>",
    "assistant",
    "analysis",
    "commentary",
    "final",
    " to=functions.now",
    " to=functions.run",
    " to=user",
    " json",
    '{"input": "a',
    '\\n"}',
    "{}",
    " EN",
    "END",
    "🏰",
    "word ",
]

completions = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def told(completion: str, stop: int, limit: int) -> tuple[ResponseWriter, list[dict[str, Any]]]:
    """Read a completion, until it ends or a client goes away after `limit` tokens."""
    tokens = [*ENCODING.encode(completion, allowed_special="all"), stop]
    numbers = itertools.count()
    body = response_of(REQUEST, id="resp_1", created_at=0, model="script").to_dict()
    stream = ResponseWriter(
        body,
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        now=lambda: 1,
    )
    reader = TurnReader(TURN, 0, new_id=lambda prefix: f"{prefix}_{next(numbers)}")
    events = fields_of(stream.begin())
    ended = False
    for at, token in enumerate(tokens[:limit]):
        reason = FinishReason.STOP if at == len(tokens) - 1 else None
        for event in reader.take(SampledToken(token, finish_reason=reason)):
            if isinstance(event, TurnEnded):
                ended = True
            else:
                events += fields_of(stream.take(event))
        if ended:
            break
    events += fields_of(stream.break_off())
    events += fields_of([stream.end("completed" if ended else "cancelled", None).event])
    return stream, events


@settings(max_examples=examples(300))
@given(completions, st.sampled_from([RETURN, CALL]), st.integers(0, 60))
def test_events_fit_together_whatever_is_said(completion: str, stop: int, limit: int) -> None:
    stream, events = told(completion, stop, limit)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        EVENT.validate_python(event)
    checked_response(events[-1]["response"])
    assert events[-1]["response"]["output"] == [known.item for known in stream.items]
    assert rebuilt(events) == stream.response["output"]


def rebuilt(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the items of the events, as a client does: nothing may come out of its order."""
    items: list[dict[str, Any]] = []
    texts: list[str] = []
    part: dict[str, Any] | None = None
    for event in events[2:-1]:
        what = event["type"].removeprefix("response.")
        if what == "output_item.added":
            assert event["output_index"] == len(items)
            items.append(event["item"])
            texts = []
            continue
        item = items[-1]
        assert event["output_index"] == len(items) - 1
        if what == "output_item.done":
            assert [event["item"][name] for name in ("id", "type")] == [item["id"], item["type"]]
            assert text_of(event["item"]) == "".join(texts)
            items[-1] = event["item"]
            continue
        assert event["item_id"] == item["id"]
        if what.endswith(".delta"):
            assert event["delta"]
            texts.append(event["delta"])
        elif what == "content_part.added":
            part = event["part"]
        elif what == "content_part.done":
            assert part is not None
            assert event["part"]["text"] == "".join(texts)
        else:
            said = event.get("text", event.get("arguments", event.get("input")))
            assert said == "".join(texts)
    return items


def text_of(item: dict[str, Any]) -> str:
    if "content" in item:
        return "".join(part["text"] for part in item["content"])
    return str(item["arguments"] if item["type"] == "function_call" else item["input"])
