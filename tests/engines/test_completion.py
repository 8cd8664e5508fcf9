"""A conversation and an engine to messages: the interface, completions and the pipeline."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    RecoveryKind,
    Role,
    SystemContent,
    ToolDescription,
)
from gpt_oss_harmony.engines import (
    CompletionStep,
    ContextLengthError,
    EngineError,
    FinishReason,
    Sampling,
    SamplingError,
    complete,
    open_engine,
    stream_completion,
)
from gpt_oss_harmony.pipeline import pipeline
from support.scripted_engine import ENCODING, ScriptedEngine

HI = Conversation.from_messages([Message.from_role_and_content(Role.USER, "hi")])
THINK = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
ANSWER = f"{THINK}<|channel|>final<|message|>Hello 🏰 there.<|return|>"


def steps(engine: ScriptedEngine, sampling: Sampling | None = None) -> list[CompletionStep]:
    async def collect() -> list[CompletionStep]:
        return [step async for step in stream_completion(engine, HI, sampling)]

    return asyncio.run(collect())


def test_a_completion_is_tokens_and_messages() -> None:
    engine = ScriptedEngine(ANSWER)
    completion = asyncio.run(complete(engine, HI))
    assert engine.prompts == ["<|start|>user<|message|>hi<|end|><|start|>assistant"]
    assert ENCODING.decode(completion.prompt) == engine.prompts[0]
    assert ENCODING.decode(completion.tokens) == ANSWER
    assert [(m.channel, m.content[0].to_dict()["text"]) for m in completion.messages] == [
        ("analysis", "Hm."),
        ("final", "Hello 🏰 there."),
    ]
    assert completion.finish_reason is FinishReason.STOP
    assert not completion.parser.recoveries
    assert engine.freed == 1


def test_steps_tell_the_text_of_each_message() -> None:
    texts: dict[int, str] = {}
    for step in steps(ScriptedEngine(ANSWER)):
        for index, text, *_ in step.deltas:
            texts[index] = texts.get(index, "") + text
    assert texts == {0: "Hm.", 1: "Hello 🏰 there."}


def test_what_breaks_the_format_is_recovered() -> None:
    tool = ToolDescription.new("now", "Tells the time.")
    developer = DeveloperContent.new().with_function_tools([tool])
    system = SystemContent.new().with_python_tool()
    chat = Conversation.from_messages(
        [
            Message.from_role_and_content(Role.SYSTEM, system),
            Message.from_role_and_content(Role.DEVELOPER, developer),
        ]
    )
    engine = ScriptedEngine("<|channel|>commentary to=now json<|message|>{}<|call|>")
    completion = asyncio.run(complete(engine, chat))
    assert [message.recipient for message in completion.messages] == ["functions.now"]
    assert [recovery.kind for recovery in completion.parser.recoveries] == [RecoveryKind.TOOL_NAME]


def test_a_completion_may_be_cut() -> None:
    completion = asyncio.run(complete(ScriptedEngine(ANSWER), HI, Sampling(max_tokens=12)))
    assert (len(completion.tokens), completion.finish_reason) == (12, FinishReason.LENGTH)
    assert completion.parser.incomplete
    assert completion.messages[-1].channel == "final"


def test_leaving_early_frees_the_engine() -> None:
    engine = ScriptedEngine("<|channel|>final<|message|>for ever ...")

    async def leave() -> None:
        stream = stream_completion(engine, HI)
        async for step in stream:
            if len(step.completion.tokens) == 4:
                break
        await stream.aclose()
        task = asyncio.ensure_future(complete(engine, HI))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    engine.completions *= 2
    asyncio.run(leave())
    assert engine.freed == 2


def test_errors_of_the_engine_are_raised() -> None:
    engine = ScriptedEngine("<|channel|>final<|message|>Hel!")
    with pytest.raises(EngineError, match="breaks off") as caught:
        asyncio.run(complete(engine, HI))
    assert caught.value.retryable
    assert engine.freed == 1


def test_prompts_without_room_are_refused_with_the_numbers() -> None:
    engine = ScriptedEngine()
    for length in (1000, 5000):
        with pytest.raises(ContextLengthError, match=f"is 1000 tokens.* {length} tokens") as caught:
            engine.generate([5] * length)
        assert (caught.value.prompt_length, caught.value.context_length) == (length, 1000)
    with pytest.raises(SamplingError, match="empty"):
        engine.generate([])


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"temperature": "hot"},
        {"temperature": float("nan")},
        {"top_p": 1.1},
        {"min_p": -0.1},
        {"top_k": -1},
        {"top_k": 1.5},
        {"max_tokens": 0},
        {"logprobs": -1},
        {"frequency_penalty": 3},
        {"presence_penalty": -3},
        {"repetition_penalty": 0},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SamplingError, match=next(iter(wrong))):
        Sampling(**wrong)


# The pipeline


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    made = ScriptedEngine(ANSWER, "<|channel|>final<|message|>4<|return|>")

    async def opened(model: str, **options: Any) -> ScriptedEngine:
        if model == "nothing":
            raise EngineError("there is no model 'nothing'")
        made.context_length = options.get("context_length", 1000)
        return made

    monkeypatch.setattr("gpt_oss_harmony.pipeline.open_engine", opened)
    return made


def test_a_pipeline_answers(engine: ScriptedEngine) -> None:
    with pipeline("demo", context_length=500) as ask:
        assert [message.channel for message in ask("hi")] == ["analysis", "final"]
        request = {"messages": [{"role": "user", "content": "2 + 2?"}], "reasoning_effort": "low"}
        assert ask.complete(request, Sampling(seed=1)).finish_reason is FinishReason.STOP
        with pytest.raises(ContextLengthError):
            ask("long " * 500)
    assert engine.closed
    assert engine.prompts[0].endswith("<|start|>user<|message|>hi<|end|><|start|>assistant")
    assert "Reasoning: low" in engine.prompts[1]
    assert engine.samplings[1].seed == 1
    ask.close()  # again


def test_a_pipeline_that_cannot_be_opened_leaves_no_thread(engine: ScriptedEngine) -> None:
    with pytest.raises(EngineError, match="no model 'nothing'"):
        pipeline("nothing")
    assert not engine.prompts


def test_a_model_that_is_nowhere_is_an_error() -> None:
    with pytest.raises(EngineError, match="/no/such/folder"):
        asyncio.run(open_engine("/no/such/folder"))
    with pytest.raises(EngineError, match="/no/such/folder"):
        asyncio.run(open_engine(Path("/no/such/folder")))


def test_settings_of_another_type_are_named() -> None:
    settings: Any = {"temperature": 0}
    with pytest.raises(TypeError, match=r"not dict; write Sampling\(temperature=0\)"):
        asyncio.run(complete(ScriptedEngine(ANSWER), HI, settings))
