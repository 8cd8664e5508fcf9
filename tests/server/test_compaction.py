"""Compaction and truncation: what a prompt that grows too long becomes, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.apis import HistoryItem
from gpt_oss_harmony.server.responses.compaction import compacted_items
from support.examples import examples
from support.responses_server import NOW, create, serving, stream
from support.scripted_engine import ENCODING, START
from support.server_tools import RoomyEngine, answer

MORE = {"role": "user", "content": "And now?"}
WORDS = " ".join(f"word{number}" for number in range(400))


@pytest.fixture(scope="module")
def engine() -> RoomyEngine:
    return RoomyEngine()


@pytest.fixture(scope="module")
def client(engine: RoomyEngine) -> Iterator[TestClient]:
    with serving(engine=engine) as client:
        yield client


def call(number: int, output: str) -> list[dict[str, Any]]:
    id = f"call_{number}"
    return [
        {"type": "function_call", "call_id": id, "name": "now", "arguments": f'{{"n": {number}}}'},
        {"type": "function_call_output", "call_id": id, "output": output},
    ]


def agent(calls: int, output: str) -> list[dict[str, Any]]:
    """One question, and many calls of tools."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "Repair the tests."}]
    return [*items, *(item for number in range(calls) for item in call(number, output))]


def chat(turns: int) -> list[dict[str, Any]]:
    return [
        item
        for number in range(turns)
        for item in (
            {"role": "user", "content": f"Question {number}?"},
            {"role": "assistant", "content": f"Answer {number}: {WORDS}"},
        )
    ]


def tokens_of(client: TestClient, items: list[Any]) -> int:
    body = {"input": items, "tools": [NOW]}
    counted: int = client.post("/v1/responses/input_tokens", json=body).json()["input_tokens"]
    return counted


def compact(client: TestClient, **body: Any) -> list[Any]:
    answered = client.post("/v1/responses/compact", json={"model": "script", **body})
    assert answered.status_code == 200, answered.text
    output: list[Any] = answered.json()["output"]
    assert [item["type"] for item in output] == ["compaction"]
    return output


CONVERSATIONS = {
    "agent": agent(30, WORDS),
    "short outputs": agent(60, "ok"),
    "one large output": agent(2, WORDS * 8),
    "chat": chat(5),
    "questions": [{"role": "user", "content": f"{number} {WORDS}"} for number in range(4)],
}


@pytest.mark.parametrize("items", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_a_compacted_prompt_has_half_of_the_tokens(
    client: TestClient, engine: RoomyEngine, items: list[dict[str, Any]]
) -> None:
    before = tokens_of(client, items)
    compacted = compact(client, input=items, tools=[NOW])
    assert tokens_of(client, compacted) <= before // 2
    smaller = compact(client, input=items, tools=[NOW], compact_threshold=before // 3)
    assert tokens_of(client, smaller) <= before // 3
    engine.completions = [answer("Yes.")]
    create(client, input=[*compacted, MORE], tools=[NOW])
    prompt = engine.prompts[-1]
    assert items[0]["content"][:9] in prompt or items is CONVERSATIONS["questions"]
    assert prompt.endswith(f"<|start|>user<|message|>And now?<|end|>{START}")


def test_items_that_no_prompt_shows_may_be_strange(client: TestClient) -> None:
    strange = {"type": "computer_call_output", "call_id": ["a"], "output": {"b": 1}}
    calls = {"type": "mcp_call", "approval_request_id": ["a"], "call_id": {}}
    items = [*agent(10, WORDS), strange, calls, *call(11, WORDS)]
    assert tokens_of(client, compact(client, input=items)) <= tokens_of(client, items) // 2


def test_the_newest_stays_as_it_is(client: TestClient, engine: RoomyEngine) -> None:
    items = [{"role": "developer", "content": "Be kind."}, *agent(10, WORDS), *call(10, "the end")]
    engine.completions = [answer("Yes.")]
    compacted = compact(client, input=items, instructions="Be brief.")
    create(client, input=[*compacted, MORE], instructions="Be quick.")
    prompt = engine.prompts[-1]
    assert "# Instructions\n\nBe quick.\n\nBe kind.<|end|>" in prompt
    assert '{"n": 9}' in prompt
    assert f"<|message|>{WORDS}<|end|>" in prompt
    assert "<|message|>the end<|end|>" in prompt
    assert "tokens left out ...]" in prompt


def test_a_compaction_stands_for_all_before_it(client: TestClient, engine: RoomyEngine) -> None:
    items = agent(10, WORDS)
    compacted = compact(client, input=items)
    engine.completions = [answer("Yes."), answer("Yes.")]
    create(client, input=[*items, *compacted, MORE])
    create(client, input=[*compacted, MORE])
    assert engine.prompts[-2] == engine.prompts[-1]
    again = compact(client, input=[*compacted, *call(11, WORDS)])
    assert tokens_of(client, again) <= tokens_of(client, [*compacted, *call(11, WORDS)]) // 2


def test_the_model_may_write_a_summary(client: TestClient, engine: RoomyEngine) -> None:
    engine.completions = [answer("We repaired two tests."), answer("Yes.")]
    items = [{"role": "developer", "content": "Be kind."}, *agent(10, WORDS)]
    body = {"model": "script", "input": items, "summarize": True}
    answered = client.post("/v1/responses/compact", json=body).json()
    assert answered["usage"]["output_tokens"] > 0
    assert "Summarise our conversation so far" in engine.prompts[-1]
    assert WORDS in engine.prompts[-1]
    create(client, input=[*answered["output"], MORE])
    assert engine.prompts[-1].endswith(
        "# Instructions\n\nBe kind.<|end|>"
        "<|start|>user<|message|>Summary of our conversation so far:\n"
        f"We repaired two tests.<|end|><|start|>user<|message|>And now?<|end|>{START}"
    )
    engine.completions = ["<|channel|>analysis<|message|>Hm.<|return|>"]
    refused = client.post("/v1/responses/compact", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_summary")


@pytest.mark.parametrize("way", ["previous_response_id", "items"])
def test_a_long_agent_is_compacted_on_its_way(
    client: TestClient, engine: RoomyEngine, way: str
) -> None:
    """As codex and others ask for it: nothing is done below the threshold, and twice above it."""
    managed = {"context_management": [{"type": "compaction", "compact_threshold": 2000}]}
    header = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>"
    engine.completions = [header] * 12
    before = len(engine.prompts)
    response = create(client, input="Repair the tests.", tools=[NOW], **managed)
    items: list[Any] = [{"role": "user", "content": "Repair the tests."}, *response["output"]]
    kinds = []
    for _ in range(11):
        call_id = response["output"][-1]["call_id"]
        result = {"type": "function_call_output", "call_id": call_id, "output": WORDS[:1500]}
        items.append(result)
        body: dict[str, Any] = {"input": items}
        if way == "previous_response_id":
            body = {"input": [result], "previous_response_id": response["id"]}
        events = stream(client, tools=[NOW], **body, **managed)
        response = events[-1]["response"]
        items += response["output"]
        kinds.append([item["type"] for item in response["output"]])
    assert kinds.count(["function_call"]) + kinds.count(["compaction", "function_call"]) == 11
    assert 1 <= kinds.count(["compaction", "function_call"]) <= 4
    prompts = engine.prompts[before:]
    assert max(len(ENCODING.encode(text, allowed_special="all")) for text in prompts) <= 2000
    assert all("Repair the tests." in prompt for prompt in prompts)


def test_truncation_keeps_the_task_of_a_long_agent(engine: RoomyEngine) -> None:
    small = RoomyEngine(answer("Yes."), room=3000)
    with serving(engine=small) as client:
        create(client, input=agent(40, WORDS[:600]), tools=[NOW], truncation="auto")
    (prompt,) = small.prompts
    assert "Repair the tests." in prompt
    assert '{"n": 39}' in prompt
    assert '{"n": 0}' not in prompt
    assert prompt.count("<|start|>functions.now to=assistant") == prompt.count(" to=functions.now")


ITEMS = st.lists(
    st.one_of(
        st.builds(lambda n: [{"role": "user", "content": "q" * n}], st.integers(1, 300)),
        st.builds(lambda n: [{"role": "assistant", "content": "a" * n}], st.integers(1, 300)),
        st.builds(lambda n: call(n, "o" * n), st.integers(1, 300)),
    ),
    max_size=12,
)


@given(groups=ITEMS, budget=st.integers(1, 500))
@settings(max_examples=examples(60))
def test_no_result_loses_its_call_and_the_last_item_stays(
    groups: list[list[dict[str, Any]]], budget: int
) -> None:
    items = [
        HistoryItem({**item, **({"call_id": f"call_{index}"} if "call_id" in item else {})})
        for index, group in enumerate(groups)
        for item in group
    ]

    def count(kept: Any) -> int:
        return sum(len(str(item.item)) // 8 for item in kept)

    kept = compacted_items(items, budget, count)
    calls = [item.item["call_id"] for item in kept if item.item.get("type") == "function_call"]
    results = [item.item["call_id"] for item in kept if "output" in item.item]
    assert calls == results
    last = [item.item.get("call_id") or item.item for item in (*items[-1:], *kept[-1:])]
    assert last[:1] == last[1:]
    assert count(kept) <= budget or len(kept) <= 2


def test_markers_in_long_texts_are_text(client: TestClient, engine: RoomyEngine) -> None:
    text = f"{WORDS} {' '.join(ENCODING.special_tokens_set)} {WORDS}"
    said = [{"role": role, "content": text} for role in ("assistant", "user")]
    items = [*agent(2, text), *said, MORE]
    compact(client, input=items, tools=[NOW])
    engine.completions = [answer("Yes.")]
    management = [{"type": "compaction", "compact_threshold": 1000}]
    answered = create(client, input=items, context_management=management)
    assert answered["status"] == "completed"
