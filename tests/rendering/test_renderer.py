"""Rendering: samples with text and tokens side by side, segments, and what stays independent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpt_oss_harmony import (
    Author,
    ChannelConfig,
    Content,
    Conversation,
    ConversationError,
    DeveloperContent,
    HarmonyEncoding,
    HarmonyEncodingName,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    RenderOptions,
    Role,
    SchemaError,
    Segment,
    SegmentKind,
    SystemContent,
    TextContent,
    ToolDescription,
    ToolNamespaceConfig,
    load_harmony_encoding,
)
from gpt_oss_harmony.rendering import renderer, system_prompt
from gpt_oss_harmony.rendering.renderer import Renderer
from gpt_oss_harmony.tokens.special_tokens import CALL, END, RETURN
from gpt_oss_harmony.tokens.tokenizer import Tokenizer, load_tokenizer
from support.vectors import case, cases

ENCODING = load_harmony_encoding("HarmonyGptOss")
HEADER_STYLES = Path(__file__).parents[1] / "data" / "header_styles.json"
"""Headers in our styles where neither the guide nor the reference spells them so."""


class Sample(NamedTuple):
    """A rendering: of the conformance kit, or of a header style that is no part of it."""

    name: str
    input: dict[str, Any]
    options: dict[str, Any]
    text: str
    tokens: list[int]

    @property
    def conversation(self) -> Conversation:
        return Conversation.from_json(json.dumps({"messages": self.input["messages"]}))

    @property
    def config(self) -> RenderConversationConfig:
        drop = self.input.get("drop_reasoning", True)
        return RenderConversationConfig(auto_drop_analysis=drop, **self.options)

    @property
    def message_options(self) -> RenderOptions:
        has_tools = self.input.get("has_function_tools", False)
        options = {key: self.options[key] for key in self.options if key != "reasoning_rule"}
        return RenderOptions(conversation_has_function_tools=has_tools, **options)


LEVELS: dict[str, dict[str, Any]] = {
    "format": {"header_style": "guide", "reasoning_rule": "by-turn"},
    "reference": {"schema_dialect": "reference"},
}
"""The options that a level of the kit asks for."""

KIT = [
    Sample(case["id"], case["input"], options, case["expected"]["text"], case["expected"]["tokens"])
    for level, options in LEVELS.items()
    for case in cases(level, "render")
    if case["rule"] not in ("unsafe-names-are-written", "boolean-parameters-are-refused")
]
STYLES = [
    Sample(style["name"], {**style, "next_role": style.get("role")}, style["options"],
           style["text"], style["tokens"])
    for style in json.loads(HEADER_STYLES.read_text(encoding="utf-8"))
]  # fmt: skip
ALL = [*KIT, *STYLES]
each_sample = pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.name)


def rendered(sample: Sample, encoding: HarmonyEncoding = ENCODING) -> list[int]:
    conversation, mode = sample.conversation, sample.input["mode"]
    if mode == "message":
        (message,) = conversation.messages
        return encoding.render(message, sample.message_options)
    if mode == "completion":
        role = Role(sample.input["next_role"])
        return encoding.render_conversation_for_completion(conversation, role, sample.config)
    if mode == "training":
        return encoding.render_conversation_for_training(conversation, sample.config)
    return encoding.render_conversation(conversation, sample.config)


def segments(sample: Sample) -> list[Segment]:
    conversation, mode = sample.conversation, sample.input["mode"]
    if mode == "training":
        return ENCODING.segments_for_training(conversation, sample.config)
    role = Role(sample.input["next_role"]) if mode == "completion" else None
    return ENCODING.segments_for_completion(conversation, role, sample.config)


@pytest.mark.parametrize("sample", STYLES, ids=lambda sample: sample.name)
def test_header_styles(sample: Sample) -> None:
    tokens = rendered(sample)
    assert ENCODING.decode_utf8(tokens) == sample.text
    assert tokens == sample.tokens


@pytest.fixture(scope="module")
def forgetful() -> HarmonyEncoding:
    encoding = HarmonyEncoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    encoding.limit_cache(0)
    return encoding


@each_sample
def test_samples_without_a_cache_and_with_a_warm_one(
    sample: Sample, forgetful: HarmonyEncoding
) -> None:
    assert rendered(sample, forgetful) == sample.tokens
    assert rendered(sample) == rendered(sample) == sample.tokens


SEGMENTED = [sample for sample in ALL if sample.input["mode"] != "message"]


@pytest.mark.parametrize("sample", SEGMENTED, ids=lambda sample: sample.name)
def test_samples_as_segments(sample: Sample) -> None:
    found = segments(sample)
    assert [token for segment in found for token in segment.tokens] == sample.tokens
    assert "".join(segment.text for segment in found) == sample.text
    for segment in found:
        assert ENCODING.decode(segment.tokens) == segment.text
    shown = dict.fromkeys(segment.message for segment in found)
    assert [*shown] == sorted(shown)
    for at, message in enumerate(sample.conversation.messages):
        kinds = [segment.kind.value for segment in found if segment.message == at]
        if at in shown:
            assert kinds == ["header", *["body"] * len(message.content), "stop"]
        else:
            assert message.channel == "analysis"
    next_turn = [s for s in found if s.message == len(sample.input["messages"])]
    assert [s.kind.value for s in next_turn] == ["header"] * (sample.input["mode"] == "completion")


def test_dialects_agree_on_schemas_that_the_guide_shows() -> None:
    names = ("functions", "browser", "python", "developer-parameters")
    chosen = [sample for sample in KIT if sample.name in {f"format/{name}" for name in names}]
    assert len(chosen) == len(names)
    for sample in chosen:
        for dialect in ("typescript", "reference"):
            changed = sample._replace(options={"schema_dialect": dialect})
            assert rendered(changed) == sample.tokens


# Segments


def messages_of_a_turn() -> list[Message]:
    return [
        Message.from_role_and_content(Role.USER, "2 + 2?"),
        Message.from_role_and_content(Role.ASSISTANT, "Easy.").with_channel("analysis"),
        Message.from_role_and_content(Role.ASSISTANT, "4").with_channel("final"),
    ]


def test_segments_of_a_prompt() -> None:
    conversation = Conversation.from_messages(messages_of_a_turn())
    assert ENCODING.segments_for_completion(conversation, Role.ASSISTANT) == [
        (SegmentKind.HEADER, 0, "<|start|>user<|message|>", [200006, 1428, 200008]),
        (SegmentKind.BODY, 0, "2 + 2?", [17, 659, 220, 17, 30]),
        (SegmentKind.STOP, 0, "<|end|>", [END]),
        (
            SegmentKind.HEADER,
            2,
            "<|start|>assistant<|channel|>final<|message|>",
            [200006, 173781, 200005, 17196, 200008],
        ),
        (SegmentKind.BODY, 2, "4", [19]),
        (SegmentKind.STOP, 2, "<|end|>", [END]),
        (SegmentKind.HEADER, 3, "<|start|>assistant", [200006, 173781]),
    ]


def test_segments_for_training_end_in_return() -> None:
    conversation = Conversation.from_messages(messages_of_a_turn())
    *_, last = ENCODING.segments_for_training(conversation)
    assert last == (SegmentKind.STOP, 2, "<|return|>", [RETURN])
    *_, last = ENCODING.segments_for_completion(conversation, None)
    assert last == (SegmentKind.STOP, 2, "<|end|>", [END])


# Stop tokens


@pytest.mark.parametrize(
    ("role", "name", "recipient", "stop"),
    [
        (Role.ASSISTANT, None, None, END),
        (Role.ASSISTANT, None, "functions.f", CALL),
        (Role.ASSISTANT, "a", "functions.f", CALL),
        (Role.ASSISTANT, None, "all", CALL),
        (Role.USER, None, "functions.f", END),
        (Role.TOOL, "functions.f", "assistant", END),
    ],
)
def test_what_a_message_ends_in(
    role: Role, name: str | None, recipient: str | None, stop: int
) -> None:
    message = Message(
        author=Author(role=role, name=name), content=[TextContent(text="x")], recipient=recipient
    )
    assert ENCODING.render(message)[-1] == stop


def test_the_built_in_system_message_is_that_of_the_format() -> None:
    """The model was trained on its tokens, which the reference wrote for this case."""
    sample = case("format/system-browser-and-python")
    content = (
        SystemContent.new()
        .with_reasoning_effort(ReasoningEffort.HIGH)
        .with_conversation_start_date("2025-06-28")
        .with_python_tool()
        .with_browser_tool()
    )
    message = Message.from_role_and_content(Role.SYSTEM, content)
    (recorded, *_) = sample["input"]["messages"]
    assert json.loads(message.to_json()) == {"name": None, **recorded}
    tokens = ENCODING.render(message)
    assert sample["expected"]["tokens"][: len(tokens)] == tokens


# What a caller does to the objects afterwards

TOOL = ToolDescription.new("f", "d", {"type": "object", "properties": {"a": {"type": "string"}}})


def a_conversation() -> Conversation:
    system = SystemContent.new().with_browser_tool()
    developer = DeveloperContent.new().with_function_tools([TOOL.model_copy(deep=True)])
    return Conversation.from_messages(
        [
            Message.from_role_and_content(Role.SYSTEM, system),
            Message.from_role_and_content(
                Role.DEVELOPER, developer.with_response_format("r", {"type": "object"})
            ),
            Message.from_role_and_content(Role.USER, "Hi"),
        ]
    )


def system_of(conversation: Conversation) -> SystemContent:
    content = conversation.messages[0].content[0]
    assert isinstance(content, SystemContent)
    return content


def developer_of(conversation: Conversation) -> DeveloperContent:
    content = conversation.messages[1].content[0]
    assert isinstance(content, DeveloperContent)
    return content


def functions_of(conversation: Conversation) -> ToolNamespaceConfig:
    tools = developer_of(conversation).tools
    assert tools is not None
    return tools["functions"]


def schema_of(conversation: Conversation) -> dict[str, Any]:
    schema = functions_of(conversation).tools[0].parameters
    assert schema is not None
    return schema


def formats_of(conversation: Conversation) -> dict[str, Any]:
    formats = developer_of(conversation).response_formats
    assert formats is not None
    return formats


def set_channels(conversation: Conversation) -> None:
    config = system_of(conversation).channel_config
    assert config is not None
    config.valid_channels.append("extra")


CHANGES: dict[str, tuple[Callable[[Conversation], object], str]] = {
    "text": (
        lambda c: setattr(c.messages[2].content[0], "text", "Ho"),
        "<|start|>user<|message|>Ho<|end|>",
    ),
    "content added": (lambda c: c.messages[2].adding_content("!"), "<|message|>Hi!<|end|>"),
    "role": (lambda c: setattr(c.messages[2].author, "role", Role.ASSISTANT), "assistant<|mess"),
    "name": (lambda c: setattr(c.messages[2].author, "name", "bob"), "user:bob<|message|>"),
    "channel": (lambda c: c.messages[2].with_channel("x"), "user<|channel|>x<|message|>"),
    "recipient": (lambda c: c.messages[2].with_recipient("x"), "user to=x<|message|>"),
    "content type": (lambda c: c.messages[2].with_content_type("x"), "user x<|message|>"),
    "effort": (lambda c: setattr(system_of(c), "reasoning_effort", "Low"), "Reasoning: low"),
    "channels": (set_channels, "final, extra."),
    "instructions": (lambda c: developer_of(c).with_instructions("Be brief."), "Be brief."),
    "tool's name": (lambda c: setattr(functions_of(c).tools[0], "name", "g"), "type g = ("),
    "tool's description": (
        lambda c: setattr(functions_of(c).tools[0], "description", "new"), "// new\n",
    ),
    "tool added": (
        lambda c: functions_of(c).tools.append(ToolDescription.new("h", "d")), "type h = () => any",
    ),
    "namespace's name": (lambda c: setattr(functions_of(c), "name", "x"), "namespace x {"),
    "schema": (lambda c: schema_of(c)["properties"].update(b={"type": "number"}), "b?: number"),
    "schema, deep": (
        lambda c: schema_of(c)["properties"]["a"].update(type="boolean"), "a?: boolean",
    ),
    "schema's order": (
        lambda c: schema_of(c).update(
            properties={"z": {"type": "string"}, "a": {"type": "string"}}
        ),
        "z?: string,\na?: string",
    ),
    "format": (lambda c: formats_of(c)["r"].json_schema.update(type="array"), '{"type":"array"}'),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_shows_in_the_next_rendering(name: str) -> None:
    change, expected = CHANGES[name]
    conversation = a_conversation()
    before = ENCODING.render_conversation(conversation)
    assert expected not in ENCODING.decode(before)
    change(conversation)
    assert expected in ENCODING.decode(ENCODING.render_conversation(conversation))
    assert ENCODING.render_conversation(a_conversation()) == before


def test_true_and_one_are_told_apart_in_schemas() -> None:
    """They are equal in Python, and so would be as keys of a cache."""
    texts = set()
    for value in (True, 1, 1.0):
        schema = {"type": "object", "properties": {"a": {"type": "number", "default": value}}}
        content = DeveloperContent.new().with_function_tools(
            [ToolDescription.new("f", "d", schema)]
        )
        content.with_response_format("r", {"const": value})
        message = Message.from_role_and_content(Role.DEVELOPER, content)
        texts.add(ENCODING.decode(ENCODING.render(message)))
    assert len(texts) == 3


def test_the_split_into_contents_is_part_of_the_tokens() -> None:
    texts: list[list[Content]] = [
        [TextContent(text=text) for text in split]
        for split in (["ab"], ["a", "b"], ["", "ab"], ["ab", ""])
    ]
    tokens = [ENCODING.render(Message.from_role_and_contents(Role.USER, each)) for each in texts]
    assert [each[3:-1] for each in tokens] == [[378], [64, 65], [378], [378]]


def test_returned_lists_belong_to_the_caller() -> None:
    conversation = Conversation.from_messages(messages_of_a_turn())
    message = conversation.messages[0]

    def results() -> list[list[int]]:
        return [
            ENCODING.render(message),
            ENCODING.render_conversation(conversation),
            ENCODING.render_conversation_for_training(conversation),
            ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT),
            *(segment.tokens for segment in ENCODING.segments_for_training(conversation)),
            *(s.tokens for s in ENCODING.segments_for_completion(conversation, Role.ASSISTANT)),
        ]

    expected = [list(tokens) for tokens in results()]
    for tokens in results():
        tokens.append(0)
    assert results() == expected


def test_threads_share_an_encoding() -> None:
    encoding = HarmonyEncoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    encoding.limit_cache(40_000)  # small enough to be emptied all the time
    chosen = [sample for sample in ALL if sample.input["mode"] == "plain"] * 4
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda sample: rendered(sample, encoding), chosen))
    assert results == [sample.tokens for sample in chosen]


def test_the_cache_counts_texts_names_and_schemas() -> None:
    encoding = HarmonyEncoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    encoding.limit_cache(200_000)
    caches = encoding._renderer.cache, encoding._renderer.headers
    short = Message.from_role_and_content(Role.USER, "hi")
    long_text = Message.from_role_and_content(Role.USER, " " * 150_000 + "🏰")  # three tokens or so
    long_name = Message.from_author_and_content(Author.new(Role.TOOL, "hello" * 630), "hi")
    for message in (short, long_text, long_name):
        encoding.render(message)
    assert [[key[-1] for key in cache.young] for cache in caches] == [["hi", "hi"], [None]]
    parameters = {"type": "object", "x": "y" * 20_000}  # of which nothing is written
    tools = [ToolDescription.new("f", "", parameters)]
    content = DeveloperContent.new().with_function_tools(tools)
    encoding.render(Message.from_role_and_content(Role.DEVELOPER, content))
    assert not encoding._renderer.prompts.tools_cache.young


def test_a_conversation_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def watch(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def watched(*given: Any) -> Any:
            made.append(name)
            return function(*given)

        monkeypatch.setattr(owner, name, watched)

    watch(renderer, "header_pieces")
    watch(system_prompt, "tool_declaration")
    watch(Tokenizer, "encode_many")
    tools = [ToolDescription.new("f", "", {"type": "object"})]
    declared = DeveloperContent.new().with_function_tools(tools)
    parts: list[Content] = [TextContent(text="a"), TextContent(text="b")]
    messages = [
        Message.from_role_and_content(Role.DEVELOPER, declared),
        Message.from_role_and_content(Role.USER, "2 + 2?"),
        Message.from_role_and_contents(Role.USER, parts),
    ]
    encoding = HarmonyEncoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    expected = encoding.render_conversation(Conversation.from_messages(messages))
    assert made == ["tool_declaration", "encode_many", "header_pieces", "header_pieces"]
    made.clear()
    assert encoding.render_conversation(Conversation.from_messages(messages)) == expected
    assert made == []
    encoding.render(Message.from_role_and_content(Role.USER, "4 + 4?"))
    assert made == ["encode_many"]
    made.clear()
    twice = DeveloperContent.new().with_instructions("Add.").with_function_tools(tools)
    encoding.render(Message.from_role_and_content(Role.DEVELOPER, twice))
    assert made == ["encode_many"]


def test_only_messages_of_the_chosen_roles_are_cached() -> None:
    renderer = Renderer(load_tokenizer(), cached_roles=(Role.DEVELOPER,))
    messages = [
        Message.from_role_and_content(role, role.value) for role in (Role.DEVELOPER, Role.USER)
    ]
    twice = [renderer.messages(messages, "typescript", "guide", lambda: False) for _ in range(2)]
    assert [key[-1] for key in renderer.cache.young] == ["developer"]
    assert [[list(r.tokens) for r in made] for made in twice] == [
        [ENCODING.render(message) for message in messages]
    ] * 2


# What cannot be rendered


class Unknown(Content):
    pass


@pytest.mark.parametrize(
    ("message", "field", "problem"),
    [
        (
            Message.from_role_and_content(Role.TOOL, "x"),
            "author.name",
            "a message by a tool needs the tool's name",
        ),
        (
            Message.from_role_and_content(Role.USER, SystemContent.new()),
            "content",
            "SystemContent belongs in a system message, not in a user message",
        ),
        (
            Message.from_role_and_content(Role.SYSTEM, DeveloperContent.new()),
            "content",
            "DeveloperContent belongs in a developer message, not in a system message",
        ),
        (
            Message.from_role_and_content(Role.USER, Unknown()),
            "content",
            "cannot render content of type Unknown",
        ),
    ],
)
def test_refused_messages(message: Message, field: str, problem: str) -> None:
    conversation = Conversation.from_messages([message])
    for render in (ENCODING.render_conversation, ENCODING.render_conversation_for_training):
        with pytest.raises(ConversationError) as caught:
            render(conversation)
        assert caught.value.problem == problem
        assert caught.value.field.endswith(field)
    with pytest.raises(ConversationError, match=re.escape(problem)):
        ENCODING.render(message)


def test_an_unknown_effort_is_refused() -> None:
    content = SystemContent.new()
    content.reasoning_effort = "Extreme"  # type: ignore[assignment]
    with pytest.raises(ConversationError, match="'Extreme' is not a reasoning effort"):
        ENCODING.render(Message.from_role_and_content(Role.SYSTEM, content))


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"x", "\ud800"])
def test_a_response_format_must_be_json(value: Any) -> None:
    content = DeveloperContent.new().with_response_format("r", {"const": value})
    with pytest.raises(SchemaError):
        ENCODING.render(Message.from_role_and_content(Role.DEVELOPER, content))


def test_channels_are_announced_as_given() -> None:
    config = ChannelConfig(valid_channels=["a", "b c"], channel_required=False)
    content = SystemContent.new().with_channel_config(config)
    text = ENCODING.decode(ENCODING.render(Message.from_role_and_content(Role.SYSTEM, content)))
    assert text.endswith("\n\n# Valid channels: a, b c.<|end|>")
