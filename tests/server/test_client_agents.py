"""The Agents SDK: loops with a tool that end, by each of its ways to a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from gpt_oss_harmony.server import Settings
from support.chat_server import FINAL
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, serving

pytestmark = pytest.mark.slow

agents = pytest.importorskip("agents", reason="openai-agents needs Python 3.11")

SUNNY = "It is sunny in Paris, 20 degrees."
MODELS = ("OpenAIResponsesModel", "OpenAIChatCompletionsModel", "OpenAIResponsesWSModel")


class Shopping(BaseModel):
    items: list[str]


@pytest.fixture(scope="module", autouse=True)
def no_tracing() -> Iterator[None]:
    """Runs would be told to a server of OpenAI's."""
    agents.set_tracing_disabled(True)
    yield
    agents.set_tracing_disabled(False)


def run(url: str, work: Callable[[AsyncOpenAI], Awaitable[Any]]) -> Any:
    """Run with a client for this server, on a loop of its own."""

    async def within() -> Any:
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=PATIENCE)
        async with client:
            return await work(client)

    return asyncio.run(within())


@asynccontextmanager
async def agent(
    client: AsyncOpenAI, model: str, calls: list[str] | None = None, **options: Any
) -> AsyncIterator[Any]:
    """An agent that can ask for the weather; `calls` tell for which places it did."""

    def get_current_weather(location: str) -> str:
        """Gets the current weather in the provided location.

        Args:
            location: The city and state, e.g. San Francisco, CA
        """
        if calls is not None:
            calls.append(location)
        return '{"sunny": true, "temperature": 20}'

    settings = agents.ModelSettings(temperature=0, **options.pop("settings", {}))
    way = getattr(agents, model)("demo", client)
    yield agents.Agent(
        name="Weather",
        model=way,
        model_settings=settings,
        **{"tools": [agents.function_tool(get_current_weather)], **options},
    )
    await way.close()  # a connection by WebSocket stays open between runs


@pytest.mark.parametrize("model", MODELS)
def test_a_tool_loop_ends(demo_url: str, model: str) -> None:
    calls: list[str] = []

    async def work(client: AsyncOpenAI) -> Any:
        async with agent(client, model, calls) as made:
            return await agents.Runner.run(made, "What is the weather like in Paris?", max_turns=3)

    result = run(demo_url, work)
    assert result.final_output == SUNNY
    assert calls == ["Paris"]
    assert len(result.raw_responses) == 2


@pytest.mark.parametrize("model", MODELS)
def test_a_streamed_tool_loop_ends(demo_url: str, model: str) -> None:
    async def work(client: AsyncOpenAI) -> Any:
        async with agent(client, model, instructions="Be brief.") as made:
            result = agents.Runner.run_streamed(made, "What is the weather like in Paris?")
            events = [event async for event in result.stream_events()]
        return [event.name for event in events if hasattr(event, "name")], result.final_output

    names, output = run(demo_url, work)
    assert output == SUNNY
    steps = [name for name in names if name != "reasoning_item_created"]
    assert steps == ["tool_called", "tool_output", "message_output_created"]


def test_history_that_is_sent_again(demo_url: str) -> None:
    """Reasoning, calls and results of the turn before go back as input, without a store."""

    async def work(client: AsyncOpenAI) -> Any:
        sealed = {"store": False, "response_include": ["reasoning.encrypted_content"]}
        async with agent(client, "OpenAIResponsesModel", settings=sealed) as made:
            first = await agents.Runner.run(made, "What is the weather like in Paris?")
            asked = {"role": "user", "content": "What is 27 + 45?"}
            return await agents.Runner.run(made, [*first.to_input_list(), asked])

    assert run(demo_url, work).final_output == "27 + 45 = 72."


def test_a_session_in_a_conversation(demo_url: str) -> None:
    async def work(client: AsyncOpenAI) -> Any:
        session = agents.OpenAIConversationsSession(openai_client=client)
        async with agent(client, "OpenAIResponsesModel", tools=[]) as made:
            await agents.Runner.run(made, "Hello! My name is Anna.", session=session)
            result = await agents.Runner.run(made, "What is my name?", session=session)
        kinds = [item["type"] for item in await session.get_items()]
        await session.clear_session()
        return result.final_output, kinds

    output, kinds = run(demo_url, work)
    assert output == "Your name is Anna."
    assert kinds == ["message", "reasoning", "message"] * 2


@pytest.mark.parametrize("model", MODELS[:2])
def test_an_output_type(demo_url: str, model: str) -> None:
    async def work(client: AsyncOpenAI) -> Any:
        async with agent(client, model, tools=[], output_type=Shopping) as made:
            return await agents.Runner.run(made, "I need to buy coffee, soda and eggs")

    assert run(demo_url, work).final_output == Shopping(items=["coffee", "soda", "eggs"])


def test_the_shell_runs_at_the_client() -> None:
    commands: list[str] = []
    call = (
        '<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{"commands":["ls"]}'
    )
    engine = ScriptedEngine(f"{call}<|call|>", FINAL)

    async def execute(asked: Any) -> Any:
        commands.extend(asked.data.action.commands)
        outcome = agents.ShellCallOutcome(type="exit", exit_code=0)
        return agents.ShellResult(
            output=[agents.ShellCommandOutput(stdout="a.md\n", stderr="", outcome=outcome)]
        )

    async def ask(client: AsyncOpenAI) -> Any:
        model = agents.OpenAIResponsesModel("script", client)
        tools = [agents.ShellTool(executor=execute)]
        looker = agents.Agent(name="looker", model=model, tools=tools)
        return (await agents.Runner.run(looker, "hi")).final_output

    with serving(engine, Settings()) as url:
        assert run(url, ask) == "Hello 🏰 there."
    assert commands == ["ls"]
    assert "<|message|>exit code 0\na.md\n<|end|>" in engine.prompts[1]
