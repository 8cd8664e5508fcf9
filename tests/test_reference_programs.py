"""Programs written for the reference run unchanged: servers, and the documentation's examples."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from openai_harmony import (
    Author,
    Conversation,
    DeveloperContent,
    HarmonyEncodingName,
    HarmonyError,
    Message,
    ReasoningEffort,
    Role,
    StreamableParser,
    StreamState,
    SystemContent,
    TextContent,
    ToolDescription,
    load_harmony_encoding,
)
from support.vectors import case

ENCODING = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)

COMPLETION = (
    "<|channel|>analysis<|message|>I check the weather 🌦️ first.<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|>One moment.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json"
    '<|message|>{"city": "Tōkyō"}<|call|>'
)
ANSWER = (
    "<|channel|>analysis<|message|>Rain.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Take an umbrella ☂️.<|return|>"
)


def tokens_of(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


# A server that speaks the Chat Completions protocol, in the manner of vLLM: it makes one parser
# for each request and polls it after every token.

_encoding = None


def get_encoding() -> Any:
    global _encoding
    if _encoding is None:
        _encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    return _encoding


def system_message(effort: str | None, date: str, browser: bool) -> Message:
    efforts = {
        "high": ReasoningEffort.HIGH,
        "medium": ReasoningEffort.MEDIUM,
        "low": ReasoningEffort.LOW,
    }
    content = SystemContent.new().with_conversation_start_date(date)
    if effort is not None:
        content = content.with_reasoning_effort(efforts[effort])
    if browser:
        content = content.with_tools(get_browser())
    return Message.from_role_and_content(Role.SYSTEM, content)


def get_browser() -> Any:
    from openai_harmony import ToolNamespaceConfig

    return ToolNamespaceConfig.browser()


def messages_from_request(request: list[dict[str, Any]]) -> list[Message]:
    """Turn messages of the Chat Completions API into harmony messages."""
    names: dict[str, str] = {}
    messages = []
    for item in request:
        role = item["role"]
        if role == "assistant" and item.get("tool_calls"):
            for call in item["tool_calls"]:
                name = call["function"]["name"]
                names[call["id"]] = name
                message = Message.from_role_and_content(
                    Role.ASSISTANT, call["function"]["arguments"]
                )
                message = message.with_channel("commentary")
                message = message.with_recipient(f"functions.{name}")
                messages.append(message.with_content_type("json"))
        elif role == "tool":
            author = Author.new(Role.TOOL, f"functions.{names[item['tool_call_id']]}")
            message = Message.from_author_and_content(author, item["content"])
            messages.append(message.with_channel("commentary").with_recipient("assistant"))
        else:
            contents = item["content"]
            if isinstance(contents, str):
                contents = [{"type": "text", "text": contents}]
            texts = [TextContent(text=part["text"]) for part in contents]
            message = Message.from_role_and_contents(Role(role), texts)
            messages.append(message.with_channel("final") if role == "assistant" else message)
    return messages


def stream_chunks(token_batches: list[list[int]]) -> Iterator[dict[str, Any]]:
    """Yield what a streaming endpoint would send: reasoning, content and tool call deltas."""
    parser = StreamableParser(get_encoding(), role=Role.ASSISTANT)
    calls = 0
    previous_recipient = None
    for batch in token_batches:
        for token in batch:
            parser.process(token)
            channel, recipient = parser.current_channel, parser.current_recipient
            delta = parser.last_content_delta
            if recipient is not None and recipient != previous_recipient:
                name = recipient.split("functions.")[1]
                yield {"tool_call": {"index": calls, "name": name, "arguments": ""}}
                calls += 1
            previous_recipient = recipient
            if not delta:
                continue
            if channel == "final" or (channel == "commentary" and recipient is None):
                yield {"content": delta}
            elif channel == "analysis":
                yield {"reasoning": delta}
            elif channel == "commentary":
                yield {"tool_call": {"index": calls - 1, "arguments": delta}}


def test_chat_completions_streaming() -> None:
    tokens = tokens_of(COMPLETION)
    batches = [tokens[at : at + 3] for at in range(0, len(tokens), 3)]
    chunks = list(stream_chunks(batches))
    joined = {
        key: "".join(chunk[key] for chunk in chunks if key in chunk)
        for key in ("reasoning", "content")
    }
    calls = [chunk["tool_call"] for chunk in chunks if "tool_call" in chunk]
    assert joined == {"reasoning": "I check the weather 🌦️ first.", "content": "One moment."}
    assert calls[0] == {"index": 0, "name": "get_weather", "arguments": ""}
    assert "".join(call["arguments"] for call in calls) == '{"city": "Tōkyō"}'
    assert {call["index"] for call in calls} == {0}


def parse_output(token_ids: list[int]) -> tuple[str | None, str | None, list[dict[str, str]]]:
    """Reasoning, answer and calls of a whole completion, as a non-streaming endpoint reads it."""
    parser = StreamableParser(get_encoding(), role=Role.ASSISTANT)
    for token in token_ids:
        parser.process(token)
    reasoning, content, calls = [], [], []
    for message in parser.messages:
        assert message.author.role == "assistant"
        if len(message.content) != 1:
            raise ValueError("one content is expected")
        text = message.content[0].text  # type: ignore[attr-defined]
        if message.recipient is not None and message.recipient.startswith("functions."):
            calls.append({"name": message.recipient[len("functions.") :], "arguments": text})
        elif message.channel == "analysis":
            reasoning.append(text)
        else:
            content.append(text)
    if parser.current_content:  # the output was cut
        (reasoning if parser.current_channel == "analysis" else content).append(
            parser.current_content
        )
    return "\n".join(reasoning) or None, "\n".join(content) or None, calls


def test_chat_completions_whole() -> None:
    call = {"name": "get_weather", "arguments": '{"city": "Tōkyō"}'}
    reasoning, content, calls = parse_output(tokens_of(COMPLETION))
    assert (reasoning, content, calls) == ("I check the weather 🌦️ first.", "One moment.", [call])
    assert parse_output(tokens_of(ANSWER)) == ("Rain.", "Take an umbrella ☂️.", [])
    assert parse_output(tokens_of(ANSWER)[:-3])[1] == "Take an umbrella ☂"
    assert parse_output(tokens_of("<|channel|>analysis<|message|>Ra")) == ("Ra", None, [])


def test_chat_completions_prompt() -> None:
    request: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Weather in Tōkyō?"}]},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "1", "function": {"name": "get_weather", "arguments": '{"city": "Tōkyō"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "rain"},
    ]
    messages = [system_message("low", "2025-06-28", browser=False), *messages_from_request(request)]
    tokens = get_encoding().render_conversation_for_completion(
        Conversation.from_messages(messages), Role.ASSISTANT
    )
    assert get_encoding().decode(tokens).partition("<|end|>")[2] == (
        "<|start|>user<|message|>Weather in Tōkyō?<|end|>"
        "<|start|>assistant to=functions.get_weather<|channel|>commentary json"
        '<|message|>{"city": "Tōkyō"}<|call|>'
        "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>rain<|end|>"
        "<|start|>assistant"
    )


class Context:
    """A conversation with built-in tools: messages of each completion are appended as they end."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self.parser = StreamableParser(get_encoding(), role=Role.ASSISTANT)
        self.seen = 0
        self.reasoning_tokens = 0

    @property
    def messages(self) -> list[Message]:
        return self._messages

    def append_output(self, token_ids: list[int]) -> None:
        self.parser = StreamableParser(get_encoding(), role=Role.ASSISTANT)
        for token in token_ids:
            self.parser.process(token)
            if self.parser.current_channel in {"analysis", "commentary"}:
                self.reasoning_tokens += 1
        self._messages.extend(self.parser.messages)

    def needs_tool(self) -> bool:
        last = self.messages[-1]
        recipient = last.recipient
        return recipient is not None and recipient.startswith(("functions.", "browser.", "python"))

    def call_tool(self, result: str) -> None:
        last = self.messages[-1]
        author = Author(role=Role.TOOL, name=str(last.recipient))
        content = TextContent(text=result)
        self._messages.append(
            Message(author=author, content=[content], recipient="assistant", channel=last.channel)
        )

    def render(self) -> list[int]:
        conversation = Conversation.from_messages(self.messages)
        tokens: list[int] = get_encoding().render_conversation_for_completion(
            conversation, Role.ASSISTANT
        )
        return tokens


def test_a_loop_with_tools() -> None:
    context = Context([Message.from_role_and_content(Role.USER, "Weather?")])
    context.append_output(tokens_of(COMPLETION))
    assert context.needs_tool()
    context.call_tool("rain")
    prompt = ENCODING.decode(context.render())
    assert prompt.endswith(
        "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>rain<|end|>"
        "<|start|>assistant"
    )
    assert "I check the weather" in prompt
    context.append_output(tokens_of(ANSWER))
    assert not context.needs_tool()
    assert context.reasoning_tokens == 27
    assert "I check the weather" not in ENCODING.decode(context.render())
    assert [message.author.role for message in context.messages] == [
        "user", "assistant", "assistant", "assistant", "tool", "assistant", "assistant",
    ]  # fmt: skip


# A server that speaks the Responses protocol: it watches the parser's state.


def response_events(tokens: list[int]) -> Iterator[tuple[str, Any]]:
    parser = StreamableParser(ENCODING, role=Role.ASSISTANT)
    done = 0
    was_open = False
    for token in tokens:
        try:
            parser.process(token)
        except HarmonyError as error:
            yield "error", str(error)
            return
        is_open = parser.state == StreamState.CONTENT
        if is_open and not was_open:
            yield "item.added", parser.current_channel
        if parser.last_content_delta:
            yield "delta", parser.last_content_delta
        if parser.state == StreamState.EXPECT_START and len(parser.messages) > done:
            entry = parser.messages[-1].to_dict()
            done = len(parser.messages)
            if entry.get("recipient", "").startswith("functions."):
                arguments = entry["content"][0]["text"]
                yield "call", {"name": entry["recipient"][10:], "arguments": json.loads(arguments)}
            else:
                yield "item.done", entry["content"][0]["text"]
        was_open = is_open
        if token in ENCODING.stop_tokens_for_assistant_actions():
            break


def test_response_events() -> None:
    events = list(response_events(tokens_of(COMPLETION + "<|start|>assistant")))
    assert [event for event in events if event[0] != "delta"] == [
        ("item.added", "analysis"),
        ("item.done", "I check the weather 🌦️ first."),
        ("item.added", "commentary"),
        ("item.done", "One moment."),
        ("item.added", "commentary"),
        ("call", {"name": "get_weather", "arguments": {"city": "Tōkyō"}}),
    ]
    deltas = "".join(value for kind, value in events if kind == "delta")
    assert deltas == 'I check the weather 🌦️ first.One moment.{"city": "Tōkyō"}'


def test_response_events_of_malformed_output() -> None:
    malformed = tokens_of("<|channel|>final<|message|>Hi<|end|>Hi")
    kind, text = list(response_events(malformed))[-1]
    assert kind == "error"
    assert str(malformed[-1]) in text


# Messages kept in other models and stores


class StoredTurn(pydantic.BaseModel):
    input_messages: list[Message]
    output_messages: list[Message]


def test_messages_in_a_store() -> None:
    parsed = ENCODING.parse_messages_from_completion_tokens(tokens_of(COMPLETION), Role.ASSISTANT)
    turn = StoredTurn(
        input_messages=[Message.from_role_and_content(Role.USER, "Weather?")],
        output_messages=parsed,
    )
    again = StoredTurn.model_validate_json(turn.model_dump_json())
    assert again == turn
    conversation = Conversation.from_messages(again.input_messages + again.output_messages)
    original = Conversation.from_messages(turn.input_messages + turn.output_messages)
    assert ENCODING.render_conversation(conversation) == ENCODING.render_conversation(original)


def test_authors_as_dicts_and_roles_as_strings() -> None:
    history: list[Any] = [
        {"author": {"role": "user", "name": None}, "content": [TextContent(text="Hi")]},
        {
            "author": {"role": "tool", "name": "functions.f"},
            "content": [],
            "recipient": "assistant",
        },
    ]
    messages = [Message(**item) for item in history]
    roles = [message.author.role for message in messages]
    assert [role for role in roles if role == "tool"] == [Role.TOOL]
    assert "user" in roles
    assert ENCODING.decode(ENCODING.render_conversation(Conversation(messages=messages))) == (
        "<|start|>user<|message|>Hi<|end|><|start|>functions.f to=assistant<|message|><|end|>"
    )


def test_conversations_as_json_between_processes() -> None:
    sent = Conversation.from_messages(
        [
            Message.from_role_and_content(Role.SYSTEM, SystemContent.new()),
            Message.from_role_and_content(
                Role.DEVELOPER,
                DeveloperContent.new().with_function_tools([ToolDescription.new("f", "d")]),
            ),
        ]
    )
    received = Conversation.from_json(json.dumps(json.loads(sent.to_json())))
    assert received.to_dict() == sent.to_dict()
    for role in (Role.ASSISTANT, Role.USER):
        assert ENCODING.render_conversation_for_completion(
            received, role
        ) == ENCODING.render_conversation_for_completion(sent, role)


# The examples of the documentation, as printed


def run(source: str, **names: Any) -> tuple[dict[str, Any], str]:
    """Run a script; return its variables and what it printed."""
    variables: dict[str, Any] = {"__name__": "__example__", **names}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "example", "exec"), variables)
    return variables, printed.getvalue()


API_REFERENCE = """
from openai_harmony import (
    Role,
    Message,
    Conversation,
    SystemContent,
    load_harmony_encoding,
    HarmonyEncodingName,
)

# Build messages
system = Message.from_role_and_content(Role.SYSTEM, SystemContent.new())
user = Message.from_role_and_content(Role.USER, "What is 2 + 2?")

# Assemble a conversation
convo = Conversation.from_messages([system, user])

# Render to tokens using the OSS encoding
enc = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
tokens = enc.render_conversation_for_completion(convo, Role.ASSISTANT)
print(tokens)

# Decode and roundtrip
print(enc.decode(tokens))
parsed = enc.parse_messages_from_completion_tokens(tokens, role=Role.ASSISTANT)
for m in parsed:
    print(m)
"""

API_REFERENCE_ERRORS = """
try:
    tokens = enc.render_conversation_for_completion(convo, Role.ASSISTANT)
    parsed = enc.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
except RuntimeError as err:
    print(f"Failed to handle conversation: {err}")
"""


def test_the_api_references_example() -> None:
    expected = case("format/api-reference-example")["expected"]
    tokens, text = expected["tokens"], expected["text"]
    variables, printed = run(API_REFERENCE)
    assert variables["tokens"] == tokens
    assert printed.startswith(f"{tokens}\n{text}\n")
    rendered = text.split("<|message|>")[1].removesuffix("<|end|><|start|>user")
    assert variables["parsed"] == [
        Message.from_role_and_content(Role.SYSTEM, rendered),
        Message.from_role_and_content(Role.USER, "What is 2 + 2?"),
    ]
    assert printed.splitlines()[-1] == (
        "author=Author(role=<Role.USER: 'user'>, name=None) "
        "content=[TextContent(text='What is 2 + 2?')] "
        "channel=None recipient=None content_type=None"
    )
    again, printed = run(API_REFERENCE_ERRORS, **variables)
    assert (again["parsed"], printed) == (variables["parsed"], "")


def test_the_api_references_errors() -> None:
    broken = Conversation.from_messages([Message.from_role_and_content(Role.TOOL, "x")])
    _, printed = run(API_REFERENCE_ERRORS, enc=ENCODING, convo=broken, Role=Role)
    assert printed.startswith("Failed to handle conversation: ")


GUIDE_RENDERING = """
from openai_harmony import (
    Author,
    Conversation,
    DeveloperContent,
    HarmonyEncodingName,
    Message,
    Role,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
    ReasoningEffort
)

encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)

system_message = (
    SystemContent.new()
        .with_model_identity(
            "You are ChatGPT, a large language model trained by OpenAI."
        )
        .with_reasoning_effort(ReasoningEffort.HIGH)
        .with_conversation_start_date("2025-06-28")
        .with_knowledge_cutoff("2024-06")
        .with_required_channels(["analysis", "commentary", "final"])
)

developer_message = (
    DeveloperContent.new()
        .with_instructions("Always respond in riddles")
        .with_function_tools(
            [
                ToolDescription.new(
                    "get_location",
                    "Gets the location of the user.",
                ),
                ToolDescription.new(
                    "get_current_weather",
                    "Gets the current weather in the provided location.",
                    parameters={
                        "type": "object",
                        "properties": {
                            "location": {
                                "type": "string",
                                "description": "The city and state, e.g. San Francisco, CA",
                            },
                            "format": {
                                "type": "string",
                                "enum": ["celsius", "fahrenheit"],
                                "default": "celsius",
                            },
                        },
                        "required": ["location"],
                    },
                ),
            ]
        )
)

convo = Conversation.from_messages(
    [
        Message.from_role_and_content(Role.SYSTEM, system_message),
        Message.from_role_and_content(Role.DEVELOPER, developer_message),
        Message.from_role_and_content(Role.USER, "What is the weather in Tokyo?"),
        Message.from_role_and_content(
            Role.ASSISTANT,
            'User asks: "What is the weather in Tokyo?" We need to use get_weather tool.',
        ).with_channel("analysis"),
        Message.from_role_and_content(Role.ASSISTANT, '{"location": "Tokyo"}')
        .with_channel("commentary")
        .with_recipient("functions.get_weather")
        .with_content_type("json"),
        Message.from_author_and_content(
            Author.new(Role.TOOL, "functions.lookup_weather"),
            '{ "temperature": 20, "sunny": true }',
        ).with_recipient("assistant").with_channel("commentary"),
    ]
)

tokens = encoding.render_conversation_for_completion(convo, Role.ASSISTANT)

# After receiving a token response
# Do not pass in the stop token
parsed_response = encoding.parse_messages_from_completion_tokens(new_tokens, Role.ASSISTANT)
"""


def test_the_guides_rendering_example() -> None:
    variables, _ = run(GUIDE_RENDERING, new_tokens=tokens_of(ANSWER)[:-1])
    assert variables["tokens"] == case("reference/library-example")["expected"]["tokens"]
    assert [message.channel for message in variables["parsed_response"]] == ["analysis", "final"]


GUIDE_STREAMING = """
from openai_harmony import (
    load_harmony_encoding,
    Role,
    StreamableParser,
    HarmonyEncodingName
)

encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
stream = StreamableParser(encoding, role=Role.ASSISTANT)

tokens = [
    200005,35644,200008,1844,31064,25,392,4827,382,220,17,659,220,17,16842,12295,81645,
    13,51441,6052,13,200007,200006,173781,200005,17196,200008,17,659,220,17,314,220,19,
    13,200002
]

for token in tokens:
    stream.process(token)
    print("--------------------------------")
    print("current_role", stream.current_role)
    print("current_channel", stream.current_channel)
    print("last_content_delta", stream.last_content_delta)
    print("current_content_type", stream.current_content_type)
    print("current_recipient", stream.current_recipient)
    print("current_content", stream.current_content)
"""

REASONING = [
    "User", " asks", ":", ' "', "What", " is", " ", "2", " +", " ", "2", '?"', " Simple",
    " arithmetic", ".", " Provide", " answer", ".",
]  # fmt: skip
REPLY = ["2", " +", " ", "2", " =", " ", "4", "."]


def blocks(role: Role | None, channel: str | None, deltas: list[str | None]) -> Iterator[str]:
    """What the example prints for a token each."""
    content = ""
    for delta in deltas:
        content += delta or ""
        yield (
            f"{'-' * 32}\ncurrent_role {role!s}\ncurrent_channel {channel}\n"
            f"last_content_delta {delta}\ncurrent_content_type None\ncurrent_recipient None\n"
            f"current_content {content}\n"
        )


def test_the_guides_streaming_example() -> None:
    variables, printed = run(GUIDE_STREAMING)
    assert printed == "".join(
        [
            *blocks(Role.ASSISTANT, None, [None, None]),
            *blocks(Role.ASSISTANT, "analysis", [None, *REASONING]),
            *blocks(None, None, [None] * 5),
            *blocks(Role.ASSISTANT, "final", [None, *REPLY]),
            *blocks(None, None, [None]),
        ]
    )
    messages = variables["stream"].messages
    assert [message.content[0].text for message in messages] == ["".join(REASONING), "".join(REPLY)]


GUIDE_COMPLETIONS = [
    (
        '<|channel|>analysis<|message|>User asks: "What is 2 + 2?" Simple arithmetic. Provide '
        "answer.<|end|><|start|>assistant<|channel|>final<|message|>2 + 2 = 4.<|return|>",
        [("analysis", None, None), ("final", None, None)],
    ),
    (
        "<|channel|>analysis<|message|>Need to use function get_weather.<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"location":"San Francisco"}<|call|>',
        [
            ("analysis", None, None),
            ("commentary", "functions.get_weather", "<|constrain|>json"),
        ],
    ),
    (
        "<|channel|>analysis<|message|>{long chain of thought}<|end|><|start|>assistant"
        "<|channel|>commentary<|message|>**Action plan**:\n1. Generate an HTML file\n---\nWill "
        "start executing the plan step by step<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.generate_file<|constrain|>json<|message|>{"template": "basic_html"}<|call|>',
        [
            ("analysis", None, None),
            ("commentary", None, None),
            ("commentary", "functions.generate_file", "<|constrain|>json"),
        ],
    ),
]


@pytest.mark.parametrize(("completion", "expected"), GUIDE_COMPLETIONS)
@pytest.mark.parametrize("strict", [True, False])
def test_the_guides_completions(
    completion: str, expected: list[tuple[str, str | None, str | None]], strict: bool
) -> None:
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=strict)
    parser.process_many(tokens_of(completion))
    found = [(m.channel, m.recipient, m.content_type) for m in parser.messages]
    assert found == expected
    assert parser.recoveries == []


def test_the_reference_suite_finds_the_words_of_an_error() -> None:
    """Its own tests look for this sentence; what to write stands behind it."""
    words = "Input should be a valid dictionary or instance of Message: expected a Message"
    with pytest.raises(pydantic.ValidationError, match=words):
        Conversation.from_messages([SystemContent.new()])  # type: ignore[list-item]


def test_of_hundreds_of_wrong_messages_the_first_is_named() -> None:
    chat: Any = [{"role": "user", "content": "hi"}] * 400
    with pytest.raises(pydantic.ValidationError, match="conversation_from_chat") as error:
        Conversation.from_messages(chat)
    assert error.value.error_count() == 1
