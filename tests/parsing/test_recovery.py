"""The lenient parser: malformed outputs that were seen, each kind of repair, and what is lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Author,
    ConversationError,
    Message,
    Recovery,
    RecoveryKind,
    Role,
    StreamableParser,
    StreamState,
    TextContent,
    TokenError,
    load_harmony_encoding,
)
from gpt_oss_harmony.conversation.messages import ROLES
from gpt_oss_harmony.parsing.edits import Edit
from gpt_oss_harmony.parsing.header_words import split_header
from gpt_oss_harmony.parsing.least_cost import read_header, read_unfinished
from gpt_oss_harmony.tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    SPECIAL_TEXTS,
    START,
)
from support.examples import examples
from support.vectors import cases

ENCODING = load_harmony_encoding("HarmonyGptOss")
RECORDED: list[dict[str, Any]] = [
    {"id": case["id"], "source": case["source"], "known_gap": "note" in case,
     "completion": case["input"]["text"], "tools": case["input"]["tools"], **case["expected"]}
    for case in cases("recovery", "parse")
]  # fmt: skip
TOOLS = ("functions.f", "functions.g")


def tokens_of(*pieces: str | int) -> list[int]:
    """Encode text with special tokens; numbers are token ids."""
    tokens: list[int] = []
    for piece in pieces:
        if isinstance(piece, int):
            tokens.append(piece)
        else:
            tokens += ENCODING.encode(piece, allowed_special="all")
    return tokens


def plain(text: str) -> list[int]:
    return ENCODING.encode(text, disallowed_special=())


def parsed(
    tokens: list[int],
    role: Role | None = Role.ASSISTANT,
    tools: list[str] | tuple[str, ...] = (),
    repairs: tuple[RecoveryKind, ...] = tuple(RecoveryKind),
) -> StreamableParser:
    parser = StreamableParser(ENCODING, role, strict=False, tools=tools, repairs=repairs)
    parser.process_many(tokens)
    return parser.process_eos()


def said(text: str, channel: str | None = "final", **fields: str) -> Message:
    return Message(
        author=Author(role=Role.ASSISTANT),
        content=[TextContent(text=text)],
        channel=channel,
        **fields,
    )


def call(text: str = "{}", **fields: str) -> Message:
    return said(text, "commentary", **{"recipient": "functions.f", **fields})


def text_of(message: Message) -> str:
    (item,) = message.content
    assert isinstance(item, TextContent)
    return item.text


# Malformed outputs that were seen (docs/reference/divergences.md lists those with a gap)

each_recorded = pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["id"])


@each_recorded
def test_recorded(case: dict[str, Any]) -> None:
    parser = parsed(tokens_of(case["completion"]), tools=case["tools"])
    meant = [Message.from_dict(message) for message in case["messages"]]
    assert (parser.messages == meant) != case["known_gap"]
    assert [recovery.kind.value for recovery in parser.recoveries] == case["recoveries"]


@each_recorded
def test_recorded_token_by_token(case: dict[str, Any]) -> None:
    tokens = tokens_of(case["completion"])
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False, tools=case["tools"])
    for token in tokens:
        parser.process(token)
    parser.process_eos()
    whole = parsed(tokens, tools=case["tools"])
    assert (parser.messages, parser.recoveries) == (whole.messages, whole.recoveries)


@each_recorded
def test_recorded_outputs_are_noted_where_strict_refuses_them(case: dict[str, Any]) -> None:
    tokens = tokens_of(case["completion"])
    assert is_noted_or_accepted(tokens, Role.ASSISTANT, tuple(case["tools"]))


@each_recorded
def test_recorded_outputs_lose_nothing_in_silence(case: dict[str, Any]) -> None:
    tokens = tokens_of(case["completion"])
    assert missing_words(tokens, parsed(tokens, tools=case["tools"])) == []


@each_recorded
def test_recovered_messages_can_be_rendered_and_read_strictly(case: dict[str, Any]) -> None:
    for message in parsed(tokens_of(case["completion"]), tools=case["tools"]).messages:
        if message.recipient is None and message.channel is None:
            message.content_type = None  # alone in a header it is read as the recipient
        if " " in f"{message.recipient}{message.author.name}":
            with pytest.raises(ConversationError):
                ENCODING.render(message)
            continue
        tokens = ENCODING.render(message)
        tools = case["tools"]
        assert ENCODING.parse_messages_from_completion_tokens(tokens, tools=tools) == [message]


# Every kind of repair


class Repair(NamedTuple):
    """A stream, what it is read as, and each repair: kind, position, text."""

    name: str
    tokens: list[int]
    messages: list[Message]
    recoveries: list[tuple[RecoveryKind, int, str]]
    role: Role | None = Role.ASSISTANT
    repairs: tuple[RecoveryKind, ...] = tuple(RecoveryKind)


K = RecoveryKind
HI = said("Hi")
HM = said("Hm", "analysis")
CALLED = ("commentary", "functions.f", "{}")
FINAL = "<|channel|>final<|message|>Hi<|return|>"
CALL_END = "<|message|>{}<|call|>"

REPAIRS = [
    Repair("no <|start|>", tokens_of(FINAL), [HI], [(K.MISSING_START, 0, "")], role=None),
    Repair(
        "no <|start|> on the second message",
        tokens_of("<|channel|>analysis<|message|>Hm<|end|>", FINAL),
        [HM, HI],
        [(K.MISSING_START, 5, "")],
    ),
    Repair(
        "two <|start|>",
        tokens_of("<|start|><|start|>assistant", FINAL),
        [HI],
        [(K.DOUBLED_START, 1, "<|start|>")],
        role=None,
    ),
    Repair(
        "a header begun again",
        tokens_of("<|start|>assistant<|start|>assistant", FINAL),
        [HI],
        [(K.DOUBLED_START, 2, "assistant")],
        role=None,
    ),
    Repair(
        "no <|start|>, and a role without a space before it",
        tokens_of("Some thoughtassistant", FINAL),
        [HI],
        [(K.MISSING_START, 3, "Some thoughtassistant"), (K.STRAY_TEXT, 3, "Some thought")],
        role=None,
    ),
    Repair(
        "no <|start|>, and another role without a space before it",
        tokens_of("abcuser<|message|>Hi<|end|>"),
        [Message.from_role_and_content(Role.USER, "Hi")],
        [(K.MISSING_START, 2, "abcuser"), (K.STRAY_TEXT, 2, "abc")],
        role=None,
    ),
    Repair(
        "a role, and then the header begun again",
        tokens_of("<|channel|>final<|message|>Hiassistant<|start|>assistant", FINAL),
        [HI, HI],
        [(K.STRAY_TEXT, 5, "assistant"), (K.MISSING_END, 5, "")],
    ),
    Repair(
        "no <|message|> before an answer",
        tokens_of("<|channel|>final Hi<|return|>"),
        [HI],
        [(K.MISSING_MESSAGE, 3, "<|channel|>final Hi")],
    ),
    Repair(
        "no <|message|> before arguments",
        tokens_of("<|channel|>commentary to=functions.f <|constrain|>json{}<|call|>"),
        [call(content_type="<|constrain|>json")],
        [(K.MISSING_MESSAGE, 11, "<|channel|>commentary to=functions.f <|constrain|>json{}")],
    ),
    Repair(
        "no <|end|>",
        tokens_of("<|channel|>analysis<|message|>Hm<|start|>assistant", FINAL),
        [HM, HI],
        [(K.MISSING_END, 4, "")],
    ),
    Repair(
        "no <|end|> and no <|start|>",
        tokens_of("<|channel|>analysis<|message|>Hm", FINAL),
        [HM, HI],
        [(K.MISSING_END, 6, "")],
    ),
    Repair(
        "two stop tokens",
        tokens_of(FINAL, "<|end|>"),
        [HI],
        [(K.EXTRA_STOP, 5, "<|end|>")],
    ),
    Repair("no markup", tokens_of("Hi<|return|>"), [HI], [(K.NO_MARKUP, 1, "Hi")]),
    Repair(
        "no markup, the words of headers left",
        tokens_of("analysisHm\nassistantfinalHi"),
        [HM, HI],
        [(K.NO_MARKUP, 5, "analysisHm\nassistantfinalHi")],
    ),
    Repair(
        "no markup before a message",
        tokens_of("Hm<|end|><|start|>assistant", FINAL),
        [HM, HI],
        [(K.NO_MARKUP, 2, "Hm")],
    ),
    Repair(
        "a call without any special token",
        tokens_of("assistantcommentary to=functions.f{}"),
        [call()],
        [
            (K.NO_MARKUP, 7, "assistantcommentary to=functions.f{}"),
            (K.UNMARKED_CALL, 7, "functions.f"),
        ],
    ),
    Repair(
        "a call without any special token, which is refused",
        tokens_of("assistantcommentary to=functions.f{}"),
        [said("{}", "commentary")],
        [
            (K.NO_MARKUP, 7, "assistantcommentary to=functions.f{}"),
            (K.UNMARKED_CALL, 7, "functions.f"),
            (K.REFUSED_CALL, 7, "functions.f"),
        ],
        repairs=(K.NO_MARKUP,),
    ),
    Repair(
        "markers as text",
        plain("<|start|>assistant<|channel|>final<|message|>Hi<|return|>"),
        [HI],
        [(K.SPELLED_MARKER, 22, "<|start|>assistant<|channel|>final<|message|>Hi<|return|>")],
        role=None,
    ),
    Repair(
        "a marker as text in a header",
        [*plain("<|channel|>final"), *tokens_of("<|message|>Hi<|return|>")],
        [HI],
        [(K.SPELLED_MARKER, 6, "<|channel|>final")],
    ),
    Repair(
        "a recipient and the marker behind it as text",
        [*plain(" to=functions.f<|channel|>commentary"), *tokens_of("<|message|>{}<|call|>")],
        [call()],
        [(K.SPELLED_MARKER, 11, " to=functions.f<|channel|>commentary")],
    ),
    Repair(
        "text between messages",
        tokens_of("<|channel|>analysis<|message|>Hm<|end|>.\n<|start|>assistant", FINAL),
        [HM, HI],
        [(K.STRAY_TEXT, 6, ".\n")],
    ),
    Repair(
        "text after <|return|>",
        tokens_of(FINAL, "bye"),
        [HI],
        [(K.TEXT_AFTER_STOP, 5, "bye")],
    ),
    Repair(
        "words in a header",
        tokens_of("<|channel|>final 3 4<|message|>Hi<|return|>"),
        [HI],
        [(K.HEADER_TEXT, 6, "3 4")],
    ),
    Repair(
        "a header cut by <|end|>",
        tokens_of("<|channel|>??<|end|><|start|>assistant", FINAL),
        [HI],
        [(K.CUT_HEADER, 2, "<|channel|>??<|end|>")],
    ),
    Repair(
        "two roles",
        tokens_of("<|start|>assistant assistant", FINAL),
        [HI],
        [(K.REPEATED_ROLE, 5, "assistant")],
        role=None,
    ),
    Repair(
        "no role", tokens_of("<|start|>", FINAL), [HI], [(K.MISSING_ROLE, 3, "")], role=None
    ),
    Repair(
        "two channels",
        tokens_of("<|channel|>analysis", FINAL),
        [HI],
        [(K.REPEATED_CHANNEL, 4, "analysis")],
    ),
    Repair(
        "a channel without a name",
        tokens_of("<|channel|><|message|>Hi<|return|>"),
        [HI],
        [(K.EMPTY_CHANNEL, 1, "")],
    ),
    Repair(
        "nearly a channel",
        tokens_of("<|channel|>finalx<|message|>Hi<|return|>"),
        [HI],
        [(K.UNKNOWN_CHANNEL, 3, "finalx")],
    ),
    Repair(
        "two recipients",
        tokens_of("<|channel|>commentary to=a to=functions.f", CALL_END),
        [call()],
        [(K.REPEATED_RECIPIENT, 9, "a")],
    ),
    Repair(
        "the same recipient twice",
        tokens_of(" to=functions.f<|channel|>commentary to=functions.f", CALL_END),
        [call()],
        [(K.REPEATED_RECIPIENT, 11, "functions.f")],
    ),
    Repair(
        "a type before the recipient",
        tokens_of("<|channel|>commentary<|constrain|>json to=functions.f", CALL_END),
        [call(content_type="<|constrain|>json")],
        [(K.HEADER_ORDER, 9, "")],
    ),
    Repair(
        "two types",
        tokens_of("<|channel|>commentary to=functions.f json code", CALL_END),
        [call(content_type="json")],
        [(K.HEADER_TEXT, 9, "code")],
    ),
    Repair(
        "two constraints",
        tokens_of("<|channel|>commentary to=functions.f<|constrain|>x<|constrain|>json", CALL_END),
        [call(content_type="<|constrain|>json")],
        [(K.HEADER_TEXT, 11, "<|constrain|>x")],
    ),
    Repair(
        "a call on final in a damaged header",
        tokens_of("<|channel|>final <|constrain|>functions.f", CALL_END),
        [call()],
        [(K.TOOL_AS_TYPE, 6, "functions.f"), (K.CALL_ON_FINAL, 6, "final")],
    ),
    Repair(
        "a call to nobody",
        tokens_of("<|channel|>commentary", CALL_END),
        [said("{}", "commentary")],
        [(K.MISSING_RECIPIENT, 5, "")],
    ),
    Repair(
        "to= without a name",
        tokens_of("<|channel|>commentary to=<|constrain|>json", CALL_END),
        [said("{}", "commentary", content_type="<|constrain|>json")],
        [(K.MISSING_RECIPIENT, 7, "to="), (K.MISSING_RECIPIENT, 9, "")],
    ),
    Repair(
        "a tool in the channel's place",
        tokens_of("<|channel|>functions.f", CALL_END),
        [call()],
        [(K.TOOL_AS_CHANNEL, 3, "functions.f")],
    ),
    Repair(
        "a tool in the type's place",
        tokens_of("<|channel|>commentary <|constrain|>functions.f", CALL_END),
        [call()],
        [(K.TOOL_AS_TYPE, 7, "functions.f")],
    ),
    Repair(
        "a tool in the role's place",
        tokens_of("<|start|>f<|channel|>commentary", CALL_END),
        [call()],
        [(K.TOOL_AS_ROLE, 5, "f")],
        role=None,
    ),
    Repair(
        "an unknown name in the role's place",
        tokens_of("<|start|>clock<|message|>noon<|end|>"),
        [Message.from_author_and_content(Author.new(Role.TOOL, "clock"), "noon")],
        [(K.UNKNOWN_ROLE, 2, "clock")],
        role=None,
    ),
    Repair(
        "another role than the given one",
        tokens_of("user json<|message|>{}<|end|>"),
        [said("{}", None, content_type="json")],
        [(K.OTHER_ROLE, 2, "user")],
    ),
    Repair(
        "a tool's bare name",
        tokens_of("<|channel|>commentary to=f", CALL_END),
        [call()],
        [(K.TOOL_NAME, 5, "f")],
    ),
    Repair(
        "a tool's name in quotes",
        tokens_of('<|channel|>commentary to="functions.f"', CALL_END),
        [call()],
        [(K.TOOL_NAME, 8, '"functions.f"')],
    ),
    Repair(
        "a tool's name and a type in one word",
        tokens_of("<|channel|>commentary to=functions.fjson", CALL_END),
        [call(content_type="json")],
        [(K.GLUED_WORDS, 8, "functions.fjson")],
    ),
    Repair(
        "a role and a channel in one word",
        tokens_of("<|start|>assistantfinal<|message|>Hi<|return|>"),
        [HI],
        [(K.GLUED_WORDS, 3, "assistantfinal")],
        role=None,
    ),
    Repair(
        "a reserved token in a body",
        tokens_of("<|channel|>final<|message|>H<|reserved_200762|>i<|return|>"),
        [HI],
        [(K.SPECIAL_TOKEN, 4, "<|reserved_200762|>")],
    ),
    Repair(
        "a <|channel|> in a body that opens nothing",
        tokens_of("<|channel|>final<|message|>H<|channel|>i<|return|>"),
        [HI],
        [(K.SPECIAL_TOKEN, 6, "<|channel|>")],
    ),
    *[
        Repair(
            f"unknown id {token}",
            tokens_of("<|channel|>final<|message|>H", token, "i<|return|>"),
            [HI],
            [(K.UNKNOWN_TOKEN, 4, str(token))],
        )
        for token in (201089, -1, 2**40)
    ],
    Repair(
        "bytes that are no UTF-8",
        tokens_of("<|channel|>final<|message|>H", 178, "i<|return|>"),
        [said("H\ufffdi")],
        [(K.INVALID_UTF8, 4, "\ufffd")],
    ),
    Repair(
        "half a character before a letter",
        tokens_of("<|channel|>final<|message|>H", 52622, "i<|return|>"),
        [said("H\ufffdi")],
        [(K.INVALID_UTF8, 5, "\ufffdi")],
    ),
    Repair(
        "half a character at the end",
        tokens_of("<|channel|>final<|message|>Hi", 52622, "<|return|>"),
        [said("Hi\ufffd")],
        [(K.INVALID_UTF8, 5, "\ufffd")],
    ),
    # Decisions
    Repair(
        "a call without recipient is never given one, even where only one tool can be meant",
        tokens_of("<|channel|>commentary <|constrain|>json", CALL_END),
        [said("{}", "commentary", content_type="<|constrain|>json")],
        [(K.MISSING_RECIPIENT, 8, "")],
    ),
    Repair(
        "to=assistant in a damaged header is dropped",
        tokens_of("<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm<|end|>"),
        [HM],
        [(K.REPEATED_CHANNEL, 8, "commentary"), (K.HEADER_TEXT, 8, "to=assistant")],
    ),
    Repair(
        "text without a header is reasoning where more follows, else an answer",
        tokens_of("Hm<|end|>Hi<|end|>"),
        [HM, HI],
        [(K.NO_MARKUP, 2, "Hm"), (K.NO_MARKUP, 3, "Hi")],
    ),
]  # fmt: skip

each_repair = pytest.mark.parametrize("case", REPAIRS, ids=lambda case: case.name)


@each_repair
def test_repairs(case: Repair) -> None:
    parser = parsed(case.tokens, case.role, TOOLS, case.repairs)
    assert parser.messages == case.messages
    assert parser.recoveries == [Recovery(*recovery) for recovery in case.recoveries]
    assert parser.tokens == case.tokens


@each_repair
def test_what_follows_a_repair_is_read(case: Repair) -> None:
    tail = tokens_of("<|start|>user<|message|>And then?<|end|>")
    parser = parsed([*case.tokens, *tail], case.role, TOOLS, case.repairs)
    and_then = Message.from_role_and_content(Role.USER, "And then?")
    assert parser.messages[-1] == and_then
    is_stray = case.recoveries[0][0] is K.NO_MARKUP and case.tokens[-1] < FIRST_SPECIAL
    if not is_stray:
        assert len(parser.messages) == len(case.messages) + 1


def test_every_kind_has_a_case() -> None:
    tested = {kind for case in REPAIRS for kind, _, _ in case.recoveries}
    assert tested == set(RecoveryKind) - {K.MENDED_ARGUMENTS}  # which has a file of its own


# Where the tokens end


class Cut(NamedTuple):
    stream: str
    messages: list[Message]
    incomplete: bool
    role: Role | None = Role.ASSISTANT


CUTS = [
    Cut("", [], incomplete=False),
    Cut("", [], incomplete=False, role=None),
    Cut(FINAL, [HI], incomplete=False),
    Cut("<|start|>assistant", [], incomplete=False, role=None),
    Cut(FINAL + "<|start|>assistant", [HI], incomplete=False),
    Cut("<|start|>", [], incomplete=True, role=None),
    Cut("<|start|>function", [], incomplete=True, role=None),
    Cut("<|start|>functions.f to=assist", [], incomplete=True, role=None),
    Cut("<|channel|>", [], incomplete=True),
    Cut("<|channel|>comment", [], incomplete=True),
    Cut("<|channel|>final", [], incomplete=True),
    Cut("<|channel|>analysis to", [], incomplete=True),
    Cut("<|channel|>analysis to=", [], incomplete=True),
    Cut("<|channel|>commentary to=functions", [], incomplete=True),
    Cut("<|start|>assistant<|channel|>commentary to", [], incomplete=True, role=None),
    Cut("<|start|>assistant to=functions", [], incomplete=True, role=None),
    Cut(" to=functions.f<|channel|>comment", [], incomplete=True),
    Cut("<|channel|>commentary to=functions.f <|constrain|>js", [], incomplete=True),
    Cut("<|channel|>commentary to=functions.f js", [], incomplete=True),
    Cut("<|channel|>commentary to=functions.f", [], incomplete=True),
    Cut("<|channel|>commentary to=functions.f <|constrain|>", [], incomplete=True),
    Cut("<|channel|>commentary to=functions.f <|constrain|>json", [], incomplete=True),
    Cut(" to=functions.f", [], incomplete=True),
    Cut("<|channel|>commentary to=functions.f\u200b", [], incomplete=True),
    Cut(" to=functions.f\u200b", [], incomplete=True),
    Cut("<|channel|>commentary to=functions.f <|constrain|>json\ufeff \u00ad", [], incomplete=True),
    Cut("<|channel|>final\u2060", [], incomplete=True),
    Cut("<|channel|>commentary to=functions.Web Sea", [], incomplete=True),
    Cut("<|channel|>final<|message|>", [said("")], incomplete=True),
    Cut("<|channel|>final<|message|>Hi", [HI], incomplete=True),
    Cut("<|channel|>final Hi", [HI], incomplete=True),
    Cut('<|channel|>commentary to=functions.f<|message|>{"a', [call('{"a')], incomplete=True),
    Cut("<|channel|>analysis<|message|>Hm<|channel|>", [HM], incomplete=True),
    Cut("<|channel|>analysis<|message|>Hm<|channel|>final<|message|>", [HM, said("")], True),
    Cut("Hi", [HI], incomplete=True),
]


@pytest.mark.parametrize("case", CUTS, ids=lambda case: f"{case.role and 'given '}{case.stream}")
def test_cut_outputs(case: Cut) -> None:
    parser = parsed(tokens_of(case.stream), case.role, (*TOOLS, "functions.Web Search"))
    assert parser.messages == case.messages
    assert parser.incomplete == case.incomplete
    assert parser.state is StreamState.EXPECT_START


def test_half_a_character_at_a_cut_shows_as_such() -> None:
    parser = parsed(tokens_of("<|channel|>final<|message|>Hi", 52622))
    assert parser.messages == [said("Hi\ufffd")]
    assert parser.incomplete


def test_a_replacement_character_that_the_model_writes_is_no_repair() -> None:
    parser = parsed(tokens_of("<|channel|>final<|message|>a \ufffd b<|return|>"))
    assert parser.messages == [said("a \ufffd b")]
    assert parser.recoveries == []


@pytest.mark.parametrize(
    "stream",
    [
        "tool<|channel|>final<|message|>x<|end|>",
        "tool<|message|>x<|end|>",
        "a tool<|channel|><|message|>x<|end|>",
        "<|start|>functions.f to=assistant<|message|>x<|channel|>analysis<|message|>y<|end|>",
        "<|start|>tool<|start|>tool<|channel|><|message|>x<|end|>",
    ],
)
def test_a_recovered_message_by_a_tool_names_the_tool(stream: str) -> None:
    for message in parsed(tokens_of(stream), role=None).messages:
        assert (message.author.role, message.author.name) != (Role.TOOL, None)
        assert ENCODING.render(message)


# What the tools of the conversation decide


@pytest.mark.parametrize(
    ("written", "tools", "read"),
    [
        ("f", ["functions.f"], "functions.f"),
        ("f", [], "f"),
        ("f", ["functions.g"], "f"),
        ("functions.f", ["f"], "f"),
        ("functions.f", ["functions.g"], "functions.f"),
        ("f", ["f", "functions.f"], "f"),
        ("functions.python", [], "functions.python"),
        ("python", [], "python"),
        ("fjson", ["functions.f"], "functions.f"),
        ("fjson", ["functions.f", "fjson"], "fjson"),
        ("fcommentaryjson", ["functions.f"], "functions.f"),
        ("json", ["json"], "json"),
        ("a.b-c_d", ["functions.a.b-c_d"], "functions.a.b-c_d"),
        ("assistant", ["functions.f"], "assistant"),
        ("functions.functions.f", ["functions.f"], "functions.f"),
        ("function.f", ["functions.f"], "functions.f"),
        ("functions.ff", ["functions.f"], "functions.f"),
        ("f.f", ["functions.f"], "functions.f"),
        ("functions:f", ["functions.f"], "functions.f"),
        ("functions:f", [], "functions:f"),
        ("functions/f", ["functions.f"], "functions.f"),
        ("ff", ["functions.f", "ff"], "ff"),
        ("functions.\u200bf", ["functions.f"], "functions.f"),
        ("functions.f\ufeff", [], "functions.f"),
        ("functions.a b", ["functions.a b"], "functions.a b"),
        ("a  b", ["functions.a b"], "functions.a b"),
        ("functions.a\u00a0b", ["functions.a b"], "functions.a b"),
        ("functions.a bjson", ["functions.a b"], "functions.a b"),
        ("functions.a b", ["functions.a", "functions.a b", "functions.a b c"], "functions.a b"),
        ("functions.a bc", ["functions.a", "functions.a b"], "functions.a"),
        ("f" * 300, ["functions.f"], "f" * 300),
        ("f", ["functions.F"], "functions.F"),
        ("F", ["functions.f", "functions.F"], "functions.F"),  # exactly, before any other case
        ("functions.f", ["functions.F", "functions.f"], "functions.f"),
        ("AB", ["functions.ab", "functions.aB"], "AB"),  # either may be meant, so neither is called
    ],
)
def test_recipients(written: str, tools: list[str], read: str) -> None:
    tokens = tokens_of(f"<|channel|>commentary to={written}{CALL_END}")
    (message,) = parsed(tokens, tools=tools).messages
    assert message.recipient == read


@pytest.mark.parametrize(
    "header",
    ["<|channel|>commentaryto=functions.f<|constrain|>", "<|constrain|> to=f<|constrain|>"],
)
def test_a_damaged_header_keeps_an_empty_type(header: str) -> None:
    (message,) = parsed(
        tokens_of(f"{header}<|message|>{{}}<|call|>"), tools=["functions.f"]
    ).messages
    assert (message.recipient, message.content_type) == ("functions.f", "<|constrain|>")


@pytest.mark.parametrize(
    ("header", "author"),
    [
        ("user:bob", Author.new(Role.USER, "bob")),
        ("user:bob<|channel|>commentary 天天", Author.new(Role.USER, "bob")),  # damaged
        ("user\u200b", Author(role=Role.USER)),
        ("tool get_time", Author.new(Role.TOOL, "get_time")),
        ("tool functions.f", Author.new(Role.TOOL, "functions.f")),
        ("tool:functions.f", Author.new(Role.TOOL, "functions.f")),
        ("tool json", Author.new(Role.TOOL, "tool")),
    ],
)
def test_authors(header: str, author: Author) -> None:
    (message,) = parsed(tokens_of(f"<|start|>{header}<|message|>x<|end|>"), None, TOOLS).messages
    assert message.author == author


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("hi<|channel|>final<|message|>Hi<|return|>", [HI]),
        ("<|channel|>functions:f<|message|>{}<|call|>", [call()]),
        ('<|channel|>assistant\n{"answer":"0"}<|end|>', [said('{"answer":"0"}')]),
        (f"<|channel|>assistant\nHm<|end|><|start|>assistant{FINAL}", [HM, HI]),
        ("analysishm!assistantfinalHi", [said("hm!", "analysis"), HI]),
        ("analysis\nHm assistantfinalHi", [HM, HI]),
        ("finally, Hm", [said("finally, Hm")]),
        ("analysis of data", [said("analysis of data")]),
        ("analysisfunctions.f(1)assistantfinalHi", [said("functions.f(1)", "analysis"), HI]),
        ("analysisfunctions.fassistantfinalHi", [said("functions.f", "analysis"), HI]),
    ],
)
def test_words_in_unusual_places(text: str, messages: list[Message]) -> None:
    tokens = tokens_of(text)
    whole = parsed(tokens, tools=TOOLS)
    assert whole.messages == messages
    assert is_noted_or_accepted(tokens, Role.ASSISTANT, TOOLS)
    streamed = StreamableParser(ENCODING, Role.ASSISTANT, strict=False, tools=TOOLS)
    for token in tokens:
        streamed.process(token)
    assert streamed.process_eos().messages == whole.messages


JSON_CALL = call(content_type="<|constrain|>json")
IN_FIRST_WORDS = [
    # <|message|> comes too early, and then again, or the arguments come.
    ("<|channel|>commentary to=functions.f<|message|><|constrain|>json<|message|>{}", JSON_CALL),
    ("<|channel|>commentary to=functions.f<|message|><|constrain|>json{}", JSON_CALL),
    ("<|channel|>commentary<|message|>to=functions.f <|constrain|>json<|message|>{}", JSON_CALL),
    ("<|channel|>commentary<|message|> to=f <|constrain|>json{}", JSON_CALL),
    ("<|channel|>commentary<|message|> to=f<|message|>{}", call()),
    ("<|channel|>commentary<|message|>to=functions.f{}", call()),
    ("<|channel|>commentary to=functions.f<|message|>to=functions.f{}", call("to=functions.f{}")),
    ("<|channel|>commentary to=functions.f<|message|>to=functions.g{}", call("to=functions.g{}")),
    ("<|channel|>commentary to=functions.f<|message|>to=f<|message|>{}", call()),
    ("<|channel|>analysis<|message|>to=functions.f json{}<|end|>", "to=functions.f json{}"),
    ("<|channel|>analysis<|message|>to=functions.x{}<|call|>", "to=functions.x{}"),
    ("<|channel|>analysis<|message|>to=functions.f is a tool<|end|>", "to=functions.f is a tool"),
    ("<|channel|>analysis<|message|>to<|message|> be<|end|>", "to be"),
    ("<|channel|>analysis<|message|><|constrain|>Hm<|end|>", "Hm"),
    ("<|channel|>analysis<|message|>json<|end|>", "json"),
    ("<|channel|>analysis<|message|>to=functions.f", "to=functions.f"),
]


@pytest.mark.parametrize(("text", "meant"), IN_FIRST_WORDS)
def test_a_body_may_begin_with_words_of_its_header(text: str, meant: Message | str) -> None:
    is_call = isinstance(meant, Message)
    tokens = tokens_of(text + "<|call|>" * is_call)
    expected = [meant if isinstance(meant, Message) else said(meant, "analysis")]
    streamed = StreamableParser(ENCODING, Role.ASSISTANT, strict=False, tools=TOOLS)
    deltas = [streamed.process(token).last_content_delta or "" for token in tokens]
    assert streamed.process_eos().messages == parsed(tokens, tools=TOOLS).messages == expected
    assert text_of(expected[0]).startswith("".join(deltas))


def test_a_marker_that_such_a_body_spells_stays_text() -> None:
    begun = tokens_of("<|channel|>analysis<|message|>to=functions.f{}")
    parser = parsed([*begun, *plain("<|channel|>final"), END], tools=TOOLS)
    assert parser.messages == [said("to=functions.f{}<|channel|>final", "analysis")]
    assert parser.recoveries == []


def test_a_call_after_an_early_body_can_be_refused() -> None:
    tokens = tokens_of("<|channel|>commentary<|message|>to=functions.f<|message|>{}<|call|>")
    parser = parsed(tokens, tools=TOOLS, repairs=tuple(set(K) - {K.DOUBLED_START}))
    assert [message.recipient for message in parser.messages] == [None]


SOUND = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
REPAIRED_CALLS = {
    K.MISSING_START: f"<|channel|>analysis<|message|>x<|end|>assistant{SOUND}",
    K.DOUBLED_START: f"<|channel|>analysis<|message|>x<|end|><|start|><|start|>assistant{SOUND}",
    K.MISSING_END: f"<|channel|>analysis<|message|>x<|start|>assistant{SOUND}",
    K.STRAY_TEXT: f"<|channel|>analysis<|message|>x<|end|>, <|start|>assistant{SOUND}",
    K.EXTRA_STOP: f"<|channel|>analysis<|message|>x<|end|><|end|><|start|>assistant{SOUND}",
    K.SPECIAL_TOKEN: SOUND.replace("{}", "{<|constrain|>}"),
}


@pytest.mark.parametrize("kind", REPAIRED_CALLS)
def test_a_call_needs_what_was_repaired_since_the_message_before(kind: RecoveryKind) -> None:
    tokens = [*tokens_of(REPAIRED_CALLS[kind]), *tokens_of(f"<|start|>assistant{SOUND}")]
    allowed = parsed(tokens, tools=TOOLS)
    assert {recovery.kind for recovery in allowed.recoveries} == {kind}
    assert [message.recipient for message in allowed.messages][-2:] == ["functions.f"] * 2
    refused = parsed(tokens, tools=TOOLS, repairs=tuple(set(K) - {kind}))
    assert [message.recipient for message in refused.messages][-2:] == [None, "functions.f"]
    assert [recovery.kind for recovery in refused.recoveries][:2] == [kind, K.REFUSED_CALL]


@each_recorded
def test_no_recorded_call_that_was_repaired_is_one_without_repairs(case: dict[str, Any]) -> None:
    meant = parsed(tokens_of(case["completion"]), tools=case["tools"])
    after = [recovery.kind for recovery in meant.recoveries] == [K.EXTRA_STOP]  # its own end
    if len(meant.messages) == 1 and meant.recoveries and not after:
        refused = parsed(tokens_of(case["completion"]), tools=case["tools"], repairs=())
        assert {message.recipient for message in refused.messages} <= {None, *ROLES}


@pytest.mark.parametrize("header", ["", "<|channel|>analysis", "<|channel|>commentary"])
@pytest.mark.parametrize("written", ["assistantary", "assistant.", "assistantcommentary"])
def test_a_tool_answers_the_assistant(header: str, written: str) -> None:
    tokens = tokens_of(f"<|start|>python to={written}{header}<|message|>3<|end|>")
    (message,) = parsed(tokens, None).messages
    assert (message.author, message.recipient) == (Author.new(Role.TOOL, "python"), "assistant")


@pytest.mark.parametrize("times", [2, 33, 60, 1_000])
@pytest.mark.parametrize(
    "unit",
    [
        " to=functions.f",
        "to=functions.f",
        " to=functions.f code",
        " to=functions.x to=functions.f",
        "<|channel|>commentary to=functions.f",
        "<|channel|>analysis<|channel|>commentary to=functions.f",
        " to=functions.f<|constrain|>json",
        " assistantcommentary to=functions.f",
        " commentary",
        " ??",
        " json",
        " word",
    ],
)
@pytest.mark.parametrize("ending", ["<|message|>{}<|call|>", "{}<|call|>", "<|end|>", ""])
def test_a_header_that_repeats_itself_is_never_shown(unit: str, times: int, ending: str) -> None:
    tokens = tokens_of("<|channel|>commentary to=functions.f" + unit * times + ending)
    messages = parsed(tokens, tools=TOOLS).messages
    is_prose = unit in (" ??", " word") and "<|message|>" not in ending
    if "{}" in ending and not is_prose:
        assert [(one.recipient, text_of(one)) for one in messages] == [("functions.f", "{}")]
    assert all(message.recipient == "functions.f" for message in messages)


# One reader for headers with and without <|message|>


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.f <|constrain|>json",
        "<|channel|>commentary to=functions.f to=functions.f json",
        " to=functions.f<|channel|>analysis<|channel|>commentary json",
        "<|channel|>commentary to=assistant<|channel|>analysis to=f code",
        "<|channel|>functions.f<|constrain|>json",
        "<|channel|>commentary <|constrain|>functions.f",
        "<|channel|>commentary <|constrain|>response to=functions.f json",
        "<|channel|>commentary to=functions.fjson",
        "<|channel|>final to=f to=g <|constrain|>code",
        "<|channel|>analysis to=functions.g 彩神争霸高json",
        "<|channel|>commentary to=functions.a b json",
        "<|start|>assistantcommentary to=f",
        "<|start|>functions.f<|channel|>commentary",
        "<|start|>tool functions.f<|channel|>commentary",
        "<|start|>tool<|channel|>commentary to=functions.f",
    ],
)
def test_the_body_is_found_without_its_marker(header: str) -> None:
    tools = (*TOOLS, "functions.a b")
    ending = '{"a": 1}<|call|>'
    with_marker = parsed(tokens_of(header, "<|message|>", ending), tools=tools).messages
    without = parsed(tokens_of(header, ending), tools=tools).messages
    assert without == with_marker
    assert [message.recipient in tools for message in without] == [True]


# What a damaged header means: (role, name, channel, recipient) and the text of each message

MEANT = [
    # A word in the role's place that is no tool is never called.
    ("<|start|>assistant:<|channel|>final<|message|>Hi", [("final", None, "Hi")]),
    ("<|start|>Assistant<|channel|>final<|message|>Hi", [("final", None, "Hi")]),
    ("<|start|>model<|channel|>final<|message|>Hi", [("final", None, "Hi")]),
    ("<|start|>model<|channel|>commentary<|message|>Hi", [("commentary", None, "Hi")]),
    ("<|start|>f<|channel|>final<|message|>Hi", [("final", None, "Hi")]),
    ("<|start|><|im_start|>assistant<|channel|>final<|message|>Hi", [("final", None, "Hi")]),
    # A channel in another case or language is that channel, and a foreign word is never shown.
    ("<|channel|>Final<|message|>Hi", [("final", None, "Hi")]),
    ("<|channel|>ANALYSIS<|message|>Hm", [("analysis", None, "Hm")]),
    ("<|channel|>analysis:<|message|>Hm", [("analysis", None, "Hm")]),
    ("<|constrain|>Analysis<|message|>Hm", [("analysis", None, "Hm")]),
    ("<|channel|>анализ<|message|>Hm", [("analysis", None, "Hm")]),
    ("<|channel|>思想<|message|>Hm", [("analysis", None, "Hm")]),
    ("<|channel|>комментарии to=f<|message|>{}", [CALLED]),
    ("<|channel|>финальный<|message|>Hi", [("final", None, "Hi")]),
    ("<|channel|>ответ<|message|>Hi", [("final", None, "Hi")]),
    ("<|channel|>最终分析<|message|>Hm", [("analysis", None, "Hm")]),
    ("<|channel|>最終<|message|>Hi", [("final", None, "Hi")]),
    # Dirt behind a declared tool.
    ("<|channel|>commentary to=functions.f<|im_end|><|message|>{}", [CALLED]),
    ("<|channel|>commentary to=functions.f天天<|message|>{}", [CALLED]),
    ("<|channel|>commentary to=functions.f... json<|message|>{}", [CALLED]),
    ("<|channel|>commentary to=functions.f<|end|> <|constrain|>json<|message|>{}", [CALLED]),
    ("<|channel|>commentary `to=functions.f` json<|message|>{}", [CALLED]),
    ("<|channel|>commentary TO = functions.f json<|message|>{}", [CALLED]),
    ("<|channel|>commentary: to=functions.f{}<|call|>", [CALLED]),
    ("<|channel|>commentary to=Functions.F<|message|>{}", [CALLED]),
    # The end of a header without recipient does not begin the next one.
    ("<|channel|>commentary<|end|><|message|>Hi<|end|>", [("commentary", None, "Hi")]),
    # A declared name with another letter is not corrected.
    ("<|channel|>commentary to=functions.h<|message|>{}", [("commentary", "functions.h", "{}")]),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "meant"), MEANT, ids=[stream for stream, _ in MEANT])
def test_what_a_damaged_header_means(stream: str, meant: list[tuple[str, str | None, str]]) -> None:
    role = None if stream.startswith("<|start|>") else Role.ASSISTANT
    messages = parsed(tokens_of(stream), role, TOOLS).messages
    assert [(message.channel, message.recipient, message.text) for message in messages] == meant
    assert {message.author.role for message in messages} == {Role.ASSISTANT}


@pytest.mark.parametrize("name", ["functions.f", "f"])
@pytest.mark.parametrize(("stop", "role"), [("<|end|>", Role.TOOL), ("<|call|>", Role.ASSISTANT)])
def test_after_a_call_a_tool_answers(name: str, stop: str, role: Role) -> None:
    first = "<|channel|>commentary to=functions.f<|message|>{}<|call|>"
    answer = f'<|start|>{name}<|channel|>commentary<|message|>{{"ok": true}}{stop}'
    called, answered = parsed(tokens_of(first, answer), tools=TOOLS).messages
    assert (called.recipient, answered.author.role) == ("functions.f", role)
    assert (answered.recipient is None) == (role is Role.TOOL)


# The table of edits


def edit_rows() -> list[list[str]]:
    reference = Path(__file__).parents[2] / "docs" / "reference"
    page = (reference / "recoveries.md").read_text(encoding="utf-8")
    table = page[page.index("| Edit |") :].split("\n\n", 1)[0].replace("\\|", "¦")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
    return [[cell.replace("¦", "|") for cell in row] for row in rows]


def test_the_documented_edits_are_those_of_the_reader() -> None:
    rows = [tuple(row[:4]) for row in edit_rows()]
    assert rows == [
        (f"`{edit.name.lower().replace('_', '-')}`", f"{row.cost:g}",
         f"`{row.kind.value}`" if row.kind else "", row.reason)
        for edit, row in ((edit, edit.value) for edit in Edit)
    ]  # fmt: skip
    assert len(rows) == len(Edit.__members__)  # no two rows are the same, which would be one edit
    assert len({edit.value.cost for edit in Edit}) == 6  # few costs, so that few can be wrong


@pytest.mark.parametrize("row", [row for row in edit_rows() if row[4]], ids=lambda row: row[0])
def test_the_examples_of_edits_have_them(row: list[str]) -> None:
    edit, text = Edit[row[0].strip("`").upper().replace("-", "_")], row[4].strip("`")
    role = None if text.startswith("<|start|>") else Role.ASSISTANT
    header, marker, _ = text.removeprefix("<|start|>").partition("<|message|>")
    pieces = split_header(tokens_of(header), ENCODING.tokenizer)
    tools = frozenset({"functions.f", "functions.Web Search"})
    read = read_header if marker else read_unfinished
    reading = read(pieces, role, tools, after_call=edit is Edit.TOOL_ANSWERS)
    assert edit in reading.edits
    assert reading.cost > 0
    assert reading.margin >= 0


def test_margins_are_reported() -> None:
    parser = parsed(tokens_of("<|channel|>finalx<|message|>Hi<|return|>"))
    (header,) = parser.damaged_headers
    assert (header.position, header.text, header.cost) == (3, "<|channel|>finalx", 0.6)
    assert header.margin > 0
    assert parsed(tokens_of(FINAL)).damaged_headers == []


@pytest.mark.parametrize(
    ("text", "cost", "margin"),
    [
        ("final<|message|>", 0.3, 10.0),  # nothing competes
        ("<|channel|>Final<|message|>", 0.6, 10.0),
        ("<|channel|>analysis<|channel|>final<|message|>", 0.6, 0.4),  # or the first is kept: 1.0
        ("<|channel|>commentary to=f<|message|>", 0.3, 2.7),  # or the name is left out: 3.0
        # Or the second tool, which is not declared: 0.3 + 1.0.
        ("<|channel|>commentary to=functions.f to=functions.x<|message|>", 0.6, 0.7),
        ("<|channel|>commentary to=functions.f json code<|message|>", 3.0, 0.0),  # either type
        ("<|channel|>final Hi", 0.6, 2.4),  # or the word is left out, and there is no body: 3.0
        # Or the nine words are left out: 9.0.
        ("<|channel|>final a b c d e g h i j<|message|>", 6.6, 2.4),
    ],
)
def test_the_margin_is_what_the_next_best_reading_costs_more(
    text: str, cost: float, margin: float
) -> None:
    header, marker, _ = text.partition("<|message|>")
    pieces = split_header(tokens_of(header), ENCODING.tokenizer)
    read = read_header if marker else read_unfinished
    reading = read(pieces, Role.ASSISTANT, frozenset({"functions.f"}))
    assert (reading.cost, reading.margin) == (cost, margin)


@pytest.mark.parametrize("kind", [K.TOOL_NAME, K.TOOL_AS_CHANNEL, K.TOOL_AS_ROLE, K.GLUED_WORDS])
def test_a_call_that_needed_a_refused_repair_is_none(kind: RecoveryKind) -> None:
    (case,) = [case for case in REPAIRS if case.recoveries[:1] and case.recoveries[0][0] is kind][
        :1
    ]
    repairs = tuple(set(RecoveryKind) - {kind})
    parser = parsed(case.tokens, case.role, TOOLS, repairs)
    assert all(message.recipient is None for message in parser.messages)
    told = [(recovery.kind, recovery.text) for recovery in parser.recoveries]
    assert (K.REFUSED_CALL, "functions.f") in told
    assert parsed(case.tokens, case.role, TOOLS).messages == case.messages


# Nothing is lost in silence

KNOWN = "|".join((*(role.value for role in Role), "analysis", "commentary", "final", "json"))
WORD = re.compile(rf"{KNOWN}|(?:(?!{KNOWN})[^\W_])+")
"""Runs of letters and digits; the words of headers are read apart, as the parser may do."""

TO = re.compile(r"\bto=")
MARKERS = (START, END, MESSAGE, CHANNEL, CONSTRAIN, RETURN, CALL)
ROLE_TOKENS = {token for role in Role for token in plain(role.value)}


def missing_words(tokens: list[int], parser: StreamableParser) -> list[str]:
    """Every run of letters and digits in the text between special tokens that is told nowhere."""
    told = [text for _, _, text in parser.recoveries]
    for message in parser.messages:
        told += [message.author.role.value, message.author.name or "", text_of(message)]
        told += [message.channel or "", message.recipient or "", message.content_type or ""]
    everything = "\n".join(told)
    words = (word for text in texts_between(without_prompt(tokens)) for word in WORD.findall(text))
    return [word for word in words if word not in everything]


def without_prompt(tokens: list[int]) -> list[int]:
    """Leave out a role at the end, with which no message has begun yet."""
    end = len(tokens)
    while end and tokens[end - 1] >= FIRST_SPECIAL and tokens[end - 1] not in MARKERS:
        end -= 1
    return tokens[: end - 1] if end and tokens[end - 1] in ROLE_TOKENS else tokens


def texts_between(tokens: list[int]) -> list[str]:
    runs: list[list[int]] = [[]]
    for token in tokens:
        if 0 <= token < FIRST_SPECIAL:
            runs[-1].append(token)
        else:
            runs.append([])
    return [TO.sub(" ", ENCODING.decode(run, "ignore")) for run in runs]


def is_accepted(tokens: list[int], role: Role | None, tools: tuple[str, ...] = ()) -> bool:
    try:
        ENCODING.parse_messages_from_completion_tokens(tokens, role, tools=tools)
    except TokenError:
        return False
    return True


def is_noted_or_accepted(tokens: list[int], role: Role | None, tools: tuple[str, ...]) -> bool:
    lenient = parsed(tokens, role, tools)
    tokens = without_prompt(tokens)  # the start of a next message needs no note
    if tokens[-1:] == [START]:
        tokens = tokens[:-1]
    noted = bool(lenient.recoveries) or lenient.incomplete or not tokens
    return noted or is_accepted(tokens, role, tools)


marker_texts = st.sampled_from(
    ["start", "end", "message", "channel", "constrain", "return", "call", "reserved_200000"]
).map(lambda name: f"<|{name}|>")
header_words = st.sampled_from(
    ["assistant", "user", "analysis", "commentary", "final", " to=functions.f", " to=", "json",
     " json", " code", " ", "\n", "functions.g", "assistantfinal", "to=f", "analysis to=python",
     "<|start|>assistant<|channel|>final<|message|>", "<|channel|>commentary to=functions.f"]
)  # fmt: skip
unique_words = st.integers(100, 999).map("zebra{}".format)
pieces = marker_texts | header_words | unique_words | unique_words.map(" {}".format)
malformed = st.lists(pieces, max_size=14).map(lambda parts: tokens_of("".join(parts)))
roles = st.sampled_from([Role.ASSISTANT, None])
tool_sets = st.sampled_from([(), TOOLS])
laws = settings(max_examples=examples(400))


@laws
@given(malformed, roles, tool_sets)
def test_nothing_is_lost_in_silence(
    tokens: list[int], role: Role | None, tools: tuple[str, ...]
) -> None:
    assert missing_words(tokens, parsed(tokens, role, tools)) == []


@laws
@given(malformed, roles, tool_sets)
def test_whatever_strict_refuses_is_noted(
    tokens: list[int], role: Role | None, tools: tuple[str, ...]
) -> None:
    assert is_noted_or_accepted(tokens, role, tools)


@laws
@given(malformed, roles, tool_sets)
def test_no_message_holds_a_special_token_that_is_real(
    tokens: list[int], role: Role | None, tools: tuple[str, ...]
) -> None:
    for message in parsed(tokens, role, tools).messages:
        assert not any(spelling in text_of(message) for spelling in SPECIAL_TEXTS.values())
