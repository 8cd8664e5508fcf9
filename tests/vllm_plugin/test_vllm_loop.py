"""vLLM's event loop goes on while the plugin compiles the constraints of a request."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from gpt_oss_harmony_vllm import parser, register
from gpt_oss_harmony_vllm.constraint import constrain
from gpt_oss_harmony_vllm.settings import Settings
from support import vllm_stand_in as vllm
from support.vllm_stand_in import Function, Request, StructuredOutputsParams, Tool

HELD = 0.25  # seconds


def tools(count: int, patterns: int) -> list[Tool]:
    """Functions whose arguments have patterns that no other function has."""
    made = []
    for tool in range(count):
        texts = {
            f"p{index}": {"type": "string", "pattern": f"^[a-z]{{1,{index + 2}}}x{tool}y[0-9]+$"}
            for index in range(patterns)
        }
        function = Function(name=f"f{tool}", parameters={"type": "object", "properties": texts})
        made.append(Tool(function=function))
    return made


def outputs(schema: Any) -> Request:
    return Request(structured_outputs=StructuredOutputsParams(json=schema))


def bad_requests() -> Iterator[tuple[str, Request]]:
    """Yield what takes long to compile."""
    yield "50 tools", Request(tools=tools(50, 20), tool_choice="required")
    yield "2,000 tools", Request(tools=tools(2000, 20), tool_choice="required")
    listed = [f"value {index}" for index in range(100_000)]
    yield "an enum", outputs({"enum": listed})
    yield "choices", Request(structured_outputs=StructuredOutputsParams(choice=listed))
    yield (
        "an expression",
        Request(
            structured_outputs=StructuredOutputsParams(regex="(" + "|".join(listed[:5000]) + ")")
        ),
    )
    integers = {
        f"n{at}": {"type": "integer", "minimum": at, "maximum": 10**14 + at} for at in range(2000)
    }
    yield "bounds", outputs({"type": "object", "properties": integers})
    nested: dict[str, Any] = {"type": "string", "pattern": "^a{1,9}b$"}
    for level in range(100):
        nested = {"type": "object", "properties": {f"x{level}": nested}, "required": [f"x{level}"]}
    yield "levels", outputs(nested)
    either = [{"type": "string", "pattern": f"^[a-z]{{1,20}}{at}$"} for at in range(500)]
    yield "alternatives", outputs({"anyOf": either})


@pytest.fixture
def renderer(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    backend = getattr(request, "param", "guidance")
    if backend == "xgrammar":
        monkeypatch.setenv("HARMONY_VLLM_GRAMMAR", "structural-tag")
    modules: dict[str, ModuleType] = vllm.installed(monkeypatch)
    register()
    own = modules["vllm.parser.harmony"].HarmonyParser
    return modules["vllm.renderers.online_renderer"].OnlineRenderer(own, backend)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that made a constraint."""
    names: list[str] = []

    def noted(*args: Any, **options: Any) -> Any:
        names.append(threading.current_thread().name)
        return constrain(*args, **options)

    monkeypatch.setattr(parser, "constrain", noted)
    return names


def test_constraints_are_made_once_and_in_a_thread(renderer: Any, threads: list[str]) -> None:
    chat = Request(tools=tools(1, 1), tool_choice="required")
    asyncio.run(renderer.render_chat(chat))
    assert chat.structured_outputs is not None
    assert chat.structured_outputs.grammar is not None
    text = {"format": {"schema": {"type": "object"}}}
    asyncio.run(renderer.render_responses(vllm.ResponsesRequest(input="hi", text=text)))
    assert len(threads) == 2
    assert all(name.startswith("harmony-grammar") for name in threads)
    renderer.adjust_harmony_request(Request(tools=tools(1, 1), tool_choice="required"))
    assert len(threads) == 3  # a caller that has not waited for a thread


def test_the_conversations_of_a_batch_are_adjusted_in_a_thread(
    renderer: Any, threads: list[str]
) -> None:
    module = sys.modules["vllm.entrypoints.openai.chat_completion.batch_serving"]
    said = [[{"role": "user", "content": text}] for text in ("a", "b", "c")]
    batch = vllm.BatchRequest(messages=said, schema_of_answers={"type": "object"})
    dumped = batch.model_dump()
    serving = module.__dict__["OpenAIServingChatBatch"](renderer)
    singles = asyncio.run(serving.render_batch_chat_request(batch))
    assert [single.messages for single in singles] == said
    assert all(single.structured_outputs.grammar for single in singles)
    assert len(threads) == 3
    assert all(name.startswith("harmony-grammar") for name in threads)
    assert batch.model_dump() == dumped
    unknown = batch.model_copy(update={"model": "another"})
    assert asyncio.run(serving.render_batch_chat_request(unknown)) == "no such model"
    assert len(threads) == 3


def test_the_schemas_of_a_request_have_one_budget() -> None:
    """Those beyond it are loosened; if that is too much work, the request is refused."""
    request = Request(tools=tools(30, 2), tool_choice="required")
    alone = Request(tools=tools(30, 2)[:1], tool_choice="required")
    few = Settings(schema_steps=2000)
    whole = constrain(request, Settings(), "guidance")
    assert whole is not None
    assert not whole.unenforced
    for _ in range(2):  # the second time from the cache, at the same price
        loosened = constrain(request, Settings(schema_steps=10_000), "guidance")
        assert loosened is not None
        assert 5 < len(loosened.unenforced) < 30
        assert "more than 10,000 steps together (schema_steps)" in str(loosened.unenforced[-1])
    assert constrain(alone, few, "guidance") is not None
    with pytest.raises(ValueError, match=r"2,000 steps together.*HARMONY_VLLM_SCHEMA_STEPS"):
        constrain(Request(tools=tools(600, 2), tool_choice="required"), few, "guidance")


@pytest.mark.slow
@pytest.mark.parametrize("renderer", ["guidance", "xgrammar"], indirect=True)
def test_no_request_holds_the_event_loop(renderer: Any) -> None:
    """A gap counts as far as this process used the processor in it: others may use it, too."""
    for name, request in bad_requests():
        held = asyncio.run(longest_gap(renderer, request))
        assert held < HELD, name


async def longest_gap(renderer: Any, request: Request) -> float:
    rendering = asyncio.ensure_future(renderer.render_chat(request))
    longest, last = 0.0, (time.perf_counter(), time.process_time())
    while not rendering.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter(), time.process_time()
        longest = max(longest, min(now[0] - last[0], now[1] - last[1]))
        last = now
    error = rendering.exception()
    assert error is None or "HARMONY_VLLM_SCHEMA_STEPS" in str(error)
    return longest
