"""Messages requests become turns: what goes where, what is said about wrong ones, the laws.

The types of Anthropic's SDK validate every request of the tables.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from anthropic.types import MessageCreateParams
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gpt_oss_harmony import (
    ConversationError,
    ReasoningEffort,
    RenderConversationConfig,
    load_harmony_encoding,
)
from gpt_oss_harmony.apis import (
    INVALID_JSON,
    ChatRequest,
    HistoryItem,
    MessagesRequest,
    ResponsesRequest,
    TurnRequest,
    read_body,
    turn_of_chat,
    turn_of_messages,
    turn_of_response,
)
from gpt_oss_harmony.grammar import ToolChoice
from gpt_oss_harmony.sampled_messages import SampledMessage, prompt_tokens
from support.examples import examples
from support.turn_requests import developer_of, said

ENCODING = load_harmony_encoding("HarmonyGptOss")
GUIDE = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
PARAMS: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)

HI: dict[str, Any] = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
NOW: dict[str, Any] = {"name": "now", "description": "Tells the time.", "input_schema": SCHEMA}
CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {"a": 1}}
NOTE = "[image: not shown, this model reads text only]"
PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}


def turn(*messages: dict[str, Any], checked: bool = True, **fields: Any) -> TurnRequest:
    body = {"messages": [*messages], **fields}
    if checked:
        PARAMS.validate_python({"model": "gpt-oss", "max_tokens": 100, **body})
    return turn_of_messages(read_body(MessagesRequest, body))


def rendered(request: TurnRequest) -> list[int]:
    return prompt_tokens(ENCODING, request.conversation, GUIDE)


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def result(content: Any = "noon", **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}
    return {"role": "user", "content": [block]}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def thinking(value: str, signature: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": value, "signature": signature}


USER = ("user", None, "hi")
CALLED = ("commentary", "functions.now", '{"a":1}')
TOLD = ("functions.now", "assistant", "noon")

CONVERSATIONS: dict[str, tuple[list[dict[str, Any]], list[tuple[str | None, str | None, str]]]] = {
    "a text": ([HI], [USER]),
    "blocks": ([{"role": "user", "content": [text("a"), PICTURE]}], [("user", None, f"a|{NOTE}")]),
    "an answer": ([HI, {"role": "assistant", "content": "Yes."}, HI],
                  [USER, ("final", None, "Yes."), USER]),
    "past reasoning is dropped": ([HI, assistant(thinking("Hm."), text("Yes.")), HI],
                                  [USER, ("final", None, "Yes."), USER]),
    "a call and its result": ([HI, assistant(thinking("Hm."), CALL), result()],
                              [USER, ("analysis", None, "Hm."), CALLED, TOLD]),
    "a preamble": ([HI, assistant(text("I look."), CALL), result()],
                   [USER, ("commentary", None, "I look."), CALLED, TOLD]),
    "two texts": ([HI, assistant(text("I think."), text("Yes.")), HI],
                  [USER, ("commentary", None, "I think."), ("final", None, "Yes."), USER]),
    "an answer without a block": ([HI, assistant(), HI], [USER, USER]),
    "a result in blocks": ([HI, assistant(CALL), result([text("noon"), PICTURE])],
                           [USER, CALLED, ("functions.now", "assistant", f"noon|{NOTE}")]),
    "an error": ([HI, assistant(CALL), result("it broke", is_error=True)],
                 [USER, CALLED, ("functions.now", "assistant", "it broke")]),
    "an error without a text": ([HI, assistant(CALL), result([], is_error=True)],
                                [USER, CALLED, ("functions.now", "assistant", "Error")]),
    "a result and a question": (
        [HI, assistant(CALL), {"role": "user", "content": [*result()["content"], text("So?")]}],
        [USER, CALLED, TOLD, ("user", None, "So?")]),
    "a document": (
        [{"role": "user", "content": [{"type": "document", "title": "a.txt", "source":
          {"type": "text", "media_type": "text/plain", "data": "Milk."}}]}],
        [("user", None, "[file: a.txt]\nMilk.")]),
    "a document in blocks, with a context": (
        [{"role": "user", "content": [{"type": "document", "context": "A list.", "source":
          {"type": "content", "content": [text("Milk."), text("Tea.")]}}]}],
        [("user", None, "[file: without a name]\nA list.\n\nMilk.\n\nTea.")]),
    "a PDF at an address": (
        [{"role": "user", "content": [{"type": "document", "source":
          {"type": "url", "url": "https://example.com/a.pdf"}}]}],
        [("user", None, "[file: not shown, this model reads text only]")]),
    "a search result": (
        [{"role": "user", "content": [{"type": "search_result", "title": "Tea", "source": "a.b",
          "content": [text("It is hot.")]}]}],
        [("user", None, "Tea\na.b\nIt is hot.")]),
    "sealed by another server": (
        [HI, assistant({"type": "redacted_thinking", "data": "abc"}, CALL), result()],
        [USER, CALLED, TOLD]),
    "a tool of another server": (
        [HI, assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
                        "input": {"query": "tea"}}, text("It is hot.")), HI],
        [USER, ("final", None, "It is hot."), USER]),
    "arguments that are no JSON": (
        [HI, assistant({**CALL, "input": {INVALID_JSON: '{"a": '}}), result()],
        [USER, ("commentary", "functions.now", '{"a": '), TOLD]),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_conversations(
    messages: list[dict[str, Any]], expected: list[tuple[str | None, str | None, str]]
) -> None:
    assert said(turn(*messages, tools=[NOW])) == expected


BOTH = "Be brief.\n\nBe kind."
BILLING = text("x-anthropic-billing-header: cc_version=2.1; cch=00000;")


@pytest.mark.parametrize(
    "system",
    [BOTH, [text("Be brief."), text("Be kind.")], [BILLING, text(BOTH)]],
    ids=["text", "blocks", "the line of Claude Code that changes at each request"],
)  # fmt: skip
def test_system(system: Any) -> None:
    assert developer_of(turn(HI, system=system)).instructions == BOTH


def test_system_messages() -> None:
    later = {"role": "system", "content": "Be kind."}
    assert developer_of(turn(HI, later, HI, system="Be brief.")).instructions == BOTH


def test_tools() -> None:
    request = turn(HI, tools=[{**NOW, "strict": True}, {"name": "f", "input_schema": {}}])
    assert request.tools == {"functions.now", "functions.f"}
    assert request.strict_tools == {"functions.now"}


CHOICES: dict[str, tuple[dict[str, Any] | None, ToolChoice]] = {
    "none given": (None, ToolChoice()),
    "auto": ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice()),
    "any": ({"type": "any"}, ToolChoice("required")),
    "tool": ({"type": "tool", "name": "now"}, ToolChoice("required", ("functions.now",))),
    "none": ({"type": "none"}, ToolChoice("none")),
}


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES)
def test_tool_choice(choice: dict[str, Any] | None, expected: ToolChoice) -> None:
    fields: dict[str, Any] = {} if choice is None else {"tool_choice": choice}
    assert turn(HI, tools=[NOW], **fields).tool_choice == expected


class Reasoning(NamedTuple):
    effort: ReasoningEffort
    tokens: int | None
    display: str


LOW, MEDIUM, HIGH = ReasoningEffort.LOW, ReasoningEffort.MEDIUM, ReasoningEffort.HIGH
REASONING: dict[str, tuple[dict[str, Any], Reasoning]] = {
    "nothing": ({}, Reasoning(MEDIUM, None, "with_calls")),
    "disabled": ({"thinking": {"type": "disabled"}}, Reasoning(LOW, 0, "with_calls")),
    "between tools": ({"thinking": {"type": "between_tools"}}, Reasoning(LOW, 0, "with_calls")),
    "adaptive": ({"thinking": {"type": "adaptive"}}, Reasoning(MEDIUM, None, "shown")),
    "omitted": ({"thinking": {"type": "adaptive", "display": "omitted"}},
                Reasoning(MEDIUM, None, "sealed")),
    "1,024": ({"thinking": {"type": "enabled", "budget_tokens": 1024}},
              Reasoning(LOW, 1024, "shown")),
    "5,000": ({"thinking": {"type": "enabled", "budget_tokens": 5000}},
              Reasoning(MEDIUM, 5000, "shown")),
    "10,000": ({"thinking": {"type": "enabled", "budget_tokens": 10_000}},
               Reasoning(HIGH, 10_000, "shown")),
    "an effort": ({"output_config": {"effort": "max"}}, Reasoning(HIGH, None, "with_calls")),
    "an effort and a budget": (
        {"output_config": {"effort": "low"},
         "thinking": {"type": "enabled", "budget_tokens": 9999}},
        Reasoning(LOW, 9999, "shown")),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), REASONING.values(), ids=REASONING)
def test_reasoning(fields: dict[str, Any], expected: Reasoning) -> None:
    request = turn(HI, **fields)
    display = MessagesRequest(messages=[HI], **fields).reasoning_display
    assert Reasoning(request.effort or MEDIUM, request.reasoning_tokens, display) == expected


def test_effort_by_the_name_of_our_other_apis() -> None:
    assert turn(HI, checked=False, reasoning_effort="high").effort is HIGH


@pytest.mark.parametrize("field", ["output_config", "output_format"])
def test_structured_outputs(field: str) -> None:
    answer = {"type": "json_schema", "schema": SCHEMA}
    fields: dict[str, Any] = {field: {"format": answer} if field == "output_config" else answer}
    request = turn(HI, **fields)
    assert request.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
    }


def test_sampling() -> None:
    request = turn(
        HI, max_tokens=7, temperature=0.5, top_p=0.9, top_k=3, stop_sequences=["END", "."]
    )
    sampling = request.sampling
    assert (sampling.max_tokens, sampling.temperature) == (7, 0.5)
    assert (sampling.top_p, sampling.top_k) == (0.9, 3)
    assert request.stop == ("END", ".")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": []}, "messages: expected a list of 1 or more, found 0"),
    "a call as a prefill": ({"messages": [HI, assistant(CALL)]},
                            "messages[1]: only a text by the assistant at the end can be cont"),
    "a prefill without a block": ({"messages": [assistant()]},
                                  "messages[0]: only a text by the assistant at the end can be c"),
    "a prefill with white space": ({"messages": [HI, assistant(text("Four "))]},
                                   "messages[1]: final assistant content cannot end with trail"),
    "a prefill with reasoning": (
        {"messages": [HI, assistant(text("{"))], "thinking": {"type": "adaptive"}},
        "messages[1]: the model cannot reason in an answer that has begun (prefill)"),
    "a prefill with a form": (
        {"messages": [HI, assistant(text("{"))],
         "output_format": {"type": "json_schema", "schema": {}}},
        "messages[1]: a form of the answer cannot be enforced after its beginning"),
    "a prefill with a required call": (
        {"messages": [HI, assistant(text("{"))], "tools": [NOW], "tool_choice": {"type": "any"}},
        "messages[1]: a call is required, but the answer has begun"),
    "a prefill in a thread": (
        {"messages": [HI, assistant(text("{"))], "thread": {"type": "create"}},
        "messages[1]: a thread keeps whole messages"),
    "a role": ({"messages": [{"role": "tool", "content": ""}]},
               "messages[0].role: expected one of user, assistant, system, found 'tool'"),
    "a block": ({"messages": [HI, assistant({"type": "imagined"}), HI]},
                "messages[1].content[0].type: expected one of text, thinking, redacted_thinking, "),
    "a result without a call": (
        {"messages": [result()]},
        "messages[0].content[0].tool_use_id: no tool call before this message has the id "
        "'toolu_1'; keep the assistant message with its tool_use block"),
    "a server's tool": ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
                        "tools[0].type: 'web_search_20250305' is not a tool of the client"),
    "a tool without a schema": ({"tools": [{"name": "f"}]},
                                "tools[0].input_schema: the field is missing"),
    "a choice": ({"tools": [NOW], "tool_choice": {"type": "required"}},
                 "tool_choice.type: expected one of auto, any, tool, none"),
    "an undeclared tool": ({"tools": [NOW], "tool_choice": {"type": "tool", "name": "f"}},
                           "tool_choice.name: 'f' is not declared; declared tools: now"),
    "no tool to call": ({"tool_choice": {"type": "any"}}, "tool_choice: a call is required, but"),
    "MCP servers": ({"mcp_servers": [{"type": "url"}]}, "mcp_servers: this server does not"),
    "the stop of other APIs": ({"stop": "."}, "stop: this API has no such field; send stop_seq"),
    "a form of the answer": ({"output_config": {"format": {"type": "text"}}},
                             "output_config.format.type: expected json_schema, found 'text'"),
    "two efforts": ({"output_config": {"effort": "low"}, "reasoning_effort": "high"},
                    "reasoning_effort: output_config.effort has another value"),
    "an empty stop sequence": ({"stop_sequences": [""]},
                               "stop_sequences[0]: expected text of 1 or more characters"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "problem"), WRONG.values(), ids=WRONG)
def test_wrong_requests(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConversationError) as caught:
        turn_of_messages(read_body(MessagesRequest, {"messages": [HI], **fields}))
    assert str(caught.value).startswith(problem)


def test_sealed_reasoning_keeps_its_tokens() -> None:
    tokens = (200005, 35644, 200008, 25216, 13, 200007)
    item = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    sealed = {"seal": [HistoryItem(item, tokens)]}
    body = MessagesRequest(messages=[HI, assistant(thinking("", "seal"), CALL), result()])
    request = turn_of_messages(body, decrypt=sealed.get)
    thought = request.conversation.messages[2]
    assert isinstance(thought, SampledMessage)
    assert thought.sampled_tokens == tokens


# The laws

TEXTS = st.text(min_size=1, max_size=12).filter(lambda value: value.strip())
INPUTS = st.dictionaries(
    TEXTS, st.none() | st.integers(-9, 9) | TEXTS | st.lists(st.booleans(), max_size=2), max_size=3
).filter(lambda value: value.keys() != {INVALID_JSON})


class Step(NamedTuple):
    """A call of a turn: reasoning and a preamble before it, and its result."""

    thought: str | None
    preamble: str | None
    arguments: dict[str, Any]
    result: str


class Turn(NamedTuple):
    """A question, calls, and an answer."""

    question: str
    steps: list[Step]
    thought: str | None
    answer: str


STEPS = st.builds(Step, st.none() | TEXTS, st.none() | TEXTS, INPUTS, TEXTS)
TURNS = st.builds(Turn, TEXTS, st.lists(STEPS, max_size=2), st.none() | TEXTS, TEXTS)


class ThreeRequests:
    """The same conversation in the forms of the three APIs."""

    def __init__(self, system: str | None, turns: list[Turn], question: str) -> None:
        self.chat: list[dict[str, Any]] = []
        self.items: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self.calls = 0
        self.system = system
        if system is not None:
            self.chat.append({"role": "system", "content": system})
        for turn in turns:
            self.ask(turn.question)
            for step in turn.steps:
                self.call(step)
            self.say(turn.thought, turn.answer)
        self.ask(question)

    def ask(self, question: str) -> None:
        asked = {"role": "user", "content": question}
        for messages in (self.chat, self.items, self.messages):
            messages.append(asked)

    def call(self, step: Step) -> None:
        self.calls += 1
        id = f"call_{self.calls}"
        arguments = json.dumps(step.arguments, ensure_ascii=False, separators=(",", ":"))
        function = {"name": "now", "arguments": arguments}
        self.chat.append(
            {
                "role": "assistant",
                "content": step.preamble,
                "reasoning": step.thought,
                "tool_calls": [{"id": id, "type": "function", "function": function}],
            }
        )
        self.chat.append({"role": "tool", "tool_call_id": id, "content": step.result})
        self._reason(step.thought)
        if step.preamble is not None:
            self.items.append({"role": "assistant", "content": step.preamble})
        self.items.append({"type": "function_call", "call_id": id, **function})
        output = {"type": "function_call_output", "call_id": id, "output": step.result}
        self.items.append(output)
        blocks = [*self._thinking(step.thought)]
        if step.preamble is not None:
            blocks.append(text(step.preamble))
        blocks.append({"type": "tool_use", "id": id, "name": "now", "input": step.arguments})
        self.messages.append(assistant(*blocks))
        told = {"type": "tool_result", "tool_use_id": id, "content": step.result}
        self.messages.append({"role": "user", "content": [told]})

    def say(self, thought: str | None, answer: str) -> None:
        self.chat.append({"role": "assistant", "content": answer, "reasoning": thought})
        self._reason(thought)
        self.items.append({"role": "assistant", "content": answer})
        self.messages.append(assistant(*self._thinking(thought), text(answer)))

    def _reason(self, thought: str | None) -> None:
        if thought is not None:
            content = [{"type": "reasoning_text", "text": thought}]
            self.items.append({"type": "reasoning", "summary": [], "content": content})

    @staticmethod
    def _thinking(thought: str | None) -> list[dict[str, Any]]:
        return [] if thought is None else [thinking(thought)]

    def turns(self) -> list[TurnRequest]:
        function = {"name": "now", "description": "Tells the time.", "parameters": SCHEMA}
        return [
            turn_of_chat(
                ChatRequest(messages=self.chat, tools=[{"type": "function", "function": function}])
            ),
            turn_of_response(
                ResponsesRequest(
                    input=self.items,
                    instructions=self.system,
                    tools=[{"type": "function", **function}],
                )
            ),
            turn_of_messages(
                MessagesRequest(messages=self.messages, system=self.system, tools=[NOW])
            ),
        ]


@settings(max_examples=examples(200), deadline=None)
@given(st.none() | TEXTS, st.lists(TURNS, max_size=2), st.lists(STEPS, max_size=2), TEXTS)
def test_three_apis_have_the_same_prompt(
    system: str | None, turns: list[Turn], steps: list[Step], question: str
) -> None:
    """The last turn may be unfinished: its calls have results, and the model goes on."""
    requests = ThreeRequests(system, turns, question)
    for step in steps:
        requests.call(step)
    chat, response, message = requests.turns()
    assert rendered(chat) == rendered(response) == rendered(message)
    assert chat.conversation == response.conversation == message.conversation
