"""Hypothesis strategies for messages, texts and token streams."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple, get_args

from hypothesis import settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Author,
    ChannelConfig,
    Content,
    Conversation,
    ConversationError,
    DeveloperContent,
    HeaderStyle,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    ResponseFormat,
    Role,
    SchemaDialect,
    StreamableParser,
    SystemContent,
    TextContent,
    TokenError,
    ToolDescription,
    ToolNamespaceConfig,
    load_harmony_encoding,
)
from gpt_oss_harmony.tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    CONSTRAIN_TEXT,
    END,
    MESSAGE,
    RETURN,
    START,
    VOCABULARY_SIZE,
)
from support.examples import examples

ENCODING = load_harmony_encoding("HarmonyGptOss")
STYLES: tuple[HeaderStyle, ...] = get_args(HeaderStyle)
DIALECTS: tuple[SchemaDialect, ...] = get_args(SchemaDialect)
CHANNELS = ("analysis", "commentary", "final")
TOOLS = ("functions.f", "functions.get_weather", "browser.search", "python")

laws = settings(max_examples=examples(200))


# Texts and messages

SNIPPETS = (
    "assistant", "final", "to=functions.f", "<|end|>", "<|start|>assistant", "<|channel|>final",
    "<|message|>", "<|constrain|>json", "<|reserved_200000|>", "<|", "|>", "🏰", "🏳️‍🌈", "é", "日本",
    "\n\n", "\r\n", "  ", "'s", "12345", '{"a": 1}', "\ufffd", "\x00", "\u2028",
)  # fmt: skip
characters = st.characters(exclude_categories=["Cs"])
texts = st.lists(st.sampled_from(SNIPPETS) | st.text(characters, max_size=8), max_size=6).map(
    "".join
)
surrogate_texts = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=12)


def _is_free(word: str) -> bool:
    return word != "all" and word not in [role.value for role in Role]


words = st.text("abcXYZ019_.-éß日", min_size=1, max_size=8).filter(_is_free)
content_types = words | words.map(CONSTRAIN_TEXT.__add__)


@st.composite
def well_formed_messages(draw: st.DrawFn) -> Message:
    """Messages whose header can be read back in strict mode, as in the reference.

    Names are without spaces; only tools have names, and a recipient; a content type without a
    recipient is a known one, behind a channel.
    """
    role = draw(st.sampled_from(Role))
    is_tool = role is Role.TOOL
    recipient = draw(st.just("assistant") | words if is_tool else st.none() | words)
    channel = draw(st.none() | st.sampled_from(CHANNELS) | words)
    content_type = draw(st.none() | content_types)
    if recipient is None:
        known_types = st.sampled_from(["json", "code", "<|constrain|>json"])
        content_type = draw(st.none() | known_types) if channel else None
    return Message(
        author=Author(role=role, name=draw(words) if is_tool else None),
        content=[TextContent(text=text) for text in draw(st.lists(texts, max_size=3))],
        channel=channel,
        recipient=recipient,
        content_type=content_type,
    )


@st.composite
def usual_messages(draw: st.DrawFn) -> Message:
    """Messages such as people write and models answer."""
    text = draw(texts)
    role = draw(st.sampled_from(Role))
    if role is Role.TOOL:
        author = Author.new(role, draw(st.sampled_from(TOOLS)))
        message = Message.from_author_and_content(author, text)
        return message.with_recipient("assistant").with_channel("commentary")
    message = Message.from_role_and_content(role, text)
    if role is Role.ASSISTANT:
        message.channel = draw(st.none() | st.sampled_from(CHANNELS))
        if draw(st.booleans()):
            message.recipient = draw(st.sampled_from(TOOLS))
            message.channel = draw(st.sampled_from(CHANNELS[:2]))
            message.content_type = draw(st.sampled_from([None, "json", "<|constrain|>json"]))
    return message


FIELD_SNIPPETS = (
    *SNIPPETS, "system", "user", "developer", "tool", "user:", "tool:", "assistant:", "functions.f",
    "functions.get_weather", "commentary", "analysis", "json", "code", " ", "\n", "\t", "=", "to=",
    ":", ".", "'", '"', "\u200b", "\xa0", "\x85", "\x1c", "a", "B", "_", "-", "é", "日",
)  # fmt: skip
field_texts = st.lists(st.sampled_from(FIELD_SNIPPETS), max_size=3).map("".join) | st.text(
    characters, max_size=4
)


@st.composite
def odd_headers(draw: st.DrawFn) -> Message:
    """Messages with anything in the fields of their headers; some cannot be rendered."""
    role = draw(st.sampled_from(Role))
    optional = st.none() | field_texts
    return Message(
        author=Author(role=role, name=draw(optional)),
        content=[TextContent(text="hi")],
        channel=draw(optional),
        recipient=draw(optional | st.just("all")),
        content_type=draw(optional | field_texts.map(CONSTRAIN_TEXT.__add__)),
    )


def _renders(message: Message) -> bool:
    header = message.model_copy(update={"content": []})
    try:
        ENCODING.render(header)
    except ConversationError:
        return False
    return True


@st.composite
def odd_messages(draw: st.DrawFn) -> Message:
    """Messages with anything anywhere that still renders."""
    message = draw(odd_headers().filter(_renders))
    contents: st.SearchStrategy[Content] = st.builds(TextContent, text=texts)
    if message.author.role is Role.SYSTEM:
        contents |= system_contents()
    if message.author.role is Role.DEVELOPER:
        contents |= developer_contents()
    message.content = draw(st.lists(contents, max_size=2))
    return message


def tools() -> st.SearchStrategy[dict[str, ToolNamespaceConfig]]:
    schemas = st.none() | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "string"]),
            "description": texts,
            "properties": st.dictionaries(texts, st.builds(dict, type=texts), max_size=2),
            "default": texts | st.none() | st.integers(),
        },
    )
    described = st.builds(ToolDescription, name=texts, description=texts, parameters=schemas)
    namespace = st.builds(
        ToolNamespaceConfig,
        name=texts,
        description=st.none() | texts,
        tools=st.lists(described, max_size=2),
    )
    return st.dictionaries(texts, namespace, max_size=2)


def system_contents() -> st.SearchStrategy[SystemContent]:
    channels = st.builds(
        ChannelConfig, valid_channels=st.lists(texts, max_size=2), channel_required=st.booleans()
    )
    return st.builds(
        SystemContent,
        model_identity=texts,
        reasoning_effort=st.sampled_from(ReasoningEffort),
        conversation_start_date=st.none() | texts,
        knowledge_cutoff=texts,
        channel_config=channels,
        tools=st.none() | tools(),
    )


def developer_contents() -> st.SearchStrategy[DeveloperContent]:
    schemas = st.booleans() | st.dictionaries(texts, texts | st.none(), max_size=2)
    formats = st.builds(
        ResponseFormat, name=texts, json_schema=schemas, description=st.none() | texts
    )
    return st.builds(
        DeveloperContent,
        instructions=st.none() | texts,
        tools=st.none() | tools(),
        response_formats=st.none() | st.dictionaries(texts, formats, max_size=2),
    )


def text_of(message: Message) -> str:
    return "".join(item.text for item in message.content if isinstance(item, TextContent))


# Streams

MARKERS = (START, END, MESSAGE, CHANNEL, CONSTRAIN, RETURN, CALL)
HEADER_TEXTS = (
    "assistant", "user", "tool", "analysis", "commentary", "final", " to=functions.f", "to=",
    "functions.f", " json", "json", " ", "\n", "assistantfinal", "functions.fjson", "python",
)  # fmt: skip


def encoded(text: str) -> list[int]:
    return ENCODING.encode(text, disallowed_special=())


def tokens_of(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


STARTS = (
    "<|start|>assistant<|channel|>final<|message|>",
    "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
    "<|start|>functions.f to=assistant<|message|>",
    "<|channel|>analysis<|message|>",
)
fragments = st.one_of(
    st.sampled_from(MARKERS).map(lambda token: [token]),
    st.sampled_from(STARTS).map(tokens_of),
    st.sampled_from(HEADER_TEXTS).map(encoded),
    texts.map(encoded),
    st.sampled_from([[52622], [178], [4103, 99], [199998], [200000]]),
    st.integers(0, VOCABULARY_SIZE - 1).map(lambda token: [token]),
)


def joined(parts: Iterable[list[int]]) -> list[int]:
    return [token for part in parts for token in part]


streams = st.lists(fragments, max_size=12).map(joined)
unknown_ids = st.sampled_from([[-1], [201089], [2**40]])
wild_streams = st.lists(fragments | unknown_ids, max_size=12).map(joined)


@st.composite
def rendered_streams(draw: st.DrawFn) -> list[int]:
    messages = draw(st.lists(usual_messages(), max_size=4))
    config = RenderConversationConfig(
        auto_drop_analysis=False, header_style=draw(st.sampled_from(STYLES))
    )
    return ENCODING.render_conversation(Conversation.from_messages(messages), config)


roles = st.none() | st.sampled_from([Role.ASSISTANT, Role.USER])
tool_sets = st.sampled_from([(), TOOLS])
cuts = st.lists(st.integers(0, 60), max_size=6)


def chunks(tokens: list[int], at: list[int]) -> list[list[int]]:
    return [tokens[a:b] for a, b in pairwise(sorted({0, *at, len(tokens)})) if a < len(tokens)]


class Outcome(NamedTuple):
    """All that a parser can be asked at its end."""

    messages: list[Message]
    tokens: list[int]
    recoveries: list[tuple[Any, ...]]
    incomplete: bool
    error: tuple[str, int | None, str | None] | None


def outcome(parser: StreamableParser, parts: Iterable[list[int]]) -> Outcome:
    error = None
    try:
        for part in parts:
            parser.process_many(part)
        parser.process_eos()
    except TokenError as caught:
        error = (caught.problem, caught.position, caught.state)
    return Outcome(
        parser.messages, parser.tokens, [*parser.recoveries], parser.incomplete, error
    )  # fmt: skip
