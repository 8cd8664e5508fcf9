"""Messages that keep their tokens, prompts that repeat them, and reasoning that is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Author,
    Conversation,
    Message,
    PromptLengthError,
    RenderConversationConfig,
    Role,
    StreamableParser,
    TextContent,
    TokenError,
    load_harmony_encoding,
)
from gpt_oss_harmony.rendering.history import without_past_reasoning
from gpt_oss_harmony.sampled_messages import (
    SampledMessage,
    prompt_length,
    prompt_tokens,
    with_sampled_tokens,
)
from gpt_oss_harmony.tokens.special_tokens import CALL, END, RETURN
from support.examples import examples
from support.strategies import tokens_of

ENCODING = load_harmony_encoding("HarmonyGptOss")
GUIDE = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")

USER = Message.from_role_and_content(Role.USER, "What is 2 + 2?")
THOUGHT = "<|channel|>analysis<|message|>Easy.<|end|>"
ANSWER = "<|channel|>final<|message|>4<|return|>"
CALLED = "<|channel|>analysis to=functions.f code<|message|>{}<|call|>"
OPENING = "<|start|>assistant"


def sampled(*texts: str) -> list[Message]:
    """The messages of a completion whose messages are spelled so, with their tokens."""
    tokens: list[int] = []
    ends: list[int] = []
    for at, text in enumerate(texts):
        tokens += tokens_of(OPENING + text if at else text)
        ends.append(len(tokens))
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False)
    parser.process_many(tokens)
    parser.process_eos()
    return with_sampled_tokens(ENCODING, parser.messages, tokens, ends)


def prompt_of(*messages: Message) -> str:
    return ENCODING.decode(prompt_tokens(ENCODING, Conversation.from_messages([*messages]), GUIDE))


@pytest.mark.parametrize(
    ("spelled", "repeated"),
    [
        (THOUGHT, THOUGHT),
        (ANSWER, ANSWER.replace("<|return|>", "<|end|>")),
        (CALLED, CALLED),
        ("<|channel|>final<|message|>cut o", "<|channel|>final<|message|>cut o<|end|>"),
        (
            " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
            " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
        ),
    ],
)
def test_a_prompt_repeats_what_was_sampled(spelled: str, repeated: str) -> None:
    (message,) = sampled(spelled)
    assert isinstance(message, SampledMessage)
    assert prompt_of(USER, message).endswith(f"<|end|>{OPENING}{repeated}{OPENING}")


def test_each_message_has_its_own_tokens() -> None:
    first, second = sampled(THOUGHT, ANSWER)
    assert isinstance(first, SampledMessage)
    assert isinstance(second, SampledMessage)
    assert first.sampled_tokens == tuple(tokens_of(THOUGHT))
    assert second.sampled_tokens == tuple(tokens_of(ANSWER))
    assert prompt_of(first) == f"{OPENING}{THOUGHT}{OPENING}"


@pytest.mark.parametrize(
    "broken",
    [
        "<|channel|>finale<|message|>4<|return|>",
        "analysis<|message|>Hm.<|end|>",
        "<|channel|>final<|message|>4<|channel|>",
    ],
)
def test_what_was_repaired_is_rendered(broken: str) -> None:
    assert [type(message) for message in sampled(broken)] == [Message]


def test_text_cut_in_other_ways_stays_cut() -> None:
    cut = [*tokens_of("<|channel|>final<|message|>"), *tokens_of("4"), *tokens_of("2"), END]
    messages = ENCODING.parse_messages_from_completion_tokens(cut, Role.ASSISTANT)
    known = with_sampled_tokens(ENCODING, messages, cut, [len(cut)])
    sampled = Conversation.from_messages(known)
    assert prompt_length(ENCODING, sampled, GUIDE) == len(prompt_tokens(ENCODING, sampled, GUIDE))
    prompts = [
        prompt_tokens(ENCODING, Conversation.from_messages(said), GUIDE)
        for said in (known, messages)
    ]
    assert prompts[0] == [*tokens_of(OPENING), *cut, *tokens_of(OPENING)]
    assert len(prompts[0]) == len(prompts[1]) + 1
    with pytest.raises(PromptLengthError):
        prompt_tokens(ENCODING, sampled, GUIDE, most_tokens=len(prompts[0]) - 1)


def test_a_prompt_without_sampled_messages_is_rendered() -> None:
    conversation = Conversation.from_messages([USER])
    rendered = ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT, GUIDE)
    assert prompt_tokens(ENCODING, conversation, GUIDE) == rendered
    counted = ENCODING.count_tokens_for_completion(conversation, Role.ASSISTANT, GUIDE)
    assert counted == len(rendered)
    for most in (None, counted):
        assert prompt_tokens(ENCODING, conversation, GUIDE, most_tokens=most) == rendered
    with pytest.raises(PromptLengthError) as refused:
        prompt_tokens(ENCODING, conversation, GUIDE, most_tokens=counted - 1)
    assert refused.value.length == counted


BODIES = st.lists(
    st.sampled_from(["a", "4", "2", " the", "\n", "<", "|", ">", "é", "日本", "{", "}", "  "]),
    max_size=8,
)
HEADERS = st.sampled_from(
    [
        ("<|channel|>analysis", END),
        ("<|channel|>commentary", END),
        ("<|channel|>commentary to=functions.f <|constrain|>json", CALL),
        (" to=functions.f<|channel|>analysis", CALL),
        ("<|channel|>final", RETURN),
    ]
)


@given(HEADERS, BODIES)
def test_sampled_tokens_are_repeated_however_they_are_cut(
    header: tuple[str, int], body: list[str]
) -> None:
    start, stop = header
    tokens = [
        *tokens_of(f"{start}<|message|>"),
        *(t for piece in body for t in ENCODING.encode(piece, disallowed_special=())),
        stop,
    ]
    messages = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    known = with_sampled_tokens(ENCODING, messages, tokens, [len(tokens)])
    repeated = prompt_tokens(ENCODING, Conversation.from_messages(known), GUIDE)
    opening = tokens_of(OPENING)
    assert repeated == [*opening, *tokens[:-1], END if stop == RETURN else stop, *opening]


SPELLED = st.tuples(
    st.sampled_from(
        [
            *("<|channel|>analysis", "<|channel|>final", "<|channel|>final<|constrain|>json"),
            *(" to=functions.f<|channel|>commentary json", "hi<|channel|>final", "", "user"),
            "<|start|>assistant<|channel|>final",
        ]
    ),
    st.sampled_from(["<|message|>", "<|message|>", "<|message|>", ""]),
    st.lists(
        st.sampled_from(["hi", " the", "é", "\ufffd", "<|constrain|>", "<|start|>", "<|end|>"]),
        max_size=3,
    ).map("".join),
    st.sampled_from(["<|end|>", "<|call|>", "<|return|>"]),
)
HALF_CHARACTER = ENCODING.encode("𓀀")[:1]
CHANGES = st.sampled_from(
    [
        *({}, {}, {}, {"channel": None}, {"channel": "final"}, {"recipient": "functions.f"}),
        *({"recipient": None}, {"content_type": "json"}, {"content_type": None}, {"content": []}),
        *({"content": [TextContent(text="hi")] * 2}, {"content": [TextContent(text="hi")]}),
        {"content": [TextContent(text="hi<|end|>")]},
        *({"author": Author(role=Role.USER)}, {"author": Author(role=Role.ASSISTANT, name="f")}),
    ]
)


@example(
    spelled=("<|channel|>final", "<|message|>", "hi<|end|>", "<|end|>"),
    has_half=False,
    change={"content": [TextContent(text="hi<|end|>")]},
)
@given(spelled=SPELLED, has_half=st.booleans(), change=CHANGES)
@settings(max_examples=examples(1000))
def test_a_message_has_tokens_exactly_if_the_strict_parser_reads_it_from_them(
    spelled: tuple[str, str, str, str], has_half: bool, change: dict[str, Any]
) -> None:
    """Most messages are compared with their tokens without a parser."""
    header, marker, body, stop = spelled
    tokens = [*tokens_of(header + marker + body), *(HALF_CHARACTER if has_half else ())]
    tokens += tokens_of(stop)
    lenient = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT, strict=False)
    message = [*lenient, USER][0].model_copy(update=change)
    (known,) = with_sampled_tokens(ENCODING, [message], tokens, [len(tokens)])
    own = tokens[2:] if tokens[:2] == tokens_of(OPENING) else tokens
    try:
        read = ENCODING.parse_messages_from_completion_tokens(own, Role.ASSISTANT)
    except TokenError:
        read = []
    assert isinstance(known, SampledMessage) == (read == [message])


# Past reasoning


def own(channel: str, recipient: str | None = None) -> Message:
    message = Message.from_role_and_content(Role.ASSISTANT, "x").with_channel(channel)
    return message if recipient is None else message.with_recipient(recipient)


def result(name: str, channel: str = "commentary") -> Message:
    author = Author.new(Role.TOOL, name)
    message = Message.from_author_and_content(author, "x").with_channel(channel)
    return message.with_recipient("assistant")


CALL_F = own("commentary", "functions.f")
CHAINS: list[tuple[list[Message], list[int]]] = [
    ([], []),
    ([USER, own("analysis")], [0, 1]),
    ([USER, own("analysis"), own("final")], [0, 2]),
    ([USER, own("analysis"), own("final"), USER], [0, 2, 3]),
    ([USER, own("analysis"), CALL_F, result("functions.f")], [0, 1, 2, 3]),
    (
        [USER, own("analysis"), CALL_F, result("functions.f"), own("analysis"), own("final")],
        [0, 2, 3, 5],
    ),
    ([own("final"), USER, own("analysis"), CALL_F], [0, 1, 2, 3]),
    ([own("analysis"), own("commentary"), own("final"), USER], [1, 2, 3]),
    ([own("analysis", "functions.f"), result("functions.f", "analysis"), own("final")], [0, 1, 2]),
    ([own("analysis", "python"), result("python", "analysis"), own("final")], [2]),
    ([own("analysis", "browser.open"), result("browser.open", "analysis"), USER], [0, 1, 2]),
]


@pytest.mark.parametrize(("messages", "kept"), CHAINS)
def test_past_reasoning_is_left_out(messages: list[Message], kept: list[int]) -> None:
    assert without_past_reasoning(messages) == [messages[at] for at in kept]


@given(st.lists(st.sampled_from([USER, own("analysis"), own("final"), CALL_F])))
def test_leaving_out_twice_changes_nothing(messages: list[Message]) -> None:
    once = without_past_reasoning(messages)
    assert without_past_reasoning(once) == once
    rule = RenderConversationConfig(reasoning_rule="by-turn", header_style="guide")
    conversation = Conversation.from_messages(messages)
    by_rule = prompt_tokens(ENCODING, conversation, rule)
    assert prompt_length(ENCODING, conversation, rule) == len(by_rule)
    assert by_rule == prompt_tokens(ENCODING, Conversation.from_messages(once), GUIDE)
