"""Runs one framework against a server: ``python frameworks.py NAME URL MODEL``; writes JSON.

Each framework answers a question, streams the answer, calls a tool, and answers in a form. What
went wrong is the result of that step, so that the others are still tried.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

HELLO, TIME, PLACE = "Say hello.", "What time is it?", "Which city is it?"

Step = Callable[[], Any]


class City(BaseModel):
    """A city."""

    city: str


def now() -> str:
    """Tells the time."""
    return "noon"


def joined(pieces: Any) -> list[Any]:
    """Return the text of a stream, and whether it came in several pieces."""
    pieces = [piece for piece in pieces if piece]
    return ["".join(pieces), len(pieces) > 1]


def langchain(url: str, model: str, **options: Any) -> dict[str, Step]:
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    chat = ChatOpenAI(model=model, base_url=url, api_key="none", **options)
    agent = create_react_agent(chat, [tool(now)])

    def text(message: Any) -> str:
        return message.text if isinstance(message.text, str) else message.text()

    return {
        "answer": lambda: text(chat.invoke(HELLO)),
        "stream": lambda: joined(text(chunk) for chunk in chat.stream(HELLO)),
        "tool": lambda: text(agent.invoke({"messages": [("user", TIME)]})["messages"][-1]),
        "form": lambda: chat.with_structured_output(City).invoke(PLACE).city,
    }


def langchain_responses(url: str, model: str) -> dict[str, Step]:
    return langchain(url, model, use_responses_api=True)


def llama_index(url: str, model: str) -> dict[str, Step]:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.llms import ChatMessage
    from llama_index.core.program import LLMTextCompletionProgram  # noqa: F401
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    chat = OpenAILike(
        model=model,
        api_base=url,
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
        should_use_structured_outputs=True,
        context_window=100_000,
    )

    async def agent() -> str:
        tool = FunctionTool.from_defaults(now)
        return str(await FunctionAgent(tools=[tool], llm=chat, streaming=False).run(TIME))

    asked = [ChatMessage(role="user", content=HELLO)]
    return {
        "answer": lambda: chat.chat(asked).message.content,
        "stream": lambda: joined(chunk.delta for chunk in chat.stream_chat(asked)),
        "tool": agent,
        "form": lambda: chat.as_structured_llm(City).complete(PLACE).raw.city,
    }


def haystack(url: str, model: str) -> dict[str, Step]:
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function
    from haystack.utils import Secret

    def generator(**options: Any) -> Any:
        key = Secret.from_token("none")
        return OpenAIChatGenerator(api_key=key, model=model, api_base_url=url, **options)

    def ask(question: str, **options: Any) -> str:
        replies = generator(**options).run([ChatMessage.from_user(question)])["replies"]
        return str(replies[0].text)

    def stream() -> list[Any]:
        pieces: list[str] = []
        ask(HELLO, streaming_callback=lambda chunk: pieces.append(chunk.content))
        return joined(pieces)

    def tool() -> str:
        agent = Agent(chat_generator=generator(), tools=[create_tool_from_function(now)])
        return str(agent.run(messages=[ChatMessage.from_user(TIME)])["messages"][-1].text)

    form = {"generation_kwargs": {"response_format": City}}
    return {
        "answer": lambda: ask(HELLO),
        "stream": stream,
        "tool": tool,
        "form": lambda: json.loads(ask(PLACE, **form))["city"],
    }


def pydantic_ai(url: str, model: str) -> dict[str, Step]:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key="none")
    return _pydantic_ai(OpenAIChatModel(model, provider=provider), City)


def pydantic_ai_responses(url: str, model: str) -> dict[str, Step]:
    from pydantic_ai import NativeOutput
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key="none")
    return _pydantic_ai(OpenAIResponsesModel(model, provider=provider), NativeOutput(City))


def _pydantic_ai(chat: Any, form: Any) -> dict[str, Step]:
    from pydantic_ai import Agent

    async def stream() -> list[Any]:
        async with Agent(chat).run_stream(HELLO) as result:
            pieces = result.stream_text(delta=True, debounce_by=None)
            return joined([piece async for piece in pieces])

    return {
        "answer": lambda: Agent(chat).run_sync(HELLO).output,
        "stream": stream,
        "tool": lambda: Agent(chat, tools=[now]).run_sync(TIME).output,
        "form": lambda: Agent(chat, output_type=form).run_sync(PLACE).output.city,
    }


def strands(url: str, model: str) -> dict[str, Step]:
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    chat = OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id=model)

    def agent(**options: Any) -> Any:
        return Agent(model=chat, callback_handler=None, **options)

    async def stream() -> list[Any]:
        events = agent().stream_async(HELLO)
        return joined([event["data"] async for event in events if "data" in event])

    def form() -> str:
        result = agent()(PLACE, structured_output_model=City)
        return str(result.structured_output.city)

    return {
        "answer": lambda: str(agent()(HELLO)).strip(),
        "stream": stream,
        "tool": lambda: str(agent(tools=[tool(now)])(TIME)).strip(),
        "form": form,
    }


def autogen(url: str, model: str) -> dict[str, Step]:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core.models import UserMessage
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    about = {
        "vision": False,
        "function_calling": True,
        "json_output": True,
        "structured_output": True,
        "family": "unknown",
    }
    chat = OpenAIChatCompletionClient(model=model, base_url=url, api_key="none", model_info=about)

    def asked(question: str) -> list[Any]:
        return [UserMessage(content=question, source="user")]

    async def stream() -> list[Any]:
        pieces = [piece async for piece in chat.create_stream(asked(HELLO))]
        return joined(pieces[:-1])

    async def tool() -> str:
        agent = AssistantAgent("clock", chat, tools=[now], reflect_on_tool_use=True)
        return str((await agent.run(task=TIME)).messages[-1].content)

    async def answer() -> str:
        return str((await chat.create(asked(HELLO))).content)

    async def form() -> str:
        found = await chat.create(asked(PLACE), json_output=City)
        return City.model_validate_json(found.content).city

    return {"answer": answer, "stream": stream, "tool": tool, "form": form}


def semantic_kernel(url: str, model: str) -> dict[str, Step]:
    from openai import AsyncOpenAI
    from semantic_kernel import Kernel
    from semantic_kernel.connectors.ai import FunctionChoiceBehavior
    from semantic_kernel.connectors.ai.open_ai import (
        OpenAIChatCompletion,
        OpenAIChatPromptExecutionSettings,
    )
    from semantic_kernel.contents import ChatHistory
    from semantic_kernel.functions import kernel_function

    client = AsyncOpenAI(base_url=url, api_key="none")
    chat = OpenAIChatCompletion(ai_model_id=model, async_client=client)

    def asked(question: str) -> Any:
        history = ChatHistory()
        history.add_user_message(question)
        return history

    async def ask(question: str, kernel: Any = None, **options: Any) -> str:
        settings = OpenAIChatPromptExecutionSettings(**options)
        return str(await chat.get_chat_message_content(asked(question), settings, kernel=kernel))

    async def stream() -> list[Any]:
        settings = OpenAIChatPromptExecutionSettings()
        pieces = chat.get_streaming_chat_message_content(asked(HELLO), settings)
        return joined([str(piece) async for piece in pieces])

    async def tool() -> str:
        kernel = Kernel()
        kernel.add_function("clock", kernel_function(now, name="now", description="The time."))
        auto = FunctionChoiceBehavior.Auto()
        return await ask(TIME, kernel, function_choice_behavior=auto)

    async def form() -> str:
        return City.model_validate_json(await ask(PLACE, response_format=City)).city

    return {"answer": lambda: ask(HELLO), "stream": stream, "tool": tool, "form": form}


def agno(url: str, model: str) -> dict[str, Step]:
    from agno.agent import Agent
    from agno.models.openai.like import OpenAILike

    def agent(**options: Any) -> Any:
        chat = OpenAILike(id=model, base_url=url, api_key="none")
        return Agent(model=chat, telemetry=False, **options)

    def stream() -> list[Any]:
        events = agent().run(HELLO, stream=True)
        return joined(event.content for event in events if event.event == "RunContent")

    return {
        "answer": lambda: agent().run(HELLO).content,
        "stream": stream,
        "tool": lambda: agent(tools=[now]).run(TIME).content,
        "form": lambda: agent(output_schema=City).run(PLACE).content.city,
    }


def dspy(url: str, model: str) -> dict[str, Step]:
    import dspy as library

    chat = library.LM(f"openai/{model}", api_base=url, api_key="none", cache=False)
    library.configure(lm=chat, adapter=library.JSONAdapter())

    class Where(library.Signature):
        """Names the city."""

        question: str = library.InputField()
        city: str = library.OutputField()

    return {
        "answer": lambda: chat(HELLO)[0],
        "form": lambda: library.Predict(Where)(question=PLACE).city,
    }


def instructor(url: str, model: str) -> dict[str, Step]:
    import instructor as library
    from openai import OpenAI

    def form(mode: Any) -> str:
        client = library.from_openai(OpenAI(base_url=url, api_key="none"), mode=mode)
        messages: Any = [{"role": "user", "content": PLACE}]
        found = client.chat.completions.create(
            model=model, response_model=City, messages=messages, max_retries=0
        )
        return str(found.city)

    modes = library.Mode
    return {
        "form": lambda: form(modes.JSON_SCHEMA),
        "form by a tool": lambda: form(modes.TOOLS),
        "form in JSON": lambda: form(modes.JSON),
    }


def google_adk(url: str, model: str) -> dict[str, Step]:
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    async def events(question: str, streams: bool = False, **options: Any) -> list[Any]:
        chat = LiteLlm(model=f"openai/{model}", api_base=url, api_key="none")
        runner = InMemoryRunner(LlmAgent(name="one", model=chat, **options), app_name="app")
        session = await runner.session_service.create_session(app_name="app", user_id="me")
        message = types.Content(role="user", parts=[types.Part(text=question)])
        mode = StreamingMode.SSE if streams else StreamingMode.NONE
        running = runner.run_async(
            user_id="me",
            session_id=session.id,
            new_message=message,
            run_config=RunConfig(streaming_mode=mode),
        )
        return [event async for event in running]

    def text(event: Any) -> str:
        parts = event.content.parts if event.content else []
        return "".join(part.text or "" for part in parts if not part.thought)

    async def ask(question: str, **options: Any) -> str:
        return text((await events(question, **options))[-1])

    async def stream() -> list[Any]:
        found = await events(HELLO, streams=True)
        return joined([text(event) for event in found if event.partial])

    async def form() -> str:
        return City.model_validate_json(await ask(PLACE, output_schema=City)).city

    return {
        "answer": lambda: ask(HELLO),
        "stream": stream,
        "tool": lambda: ask(TIME, tools=[now]),
        "form": form,
    }


def crewai(url: str, model: str) -> dict[str, Step]:
    from crewai import LLM, Agent, Crew, Task
    from crewai.events import LLMStreamChunkEvent, crewai_event_bus
    from crewai.tools import tool

    def crew(question: str, tools: Any = (), **options: Any) -> Any:
        chat = LLM(model=f"openai/{model}", base_url=url, api_key="none")
        agent = Agent(role="clerk", goal="Reply.", backstory="New.", llm=chat, tools=[*tools])
        task = Task(description=question, expected_output="A reply.", agent=agent, **options)
        return Crew(agents=[agent], tasks=[task]).kickoff()

    def stream() -> list[Any]:
        chat = LLM(model=f"openai/{model}", base_url=url, api_key="none", stream=True)
        pieces: list[str] = []
        with crewai_event_bus.scoped_handlers():
            crewai_event_bus.on(LLMStreamChunkEvent)(lambda _, event: pieces.append(event.chunk))
            chat.call(HELLO)
            crewai_event_bus.flush()
        return joined(pieces)

    return {
        "answer": lambda: crew(HELLO).raw,
        "stream": stream,
        "tool": lambda: crew(TIME, [tool("now")(now)]).raw,
        "form": lambda: crew(PLACE, output_pydantic=City).pydantic.city,
    }


def litellm_responses(url: str, model: str) -> dict[str, Step]:
    import litellm

    options = {"model": f"openai/{model}", "api_base": url, "api_key": "none"}

    def text(response: Any) -> str:
        messages = [item for item in response.output if item.type == "message"]
        return str(messages[-1].content[0].text)

    def stream() -> list[Any]:
        events = litellm.responses(input=HELLO, stream=True, **options)
        return joined(event.delta for event in events if "text.delta" in event.type)

    def form() -> str:
        schema = {"type": "json_schema", "name": "city", "schema": City.model_json_schema()}
        response = litellm.responses(input=PLACE, text={"format": schema}, **options)
        return City.model_validate_json(text(response)).city

    return {
        "answer": lambda: text(litellm.responses(input=HELLO, **options)),
        "stream": stream,
        "form": form,
    }


FRAMEWORKS: dict[str, Callable[[str, str], dict[str, Step]]] = {
    "langchain": langchain,
    "langchain_responses": langchain_responses,
    "llama_index": llama_index,
    "haystack": haystack,
    "pydantic_ai": pydantic_ai,
    "pydantic_ai_responses": pydantic_ai_responses,
    "strands": strands,
    "autogen": autogen,
    "semantic_kernel": semantic_kernel,
    "agno": agno,
    "dspy": dspy,
    "instructor": instructor,
    "google_adk": google_adk,
    "crewai": crewai,
    "litellm_responses": litellm_responses,
}


def results(name: str, url: str, model: str) -> Iterator[tuple[str, Any]]:
    """Run the steps of a framework; those that wait, in one loop, which clients belong to."""
    loop = asyncio.new_event_loop()
    for step, run in FRAMEWORKS[name](url, model).items():
        try:
            found = run()
            if inspect.isawaitable(found):
                found = loop.run_until_complete(found)
        except Exception:  # noqa: BLE001 - it is the result of the step
            found = traceback.format_exc()[-1500:]
        yield step, found


if __name__ == "__main__":
    print(json.dumps(dict(results(*sys.argv[1:]))))
