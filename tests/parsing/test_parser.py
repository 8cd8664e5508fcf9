"""The strict parser against tables of token streams, each read in several ways."""

from __future__ import annotations

import copy
import pickle
from array import array
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias
from unittest import mock

import pytest

from gpt_oss_harmony import (
    Author,
    Message,
    Role,
    StreamableParser,
    StreamState,
    TextContent,
    TokenError,
    VocabularyError,
    load_harmony_encoding,
)
from gpt_oss_harmony.tokens.special_tokens import STOP_TOKENS
from support.vectors import cases

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
        "recipient without to=, and a type",
        "<|start|>assistant<|channel|>commentary functions.f json<|message|>{}<|call|>",
        [CALL],
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


def parser_for(case: Accepted) -> StreamableParser:
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


# Any streams: what the reference makes of them


class Recorded(NamedTuple):
    """A stream of the conformance kit; `errors` are a position and the error's words."""

    role: str | None
    stream: str | list[int]
    errors: list[tuple[int, str]]
    state_data: dict[str, Any]
    messages: list[dict[str, Any]]

    @property
    def tokens(self) -> list[int]:
        return tokens_of(self.stream) if isinstance(self.stream, str) else self.stream


# Where we differ on purpose; tests of these differences stand elsewhere.
DIVERGENT = (
    "start-is-a-word-where-a-role-was-given",
    "deltas-of-broken-bytes",
    "no-deltas-after-an-unknown-id",
)
RECORDED = [
    Recorded(
        case["input"]["role"],
        case["input"].get("text", case["input"]["tokens"]),
        [(at, words) for at, words in case["expected"]["errors"]],
        case["expected"]["state_data"],
        case["expected"]["messages"],
    )
    for level in ("format", "reference")
    for case in cases(level, "stream")
    if case["rule"] not in DIVERGENT
]
each_recorded = pytest.mark.parametrize("case", RECORDED, ids=lambda case: str(case.stream)[:60])


def with_content_type(data: dict[str, Any]) -> dict[str, Any]:
    """The named difference `content-type`: the reference takes a type for the recipient."""
    word = data.get("recipient") or ""
    is_type = word in ("json", "code", "text") or word.startswith("<|constrain|>")
    if is_type and "channel" in data and "content_type" not in data:
        return {**data, "recipient": None, "content_type": word}
    return data


def expected(case: Recorded) -> list[Message]:
    return [Message.from_dict(with_content_type(data)) for data in case.messages]


@each_recorded
def test_recorded_streams(case: Recorded) -> None:
    parser = StreamableParser(ENCODING, case.role)
    errors: list[tuple[int, TokenError]] = []
    for position, token in enumerate(case.tokens):
        try:
            parser.process(token)
        except TokenError as error:
            errors.append((position, error))
    state_data = parser.state_data
    assert parser.tokens == case.tokens
    try:
        parser.process_eos()
    except TokenError as error:
        errors.append((len(case.tokens), error))
    if case.errors and case.errors[-1][0] == len(case.tokens):
        assert parser.state_data == state_data  # nothing is lost: more tokens may come
    for (at, raised), (other_at, words) in zip(errors, case.errors, strict=True):
        refused = case.tokens[at] if at < len(case.tokens) else None
        assert (raised.problem, at) == (words, other_at)
        assert (raised.token, raised.position) == (refused, at)
        detail = ""
        if words.startswith("Unexpected token") and refused != 201089:  # outside the vocabulary
            detail = f"found {ENCODING.decode([case.tokens[at]])!r}, expected '<|start|>'"
        assert raised.detail == detail
        shown = f"{words}: {detail}" if detail else words
        assert str(raised) == f"{shown} (token {at}, state {raised.state})"
    assert state_data == case.state_data
    assert parser.messages == expected(case)
    assert parser.recoveries == []


@each_recorded
def test_recorded_streams_in_one_call(case: Recorded) -> None:
    def parse() -> list[Message]:
        role = Role(case.role) if case.role else None
        return ENCODING.parse_messages_from_completion_tokens(case.tokens, role)

    if not case.errors:
        assert parse() == expected(case)
        return
    with pytest.raises(TokenError) as caught:
        parse()
    assert [caught.value.position, caught.value.problem] == [*case.errors[0]]


@each_way
@each_recorded
def test_recorded_streams_in_parts(case: Recorded, feed: Callable[..., None]) -> None:
    """However the tokens come, the first error is the same, and so is the state after it."""
    parser, single = (StreamableParser(ENCODING, case.role) for _ in range(2))
    first = case.errors[0][0] if case.errors else len(case.tokens)
    if first < len(case.tokens):
        with pytest.raises(TokenError) as caught:
            feed(parser, case.tokens)
        assert [caught.value.position, caught.value.problem] == [*case.errors[0]]
        with pytest.raises(TokenError):
            one_by_one(single, case.tokens)
    else:
        feed(parser, case.tokens)
        one_by_one(single, case.tokens)
    assert parser.state_data == single.state_data
    assert parser.tokens == single.tokens
    assert parser.messages == single.messages
    assert properties(parser)[:6] == properties(single)[:6]


def test_tools_may_be_named_without_a_recipient() -> None:
    tokens = tokens_of("<|start|>functions.f<|message|>20<|end|>")
    with pytest.raises(TokenError, match=r"Unknown role: functions\.f"):
        ENCODING.parse_messages_from_completion_tokens(tokens)
    parsed = ENCODING.parse_messages_from_completion_tokens(tokens, tools=["functions.f"])
    assert parsed == [message("tool", "20", name="functions.f")]


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


START, HEAD, BODY = "ExpectStart", "Header", "Content"

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


def test_what_is_read_is_a_copy() -> None:
    parser = StreamableParser(ENCODING, None)
    parser.process_many(tokens_of(ANSWER))
    messages, tokens = parser.messages, parser.tokens
    messages.clear()
    tokens.clear()
    parser.recoveries.append(None)  # type: ignore[arg-type]
    parser.process_many(tokens_of(ANSWER))
    assert parser.messages == [message("assistant", "4", channel="final")] * 2
    assert parser.tokens == tokens_of(ANSWER) * 2
    assert parser.recoveries == []


PROPERTIES = (
    "state", "state_data", "current_role", "current_channel", "current_recipient",
    "current_content_type", "current_content", "last_content_delta", "messages", "tokens",
    "recoveries", "damaged_headers", "incomplete", "stop", "token_counts", "reasoning_tokens",
)  # fmt: skip


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_cannot_be_set(name: str) -> None:
    parser = StreamableParser(ENCODING, None)
    with pytest.raises(AttributeError):
        setattr(parser, name, getattr(parser, name))


def test_the_surface_is_what_is_documented() -> None:
    methods = {"process", "process_many", "process_begun", "process_eos"}
    assert {n for n in dir(StreamableParser) if not n.startswith("_")} == {*PROPERTIES, *methods}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "copy_of", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_a_parser_can_be_copied_at_any_token(
    strict: bool, copy_of: Callable[[StreamableParser], StreamableParser]
) -> None:
    tokens = tokens_of("<|channel|>analysis<|message|>a 🏰 b<|end|>" + ANSWER)
    whole_parser = StreamableParser(ENCODING, ASSISTANT, strict=strict)
    whole_parser.process_many(tokens)
    for cut in range(len(tokens)):
        parser = StreamableParser(ENCODING, ASSISTANT, strict=strict)
        one_by_one(parser, tokens[:cut])
        copied = copy_of(parser)
        assert (copied.state_data, properties(copied)) == (parser.state_data, properties(parser))
        before = properties(parser)
        one_by_one(copied, tokens[cut:])
        assert properties(parser) == before
        assert (copied.messages, copied.tokens) == (whole_parser.messages, tokens)
        assert parser.tokens == tokens[:cut]
    assert copy_of(ENCODING) is ENCODING  # type: ignore[arg-type, comparison-overlap]


@pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy])
def test_a_parser_takes_attributes_and_copies_keep_them(
    copy_of: Callable[[StreamableParser], StreamableParser],
) -> None:
    parser = StreamableParser(ENCODING, ASSISTANT)
    vars(parser)["request"] = "r-1"
    assert vars(copy_of(parser)) == {"request": "r-1"}
    with mock.patch.object(parser, "process", return_value="patched"):
        assert str(parser.process(1)) == "patched"
    assert parser.process(200005) is parser


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("stream", "stop"),
    [
        ("", None),
        ("<|channel|>final", None),
        ("<|channel|>final<|message|>4<|return|>", "return"),
        ("<|channel|>analysis<|message|>4<|end|>", "end"),
        ("<|channel|>commentary to=functions.f<|message|>{}<|call|>", "call"),
        ("<|channel|>final<|message|>4", "cut"),
        ("<|channel|>analysis<|message|>4<|end|><|start|>assistant<|message|>", "cut"),
    ],
)  # fmt: skip
def test_why_the_last_message_ended(stream: str, stop: str | None, strict: bool) -> None:
    parser = StreamableParser(ENCODING, ASSISTANT, strict=strict)
    parser.process_many(tokens_of(stream))
    if stop == "cut":
        assert parser.stop in (None, "end")
        parser.process_eos()
    assert parser.stop == stop


def test_an_encoding_is_needed() -> None:
    with pytest.raises(TypeError, match=r"not str; get it from load_harmony_encoding"):
        StreamableParser("HarmonyGptOss", ASSISTANT)  # type: ignore[arg-type]


def test_one_name_as_tools_is_an_error_that_shows_the_list() -> None:
    with pytest.raises(TypeError, match=r'such as \["functions.f"\], not a str'):
        StreamableParser(ENCODING, ASSISTANT, strict=False, tools="functions.f")


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
        "content_tokens": [12083, 220],  # the texts of the deltas "{}" and " ", encoded again
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


def test_a_body_that_goes_on_has_all_its_tokens_in_the_state_data() -> None:
    parser = StreamableParser(ENCODING, ASSISTANT, strict=False)
    parser.process_many(tokens_of("<|channel|>commentary to=functions.f<|message|>"))
    body = tokens_of('{"a": [1,assistant<|channel|>!!<|end|>')  # text of the open call, no header
    parser.process_many(body)
    assert parser.current_content == '{"a": [1,assistant!!'
    assert parser.state_data["content_tokens"] == body


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
@pytest.mark.parametrize("token", [-1, -(2**40), 2**32, 2**70, None, "5", b"5", 5.0, [5], object()])
@pytest.mark.parametrize("strict", [True, False])
def test_what_is_no_token_changes_nothing(token: Any, start: str, strict: bool) -> None:
    parser = StreamableParser(ENCODING, None, strict=strict)
    parser.process_many(tokens_of(start))
    before = (*properties(parser), parser.state_data, parser.tokens)
    kind: type[Exception] = VocabularyError
    if isinstance(token, int) and not strict:
        return  # left out, and noted: see test_recovery
    if strict:
        kind = OverflowError if isinstance(token, int) else TypeError
    for feed in (parser.process, lambda token: parser.process_many([token])):
        with pytest.raises(kind):
            feed(token)
        assert (*properties(parser), parser.state_data, parser.tokens) == before
    with pytest.raises(kind):
        ENCODING.parse_messages_from_completion_tokens([*tokens_of(start), token], strict=strict)


def test_an_id_outside_the_vocabulary_is_invalid_text() -> None:
    parser = StreamableParser(ENCODING, ASSISTANT)
    deltas = [parser.process(t).last_content_delta for t in [200008, 64, 52622, 201089, 64]]
    assert deltas == [None, "a", None, "\ufffd\ufffd", "a"]
    assert parser.current_content == "a\ufffd\ufffda"


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
