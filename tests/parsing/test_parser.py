"""The strict parser against tables of token streams, each read in several ways."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import pytest

from openai_harmony import (
    Author,
    HarmonyError,
    Message,
    Role,
    StreamableParser,
    StreamState,
    TextContent,
    TokenError,
    VocabularyError,
    load_harmony_encoding,
)
from openai_harmony.tokens.special_tokens import SPECIAL_TEXTS, STOP_TOKENS

ENCODING = load_harmony_encoding("HarmonyGptOss")
ANSWER = "<|start|>assistant<|channel|>final<|message|>4<|return|>"


class Plain(str):
    """Text that is encoded without special tokens, whatever it spells."""


Stream: TypeAlias = "str | tuple[str | list[int], ...]"
"""Text with special tokens; or such texts, plain texts and token ids one after the other."""


def tokens_of(stream: Stream) -> list[int]:
    tokens: list[int] = []
    for piece in (stream,) if isinstance(stream, str) else stream:
        if isinstance(piece, list):
            tokens += piece
        elif isinstance(piece, Plain):
            tokens += ENCODING.encode(piece, disallowed_special=())
        else:
            tokens += ENCODING.encode(piece, allowed_special="all")
    return tokens


def message(
    role: str,
    text: str,
    *,
    name: str | None = None,
    channel: str | None = None,
    recipient: str | None = None,
    content_type: str | None = None,
) -> Message:
    return Message(
        author=Author(role=Role(role), name=name),
        content=[TextContent(text=text)],
        channel=channel,
        recipient=recipient,
        content_type=content_type,
    )


ASSISTANT = Role.ASSISTANT


# Ways to feed a parser


def whole(parser: StreamableParser, tokens: list[int]) -> None:
    parser.process_many(tokens)


def one_by_one(parser: StreamableParser, tokens: list[int]) -> None:
    for token in tokens:
        assert parser.process(token) is parser


def in_pairs(parser: StreamableParser, tokens: list[int]) -> None:
    for at in range(0, len(tokens), 2):
        parser.process_many(tokens[at : at + 2])


def mixed(parser: StreamableParser, tokens: list[int]) -> None:
    parser.process_many(iter(tokens[:3]))
    one_by_one(parser, tokens[3:5])
    parser.process_many([])
    parser.process_many(tuple(tokens[5:]))


WAYS: list[Callable[[StreamableParser, list[int]], None]] = [whole, one_by_one, in_pairs, mixed]
each_way = pytest.mark.parametrize("feed", WAYS, ids=lambda way: way.__name__)


# Streams that follow the format


class Accepted(NamedTuple):
    name: str
    stream: Stream
    messages: list[Message]
    role: Role | None = None
    tools: tuple[str, ...] = ()


CALL = message(
    "assistant", "{}", channel="commentary", recipient="functions.f", content_type="json"
)
CONSTRAINED = CALL.model_copy(update={"content_type": "<|constrain|>json"})
UNTYPED = CALL.model_copy(update={"content_type": "<|constrain|>"})
RESULT = message("tool", "20", name="functions.f", channel="commentary", recipient="assistant")

ACCEPTED = [
    Accepted("nothing", "", []),
    Accepted("user", "<|start|>user<|message|>Hi<|end|>", [message("user", "Hi")]),
    Accepted("system", "<|start|>system<|message|>S<|end|>", [message("system", "S")]),
    Accepted("developer", "<|start|>developer<|message|>D<|end|>", [message("developer", "D")]),
    Accepted(
        "named author", "<|start|>user:bob<|message|>Hi<|end|>", [message("user", "Hi", name="bob")]
    ),
    Accepted("empty name", "<|start|>user:<|message|>Hi<|end|>", [message("user", "Hi", name="")]),
    Accepted(
        "name with a colon",
        "<|start|>assistant:a:b<|message|>Hi<|end|>",
        [message("assistant", "Hi", name="a:b")],
    ),
    Accepted("empty body", "<|start|>user<|message|><|end|>", [message("user", "")]),
    Accepted(
        "channel",
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>",
        [message("assistant", "Hm.", channel="analysis")],
    ),
    Accepted(
        "a channel of any name",
        "<|start|>assistant<|channel|>confidence<|message|>1<|end|>",
        [message("assistant", "1", channel="confidence")],
    ),
    Accepted(
        "a space after the channel",
        "<|start|>assistant<|channel|>final <|message|>4<|end|>",
        [message("assistant", "4", channel="final")],
    ),
    Accepted("return", ANSWER, [message("assistant", "4", channel="final")]),
    # Calls: the recipient before or after the channel, the type with or without its marker.
    *[
        Accepted(
            f"call with {header}", f"<|start|>assistant{header}<|message|>{{}}<|call|>", [call]
        )
        for header, call in {
            "<|channel|>commentary to=functions.f <|constrain|>json": CONSTRAINED,
            "<|channel|>commentary to=functions.f<|constrain|>json": CONSTRAINED,
            "<|channel|>commentary to=functions.f<|constrain|> json": CONSTRAINED,
            "<|channel|>commentary to=functions.f json": CALL,
            " to=functions.f<|channel|>commentary json": CALL,
            " to=functions.f<|channel|>commentary <|constrain|>json": CONSTRAINED,
            " to=functions.f <|constrain|>json<|channel|>commentary": CONSTRAINED,
            " to=functions.f json<|channel|>commentary": CALL,
            " \n\tto=functions.f\f<|channel|>commentary\r\njson \n": CALL,
            " to=functions.f<|channel|>commentary<|constrain|>": UNTYPED,
        }.items()
    ],
    Accepted(
        "call without a channel",
        "<|start|>assistant to=functions.f<|message|>{}<|call|>",
        [message("assistant", "{}", recipient="functions.f")],
    ),
    Accepted(
        "built-in tool on analysis",
        "<|start|>assistant<|channel|>analysis to=browser.search code<|message|>{}<|call|>",
        [
            message(
                "assistant",
                "{}",
                channel="analysis",
                recipient="browser.search",
                content_type="code",
            )
        ],
    ),
    Accepted(
        "type without a recipient",
        "<|start|>assistant<|channel|>final <|constrain|>json<|message|>{}<|return|>",
        [message("assistant", "{}", channel="final", content_type="<|constrain|>json")],
    ),
    Accepted(
        "plain type without a recipient",
        "<|start|>assistant<|channel|>final json<|message|>{}<|return|>",
        [message("assistant", "{}", channel="final", content_type="json")],
    ),
    Accepted(
        "empty recipient",
        "<|start|>assistant to=<|channel|>final<|message|>x<|end|>",
        [message("assistant", "x", channel="final", recipient="")],
    ),
    # Tools: known by their name alone.
    Accepted(
        "tool's answer",
        "<|start|>functions.f to=assistant<|channel|>commentary<|message|>20<|end|>",
        [RESULT],
    ),
    Accepted(
        "tool's answer, recipient last",
        "<|start|>functions.f<|channel|>commentary to=assistant<|message|>20<|end|>",
        [RESULT],
    ),
    Accepted(
        "a tool named tool",
        "<|start|>tool to=assistant<|message|>20<|end|>",
        [message("tool", "20", name="tool", recipient="assistant")],
    ),
    Accepted(
        "declared tool without recipient",
        "<|start|>functions.f<|message|>20<|end|>",
        [message("tool", "20", name="functions.f")],
        tools=("functions.f",),
    ),
    Accepted(
        "recipient without to=, declared",
        "<|start|>assistant<|channel|>commentary functions.f json<|message|>{}<|call|>",
        [CALL],
        tools=("functions.f", "functions.g"),
    ),
    Accepted(
        "only ASCII white space separates words, as in the reference",
        "<|start|>assistant to=a\u00a0b\u2028c\u3000\vd<|message|>x<|end|>",
        [message("assistant", "x", recipient="a\u00a0b\u2028c\u3000\vd")],
    ),
    Accepted(
        "control characters in words",
        "<|start|>assistant<|channel|>a\x1cb<|message|>x<|end|>",
        [message("assistant", "x", channel="a\x1cb")],
    ),
    # Only real special tokens are markers.
    Accepted(
        "text that spells markers in a header",
        ("<|start|>assistant<|channel|>", Plain("<|end|>"), "<|message|>x<|end|>"),
        [message("assistant", "x", channel="<|end|>")],
    ),
    Accepted(
        "text that spells markers in a body",
        ("<|start|>user<|message|>", Plain("<|end|><|start|>assistant"), "<|end|>"),
        [message("user", "<|end|><|start|>assistant")],
    ),
    Accepted(
        "special tokens in a body are text",
        "<|start|>user<|message|>a<|start|>b<|channel|>c<|constrain|>d<|message|>e<|startoftext|>"
        "f<|endoftext|>g<|reserved_200000|>h<|reserved_201088|><|end|>",
        [
            message(
                "user",
                "a<|start|>b<|channel|>c<|constrain|>d<|message|>e<|startoftext|>"
                "f<|endoftext|>g<|reserved_200000|>h<|reserved_201088|>",
            )
        ],
    ),
    Accepted(
        "characters of several tokens",
        "<|start|>user<|message|>ﷺ 🏳️‍🌈 𝔘𝔫𝔦 é<|end|>",
        [message("user", "ﷺ 🏳️‍🌈 𝔘𝔫𝔦 é")],
    ),
    Accepted(
        "invalid UTF-8 in a body",
        ("<|start|>user<|message|>a", [178], "b<|end|>"),
        [message("user", "a\ufffdb")],
    ),
    Accepted(
        "half a character at a body's end",
        ("<|start|>user<|message|>a", [178], "<|end|>"),
        [message("user", "a\ufffd")],
    ),
    # The role as part of the prompt.
    Accepted(
        "completion",
        "<|channel|>analysis<|message|>Hm.<|end|>" + ANSWER,
        [
            message("assistant", "Hm.", channel="analysis"),
            message("assistant", "4", channel="final"),
        ],
        role=ASSISTANT,
    ),
    Accepted(
        "completion without a channel",
        "<|message|>x<|end|>",
        [message("assistant", "x")],
        role=ASSISTANT,
    ),
    Accepted(
        "completion that begins with a recipient",
        " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
        [CALL],
        role=ASSISTANT,
    ),
    Accepted(
        "completion that repeats the role",
        "assistant<|channel|>final<|message|>4<|return|>",
        [message("assistant", "4", channel="final")],
        role=ASSISTANT,
    ),
    Accepted(
        "leading start although the role is given",
        ANSWER,
        [message("assistant", "4", channel="final")],
        role=ASSISTANT,
    ),
    Accepted(
        "whole prompt although the role is given",
        "<|start|>user<|message|>2 + 2?<|end|>" + ANSWER,
        [message("user", "2 + 2?"), message("assistant", "4", channel="final")],
        role=ASSISTANT,
    ),
    Accepted("given user", "<|message|>Hi<|end|>", [message("user", "Hi")], role=Role.USER),
    # The end of the tokens.
    Accepted("cut body", "<|start|>user<|message|>Hi th", [message("user", "Hi th")]),
    Accepted("cut before the body", "<|start|>user<|message|>", [message("user", "")]),
    Accepted(
        "prompt that ends in a bare role",
        "<|start|>user<|message|>Hi<|end|><|start|>assistant",
        [message("user", "Hi")],
    ),
    *[Accepted(f"bare {role.value}", f"<|start|>{role.value}", []) for role in Role],
]


def parser_for(case: Accepted | Refused) -> StreamableParser:
    return StreamableParser(ENCODING, case.role, tools=case.tools)


each_accepted = pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)


@each_accepted
def test_accepted_in_one_call(case: Accepted) -> None:
    tokens = tokens_of(case.stream)
    parsed = ENCODING.parse_messages_from_completion_tokens(tokens, case.role, tools=case.tools)
    assert parsed == case.messages


@each_way
@each_accepted
def test_accepted_in_parts(case: Accepted, feed: Callable[..., None]) -> None:
    tokens = tokens_of(case.stream)
    parser = parser_for(case)
    feed(parser, tokens)
    assert parser.process_eos() is parser
    assert parser.messages == case.messages
    assert parser.tokens == tokens
    assert parser.state is StreamState.EXPECT_START
    assert parser.recoveries == []
    assert parser.incomplete == case.name.startswith("cut ")


ENDED = [case for case in ACCEPTED if STOP_TOKENS.issuperset(tokens_of(case.stream)[-1:])]


@each_way
@pytest.mark.parametrize("case", ENDED, ids=lambda case: case.name)
def test_accepted_with_trailing_data(case: Accepted, feed: Callable[..., None]) -> None:
    tokens = tokens_of(case.stream)
    parser = parser_for(case)
    feed(parser, tokens + tokens_of(ANSWER) + tokens_of("<|start|>user<|message|>And"))
    assert parser.messages == [*case.messages, message("assistant", "4", channel="final")]
    assert (parser.state, parser.current_content) == (StreamState.CONTENT, "And")


# Streams that do not


class Refused(NamedTuple):
    """`at` is the index of the refused token, or the stream's length where it ends too early."""

    name: str
    stream: Stream
    at: int
    state: str
    problem: str
    role: Role | None = None
    tools: tuple[str, ...] = ()


START, HEADER = "ExpectStart", "Header"
UNEXPECTED = "unexpected token {} where {} belongs"
A_START = "<|start|>"
A_HEADER = "a header or <|message|>"
NO_ROLE = "the message header names no role"
UNKNOWN_ROLE = "unknown role {!r} in the message header"
NO_CHANNEL = "<|channel|> without a channel's name in the message header"
TWO_CHANNELS = "a second <|channel|> in the message header"
WORDS = "unexpected words in the message header: {!r}"

REFUSED = [
    Refused("text", "hello", 0, START, UNEXPECTED.format(24912, A_START)),
    Refused("line end", "\n", 0, START, UNEXPECTED.format(198, A_START)),
    *[
        Refused(f"{text} first", text, 0, START, UNEXPECTED.format(text, A_START))
        for token, text in SPECIAL_TEXTS.items()
        if text != "<|start|>" and (token < 200020 or token == 201088)
    ],
    *[
        Refused(
            f"{text} in a header",
            f"<|start|>user{text}",
            2,
            HEADER,
            UNEXPECTED.format(text, A_HEADER),
        )
        for text in (
            "<|start|>",
            "<|end|>",
            "<|return|>",
            "<|call|>",
            "<|endoftext|>",
            "<|reserved_200000|>",
        )
    ],
    Refused(
        "start in a completion's header",
        "<|channel|>final<|start|>assistant",
        2,
        HEADER,
        UNEXPECTED.format("<|start|>", A_HEADER),
        role=ASSISTANT,
    ),
    Refused(
        "two starts although the role is given",
        "<|start|><|start|>assistant",
        1,
        HEADER,
        UNEXPECTED.format("<|start|>", A_HEADER),
        role=ASSISTANT,
    ),
    Refused(
        "end of a completion's header",
        "<|end|>",
        0,
        HEADER,
        UNEXPECTED.format("<|end|>", A_HEADER),
        role=ASSISTANT,
    ),
    # Headers, refused at their <|message|>.
    *[
        Refused(header or "nothing", f"<|start|>{header}<|message|>", -1, HEADER, problem)
        for header, problem in {
            "": NO_ROLE,
            " \n": NO_ROLE,
            "<|channel|>final": NO_ROLE,
            "to=functions.f": NO_ROLE,
            "<|constrain|>json": NO_ROLE,
            "narrator": UNKNOWN_ROLE.format("narrator"),
            "User": UNKNOWN_ROLE.format("User"),
            "tool:f": UNKNOWN_ROLE.format("tool:f"),
            "x:y": UNKNOWN_ROLE.format("x:y"),
            "functions.f": UNKNOWN_ROLE.format("functions.f"),
            "assistant<|channel|>": NO_CHANNEL,
            "assistant<|channel|><|constrain|>json": NO_CHANNEL,
            "assistant<|channel|> final": NO_CHANNEL,
            "assistant<|channel|>analysis<|channel|>final": TWO_CHANNELS,
            "assistant<|channel|>final<|channel|>final": TWO_CHANNELS,
            "assistant to=a<|channel|>commentary to=b": WORDS.format("to=b"),
            "assistant to=a to=a": WORDS.format("to=a"),
            "assistant json to=a": WORDS.format("to=a"),
            "assistant to=a<|channel|>commentary json code": WORDS.format("code"),
            "assistant to=a<|constrain|>x<|constrain|>json": WORDS.format("<|constrain|>json"),
            "assistant<|channel|>analysis we need to": WORDS.format("need to"),
        }.items()
    ],
    Refused(
        "undeclared recipient without to=",
        "<|start|>assistant<|channel|>commentary functions.f json<|message|>",
        -1,
        HEADER,
        WORDS.format("json"),
        tools=("functions.g",),
    ),
    Refused(
        "another role than the given one",
        "user<|channel|>final json<|message|>",
        -1,
        HEADER,
        WORDS.format("json"),
        role=ASSISTANT,
    ),
    Refused(
        "invalid UTF-8 in a header",
        ("<|start|>user", [178], "<|message|>"),
        -1,
        HEADER,
        "the message header is not valid UTF-8",
    ),
    # The end of the tokens inside a header.
    *[
        Refused(f"cut {name}", stream, at, HEADER, "the tokens end inside a message header", role)
        for name, stream, at, role in (
            ("after <|start|>", "<|start|>", 1, None),
            ("in a role", "<|start|>assist", 2, None),
            ("after a role and more", "<|start|>assistant ", 3, None),
            ("before <|message|>", "<|start|>assistant<|channel|>final", 4, None),
            ("completion", "<|channel|>final", 2, ASSISTANT),
            ("completion that is empty", "", 0, ASSISTANT),
            ("completion that is only a role", "assistant", 1, ASSISTANT),
        )
    ],
]


def tokens_and_position(case: Refused) -> tuple[list[int], int]:
    tokens = tokens_of(case.stream)
    return tokens, len(tokens) - 1 if case.at < 0 else case.at


def refuse(parser: StreamableParser, tokens: list[int], feed: Callable[..., None]) -> TokenError:
    def run() -> None:
        feed(parser, tokens)
        parser.process_eos()

    with pytest.raises(TokenError) as caught:
        run()
    return caught.value


each_refused = pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)


@each_way
@each_refused
def test_refused(case: Refused, feed: Callable[..., None]) -> None:
    tokens, position = tokens_and_position(case)
    error = refuse(parser_for(case), tokens, feed)
    token = tokens[position] if position < len(tokens) else None
    assert error.problem == case.problem
    assert (error.token, error.position, error.state) == (token, position, case.state)
    assert str(error) == f"{case.problem} (token {position}, state {case.state})"
    assert isinstance(error, HarmonyError)


@each_refused
def test_refused_in_one_call(case: Refused) -> None:
    tokens, position = tokens_and_position(case)
    with pytest.raises(TokenError) as caught:
        ENCODING.parse_messages_from_completion_tokens(tokens, case.role, tools=case.tools)
    assert (caught.value.problem, caught.value.position) == (case.problem, position)


@each_way
@each_refused
def test_refused_with_data_before_and_behind(case: Refused, feed: Callable[..., None]) -> None:
    before = [] if case.role else tokens_of(ANSWER)
    tokens, position = tokens_and_position(case)
    behind = tokens_of("x<|message|>y<|end|>") if position < len(tokens) else []
    parser = parser_for(case)
    error = refuse(parser, before + tokens + behind, feed)
    assert (error.problem, error.position) == (case.problem, len(before) + position)
    assert parser.messages == ([message("assistant", "4", channel="final")] if before else [])


@each_refused
def test_after_an_error_the_parser_expects_a_start(case: Refused) -> None:
    parser = parser_for(case)
    tokens, position = tokens_and_position(case)
    refuse(parser, tokens, one_by_one)
    assert parser.tokens == tokens[: position + 1]
    assert parser.state_data == {"state": "ExpectStart"}
    assert properties(parser) == ("ExpectStart", None, None, None, None, "", None, 0)
    parser.process_many(tokens_of(ANSWER))
    parser.process_eos()
    assert parser.messages == [message("assistant", "4", channel="final")]


# What can be read after each token


class Row(NamedTuple):
    """One token, and the parser's properties after it."""

    token: str | int
    state: str
    role: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None
    content: str = ""
    delta: str | None = None
    messages: int = 0


def properties(parser: StreamableParser) -> tuple[Any, ...]:
    return (
        parser.state.value,
        parser.current_role and parser.current_role.value,
        parser.current_channel,
        parser.current_recipient,
        parser.current_content_type,
        parser.current_content,
        parser.last_content_delta,
        len(parser.messages),
    )


HEAD, BODY = "Header", "Content"

TABLES = {
    "reasoning and answer, role given": (
        ASSISTANT,
        Row("", HEAD, "assistant"),
        [
            Row("<|channel|>", HEAD, "assistant"),
            Row("analysis", HEAD, "assistant"),
            Row("<|message|>", BODY, "assistant", "analysis"),
            Row("Easy", BODY, "assistant", "analysis", content="Easy", delta="Easy"),
            Row(".", BODY, "assistant", "analysis", content="Easy.", delta="."),
            Row("<|end|>", START, messages=1),
            Row("<|start|>", HEAD, messages=1),
            Row("assistant", HEAD, messages=1),
            Row("<|channel|>", HEAD, messages=1),
            Row("final", HEAD, messages=1),
            Row("<|message|>", BODY, "assistant", "final", messages=1),
            Row("4", BODY, "assistant", "final", content="4", delta="4", messages=1),
            Row("<|return|>", START, messages=2),
        ],
    ),
    "call and result": (
        None,
        Row("", START),
        [
            Row("<|start|>", HEAD),
            Row("assistant", HEAD),
            Row("<|channel|>", HEAD),
            Row("comment", HEAD),
            Row("ary", HEAD),
            Row(" to", HEAD),
            Row("=f", HEAD),
            Row(" ", HEAD),
            Row("<|constrain|>", HEAD),
            Row("json", HEAD),
            Row("<|message|>", BODY, "assistant", "commentary", "f", "<|constrain|>json"),
            Row("{}", BODY, "assistant", "commentary", "f", "<|constrain|>json", "{}", "{}"),
            Row("<|call|>", START, messages=1),
            Row("<|start|>", HEAD, messages=1),
            Row("f", HEAD, messages=1),
            Row(" to", HEAD, messages=1),
            Row("=", HEAD, messages=1),
            Row("assistant", HEAD, messages=1),
            Row("<|message|>", BODY, "tool", recipient="assistant", messages=1),
            Row("ok", BODY, "tool", recipient="assistant", content="ok", delta="ok", messages=1),
            Row("<|end|>", START, messages=2),
        ],
    ),
    "a character in pieces": (
        Role.USER,
        Row("", HEAD, "user"),
        [
            Row("<|message|>", BODY, "user"),
            Row(52622, BODY, "user"),  # three of the four bytes of a castle
            Row("a", BODY, "user", content="\ufffda", delta="\ufffda"),
            Row(52622, BODY, "user", content="\ufffda"),
            Row(108, BODY, "user", content="\ufffda🏰", delta="🏰"),
            Row(52622, BODY, "user", content="\ufffda🏰"),
            Row("<|end|>", START, messages=1, delta="\ufffd"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_property_after_each_token(name: str) -> None:
    role, before, rows = TABLES[name]
    parser = StreamableParser(ENCODING, role)
    assert properties(parser) == before[1:]
    for at, row in enumerate(rows):
        (token,) = tokens_of(row.token) if isinstance(row.token, str) else [row.token]
        parser.process(token)
        assert properties(parser) == row[1:], f"token {at}: {row.token}"


def test_properties_after_the_end_of_the_tokens() -> None:
    parser = StreamableParser(ENCODING, ASSISTANT)
    parser.process_many(tokens_of("<|channel|>final<|message|>Hi"))
    parser.process(52622)
    assert parser.last_content_delta is None
    parser.process_eos()
    assert properties(parser) == (START, None, None, None, None, "", "\ufffd", 1)
    assert parser.messages == [message("assistant", "Hi\ufffd", channel="final")]
    assert parser.process_eos().messages == [message("assistant", "Hi\ufffd", channel="final")]


def test_messages_and_tokens_are_the_parsers_own_lists() -> None:
    parser = StreamableParser(ENCODING, None)
    messages, tokens = parser.messages, parser.tokens
    parser.process_many(tokens_of(ANSWER))
    assert messages == [message("assistant", "4", channel="final")]
    assert tokens == tokens_of(ANSWER)
    first = messages[0]
    parser.process_many(tokens_of(ANSWER))
    assert parser.messages is messages
    assert parser.tokens is tokens
    assert messages[0] is first


def test_parsers_of_one_encoding_do_not_share_state() -> None:
    one, other = StreamableParser(ENCODING, None), StreamableParser(ENCODING, ASSISTANT)
    one.process_many(tokens_of("<|start|>user<|message|>Hi"))
    other.process_many(tokens_of("<|channel|>final<|message|>Ho"))
    assert (one.current_content, other.current_content) == ("Hi", "Ho")
    assert one.tokens is not other.tokens


# The state as data


def test_state_data() -> None:
    parser = StreamableParser(ENCODING, None)
    assert parser.state_data == {"state": "ExpectStart"}
    header = tokens_of("functions.f to=assistant<|channel|>commentary <|constrain|>json")
    parser.process_many([*tokens_of("<|start|>"), *header])
    assert parser.state_data == {"state": "Header", "header_tokens": header}
    body = tokens_of("{} 🦞")[:-1]
    parser.process_many([*tokens_of("<|message|>"), *body])
    assert parser.state_data == {
        "state": "Content",
        "header": {
            "author": {"role": "tool", "name": "functions.f"},
            "recipient": "assistant",
            "channel": "commentary",
            "content_type": "<|constrain|>json",
        },
        "content_tokens": body,
    }


def test_state_data_is_a_snapshot() -> None:
    parser = StreamableParser(ENCODING, ASSISTANT)
    parser.process_many(tokens_of("<|channel|>final"))
    data = parser.state_data
    data["header_tokens"].clear()
    parser.process_many(tokens_of("<|message|>"))
    data = parser.state_data
    assert data["header"] == {
        "author": {"role": "assistant"}, "recipient": None, "channel": "final",
        "content_type": None,
    }  # fmt: skip
    assert data["content_tokens"] == []


# Arguments


class Id:
    """An integer of a kind of its own, like a tensor's item."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


def as_ids(tokens: list[int]) -> list[Any]:
    return [Id(token) for token in tokens]


def as_numpy(tokens: list[int]) -> Any:
    numpy = pytest.importorskip("numpy")
    return numpy.array(tokens, dtype=numpy.int64)


KINDS: list[Callable[[list[int]], Any]] = [list, tuple, iter, as_ids, as_numpy]
KINDS += [lambda tokens: array("L", tokens), lambda tokens: (token for token in tokens)]


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_of_any_integer_kind(kind: Callable[[list[int]], Iterable[int]]) -> None:
    tokens = tokens_of(ANSWER)
    expected = [message("assistant", "4", channel="final")]
    assert ENCODING.parse_messages_from_completion_tokens(kind(tokens)) == expected
    assert ENCODING.parse_messages_from_completion_tokens(kind(tokens), strict=False) == expected
    assert ENCODING.decode(kind(tokens)) == ANSWER
    assert ENCODING.decode_utf8(kind(tokens)) == ANSWER
    parser = StreamableParser(ENCODING, None)
    for token in kind(tokens):
        parser.process(token)
    many = StreamableParser(ENCODING, None)
    many.process_many(kind(tokens))
    for each in (parser, many):
        assert each.messages == expected
        assert each.tokens == tokens
        assert {type(token) for token in each.tokens} == {int}


STREAM_STARTS = {
    "between messages": "",
    "in a header": "<|start|>assistant",
    "in a body": "<|start|>assistant<|message|>Hi",
}


@pytest.mark.parametrize("start", STREAM_STARTS.values(), ids=STREAM_STARTS)
@pytest.mark.parametrize("token", [-1, -(2**40), 201089, 2**32, 2**70])
def test_ids_outside_the_vocabulary_change_nothing(token: int, start: str) -> None:
    parser = StreamableParser(ENCODING, None)
    parser.process_many(tokens_of(start))
    before = (*properties(parser), parser.state_data, list(parser.tokens))
    problem = rf"token id {token} is outside the vocabulary \(0 to 201088\)"
    for feed in (parser.process, lambda token: parser.process_many([token])):
        with pytest.raises(VocabularyError, match=problem):
            feed(token)
        assert (*properties(parser)[:6], None, *properties(parser)[7:]) == (
            *before[:6], None, *before[7:8],
        )  # fmt: skip
        assert (parser.state_data, parser.tokens) == before[8:]
    with pytest.raises(VocabularyError, match=problem):
        ENCODING.parse_messages_from_completion_tokens([*tokens_of(start), token])
    with pytest.raises(VocabularyError, match=problem):
        ENCODING.decode([*tokens_of(start), token])


@pytest.mark.parametrize("start", STREAM_STARTS.values(), ids=STREAM_STARTS)
@pytest.mark.parametrize("token", [None, "5", b"5", 5.0, [5], object()])
@pytest.mark.parametrize("strict", [True, False])
def test_what_is_no_integer_changes_nothing(token: Any, start: str, strict: bool) -> None:
    parser = StreamableParser(ENCODING, None, strict=strict)
    parser.process_many(tokens_of(start))
    before = (parser.state_data, list(parser.tokens))
    for feed in (parser.process, lambda token: parser.process_many([token])):
        with pytest.raises(VocabularyError, match="a token id is an integer, not "):
            feed(token)
        assert (parser.state_data, parser.tokens) == before
    tokens = [*tokens_of(start), token]
    with pytest.raises(VocabularyError, match="a token id is an integer, not "):
        ENCODING.parse_messages_from_completion_tokens(tokens, strict=strict)


@pytest.mark.parametrize("text", [ANSWER, ANSWER.encode()])
@pytest.mark.parametrize("strict", [True, False])
def test_text_in_place_of_tokens_is_refused(text: Any, strict: bool) -> None:
    with pytest.raises(VocabularyError):
        ENCODING.parse_messages_from_completion_tokens(text, strict=strict)
    with pytest.raises(VocabularyError, match="encode it first"):
        ENCODING.decode(text)


def test_roles_as_text() -> None:
    parser = StreamableParser(ENCODING, "assistant")
    assert parser.current_role is Role.ASSISTANT
    with pytest.raises(ValueError, match="Unknown role: 'narrator'"):
        StreamableParser(ENCODING, "narrator")
    parsed: Any = ENCODING.parse_messages_from_completion_tokens
    assert parsed(tokens_of("<|message|>x<|end|>"), "user") == [message("user", "x")]
