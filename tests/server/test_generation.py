"""Turns: sampled tokens to events. What is streamed comes to what the whole turn says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    RecoveryKind,
    Role,
    StreamableParser,
    ToolDescription,
)
from gpt_oss_harmony.apis.constraint import compiled_constraint
from gpt_oss_harmony.apis.items import ItemBegun, ItemEnded, ItemEvent, ItemText, TurnEnded
from gpt_oss_harmony.apis.reader import TurnReader
from gpt_oss_harmony.apis.stop_texts import StopTexts
from gpt_oss_harmony.apis.turn import TurnRequest
from gpt_oss_harmony.engines import FinishReason, SampledToken
from gpt_oss_harmony.parsing.recovery import WITHOUT_UNMARKED_CALLS
from gpt_oss_harmony.sampled_messages import SampledMessage
from gpt_oss_harmony.server.preparation import prepare_turn
from gpt_oss_harmony.tokens.special_tokens import END
from support.scripted_engine import ENCODING

TOOL = ToolDescription.new("now", "Tells the time.", {"type": "object", "properties": {}})
DEVELOPER = DeveloperContent.new().with_function_tools([TOOL])
ASKED = [
    Message.from_role_and_content(Role.DEVELOPER, DEVELOPER),
    Message.from_role_and_content(Role.USER, "hi"),
]
THINK = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
PREAMBLE = "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant"
CALL = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>"
FINAL = "<|channel|>final<|message|>Hello 🏰 there.<|return|>"


def request(stop: Sequence[str] = ()) -> TurnRequest:
    return TurnRequest(Conversation.from_messages(ASKED), stop=tuple(stop))


def encode(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


def read(
    tokens: Iterable[int],
    *,
    reason: FinishReason = FinishReason.STOP,
    stop: Sequence[str] = (),
    logprobs: bool = False,
) -> list[ItemEvent]:
    """Read a whole turn; its last token has the reason."""
    known = list(tokens)
    reader = TurnReader(request(stop), 7, new_id=str)
    events: list[ItemEvent] = []
    for at, token in enumerate(known, start=1):
        sampled = SampledToken(token, finish_reason=reason if at == len(known) else None)
        if logprobs:
            sampled = sampled._replace(logprob=-float(at), top_logprobs=((token, -float(at)),))
        events += reader.take(sampled)
        if reader.is_over:
            break
    return events


def test_text_without_special_tokens_is_never_a_call() -> None:
    *events, ended = read(encode("commentary to=functions.pay json{}"))
    assert isinstance(ended, TurnEnded)
    assert RecoveryKind.REFUSED_CALL in {recovery.kind for recovery in ended.recoveries}
    assert all(getattr(event, "recipient", None) is None for event in events)


def test_forced_tokens_are_counted() -> None:
    reader = TurnReader(request(), 7, new_id=str)
    events: list[ItemEvent] = []
    for position, token in enumerate(tokens := ENCODING.encode(FINAL, allowed_special="all")):
        sampled = SampledToken(token, is_forced=position in (1, 2))
        if position == len(tokens) - 1:
            sampled = sampled._replace(finish_reason=FinishReason.STOP)
        events += reader.take(sampled)
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.usage.output_tokens, ended.usage.forced_tokens) == (len(tokens), 2)


def messages_of(events: Iterable[ItemEvent]) -> list[tuple[str | None, str | None, str]]:
    """The messages, as their texts were streamed."""
    found: list[tuple[str | None, str | None, str]] = []
    for event in events:
        if isinstance(event, ItemBegun):
            found.append((None, event.recipient, ""))
        elif isinstance(event, ItemText):
            _, recipient, text = found[event.position]
            found[event.position] = (None, recipient, text + event.text)
        elif isinstance(event, ItemEnded):
            channel, (_, recipient, text) = event.message.channel, found[event.position]
            found[event.position] = (channel, recipient, text)
    return found


TURNS = {
    "answer": (FINAL, [("final", None, "Hello 🏰 there.")]),
    "reasoning": (THINK + FINAL, [("analysis", None, "Hm."), ("final", None, "Hello 🏰 there.")]),
    "preamble and call": (
        THINK + PREAMBLE + CALL,
        [
            ("analysis", None, "Hm."),
            ("commentary", None, "Let me see."),
            ("commentary", "functions.now", "{}"),
        ],
    ),
    "call on analysis": (
        "<|channel|>analysis to=functions.now <|constrain|>json<|message|>{}<|call|>",
        [("analysis", "functions.now", "{}")],
    ),
    "empty answer": ("<|channel|>final<|message|><|return|>", [("final", None, "")]),
    "no markup": ("Hello.<|return|>", [("final", None, "Hello.")]),
    "no markup, no end": ("Hello.", [("final", None, "Hello.")]),
    "no message marker": ("<|channel|>final Hello.<|return|>", [("final", None, "Hello.")]),
    "half a character": ("<|channel|>final<|message|>a\ufffd", [("final", None, "a\ufffd")]),
    "a result that was imagined": (
        CALL.replace("<|call|>", "<|end|>")
        + "<|start|>functions.now to=assistant<|channel|>commentary<|message|>12:00<|end|>"
        + "<|start|>assistant"
        + FINAL,
        [("commentary", "functions.now", "{}"), ("final", None, "Hello 🏰 there.")],
    ),
    "a question that was imagined": (
        FINAL.replace("<|return|>", "<|end|>") + "<|start|>user<|message|>More!<|end|>",
        [("final", None, "Hello 🏰 there.")],
    ),
    "a call in the tool's place": (
        "<|end|><|start|>functions.now<|channel|>commentary<|message|>{}<|call|>",
        [("commentary", "functions.now", "{}")],
    ),
    "nothing": ("<|return|>", []),
}


@pytest.mark.parametrize(("text", "messages"), TURNS.values(), ids=TURNS)
def test_turns_are_told(text: str, messages: list[Any]) -> None:
    tokens = encode(text)
    if text.endswith("\ufffd"):
        tokens = [*encode(text[:-1]), *encode("🏰")[:1]]
    events = read(tokens)
    assert messages_of(events) == messages
    last = events[-1]
    assert isinstance(last, TurnEnded)
    assert last.tokens == tokens
    assert last.usage[:3] == (7, 0, len(tokens))
    assert [event for event in events if isinstance(event, TurnEnded)] == [last]


def test_reasoning_is_counted_with_its_markup() -> None:
    last = read(encode(THINK + FINAL))[-1]
    assert isinstance(last, TurnEnded)
    assert last.usage.reasoning_tokens == len(encode("<|channel|>analysis<|message|>Hm.<|end|>"))


def test_a_turn_that_is_cut_is_incomplete() -> None:
    events = read(encode(THINK + "<|channel|>final<|message|>Hel"), reason=FinishReason.LENGTH)
    ended = [event for event in events if isinstance(event, ItemEnded)]
    assert [event.is_complete for event in ended] == [True, False]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].reason is FinishReason.LENGTH


# Laws

PIECES = [
    *("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>"),
    *("<|call|>", "<|startoftext|>", "<|reserved_200013|>", "assistant", "user", "tool", "system"),
    *("analysis", "commentary", "final", " to=functions.now", " to=python", " to=user", "json"),
    *("functions.now", " ", "\n", "Hello", " there.", "{}", "🏰", "END", "E", "N", "D"),
]
markup = st.lists(st.sampled_from(PIECES), max_size=25).map("".join).map(encode)
halves = st.sampled_from([*encode("🏰歪é"), 201088, 200018, 0, 255])
hostile = st.lists(st.one_of(markup, st.lists(halves, max_size=2)), max_size=4).map(
    lambda lists: [token for tokens in lists for token in tokens]
)
well_formed = st.lists(st.sampled_from([THINK, PREAMBLE]), max_size=3).flatmap(
    lambda parts: st.sampled_from([CALL, FINAL]).map(lambda last: "".join([*parts, last]))
)


@given(hostile, st.sampled_from([(), ("END",), ("E", "ND")]), st.booleans())
@example(ENCODING.encode(" to=user<|message|>END", allowed_special="all"), ("END",), False)
@example(ENCODING.encode(" to=user<|message|>", allowed_special="all"), (), False)
@example(ENCODING.encode(" to=user<|message|>Hi", allowed_special="all"), (), True)
@example(
    ENCODING.encode("<|message|><|channel|>final<|message|>", allowed_special="all"), (), False
)
@example(
    ENCODING.encode(
        "<|channel|>analysis<|message|>assistant<|channel|>final<|message|>Hi",
        allowed_special="all",
    ),
    (),
    True,
)
def test_the_stream_says_what_the_messages_say(
    tokens: list[int], stop: tuple[str, ...], logprobs: bool
) -> None:
    events = read([*tokens, END], stop=stop, logprobs=logprobs)
    streamed = messages_of(events)
    open_at: int | None = None
    ended: list[tuple[str | None, str | None, str]] = []
    for event in events:
        if isinstance(event, ItemBegun):
            assert open_at is None
            open_at = event.position
            assert event.position == len(ended)
        elif isinstance(event, ItemText):
            assert event.text
            assert event.position == open_at
        elif isinstance(event, ItemEnded):
            assert event.position == open_at
            open_at = None
            assert event.message.author.role is Role.ASSISTANT
            text = event.message.text
            # Clients read the arguments of a whole call as JSON, so that of none is empty.
            assert event.text == text or (event.message.recipient and not text.strip())
            to = event.message.recipient
            called = None if to in {"all", *(role.value for role in Role)} else to  # as `to=user`
            ended.append((event.message.channel, called, event.text))
    assert ended == streamed
    assert isinstance(events[-1], TurnEnded)
    is_answer = [text for channel, call, text in ended if call is None and channel != "analysis"]
    assert not any(text in answer for answer in is_answer for text in stop)


@given(hostile)
@example([316, 28, 44580, 20633])  # " to=functions.now", without a special token
def test_without_stop_texts_nothing_but_others_words_is_left_out(tokens: list[int]) -> None:
    parser = StreamableParser(
        ENCODING,
        Role.ASSISTANT,
        strict=False,
        tools=request().tools,
        repairs=WITHOUT_UNMARKED_CALLS,
    )
    parser.process_many([*tokens, END])
    whole = parser.process_eos().messages
    ended = [event.message for event in read([*tokens, END]) if isinstance(event, ItemEnded)]
    own = [message for message in whole if message.author.role is Role.ASSISTANT]
    assert [message.to_dict() for message in ended] == [message.to_dict() for message in own]


@given(well_formed)
def test_sampled_messages_have_all_tokens(text: str) -> None:
    tokens = encode(text)
    opening = encode("<|start|>assistant")
    joined: list[int] = []
    for event in read(tokens):
        if isinstance(event, ItemEnded):
            assert isinstance(event.message, SampledMessage)
            joined += [*(opening if joined else ()), *event.message.sampled_tokens]
    assert joined == tokens


@given(well_formed)
def test_log_probabilities_cover_the_text(text: str) -> None:
    tokens = encode(text)
    for event in _joined(read(tokens, logprobs=True)):
        data = b"".join(known.data for known in event.logprobs)
        assert data.decode() == event.text
        for known in event.logprobs:
            assert known.top == ((known.token, known.data, known.logprob),)
            assert ENCODING.decode([tokens[int(-(known.logprob or 0)) - 1]], "ignore") in event.text


def _joined(events: Iterable[ItemEvent]) -> list[ItemText]:
    found: dict[int, ItemText] = {}
    for event in events:
        if isinstance(event, ItemText):
            before = found.get(event.position, ItemText(event.position, "", ()))
            found[event.position] = ItemText(
                event.position, before.text + event.text, before.logprobs + event.logprobs
            )
    return list(found.values())


def test_nothing_is_told_of_a_stop_text() -> None:
    events = read(encode(FINAL), stop=[" there"], logprobs=True)
    (added,) = _joined(events)
    assert added.text == "Hello 🏰"
    assert b"".join(known.data for known in added.logprobs).decode() == "Hello 🏰"
    assert isinstance(events[-2], ItemEnded)
    assert events[-2].message == Message.from_role_and_content(
        Role.ASSISTANT, "Hello 🏰"
    ).with_channel("final")
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].reason is FinishReason.STOP


def test_stop_texts_are_for_what_the_user_reads() -> None:
    assert messages_of(read(encode(THINK + CALL), stop=["Hm", "{"])) == [
        ("analysis", None, "Hm."),
        ("commentary", "functions.now", "{}"),
    ]
    assert messages_of(read(encode(THINK + PREAMBLE + FINAL), stop=["see"]))[1:] == [
        ("commentary", None, "Let me ")
    ]


# Stop texts alone


def first_stop(texts: Sequence[str], text: str) -> tuple[str, bool]:
    """The slow way: the stop text that ends first, and the longest of those."""
    for end in range(1, len(text) + 1):
        ended = [len(stop) for stop in texts if text[:end].endswith(stop)]
        if ended:
            return text[: end - max(ended)], True
    return text, False


few = st.text(alphabet="ab", min_size=1, max_size=5)


@given(
    st.lists(few, min_size=1, max_size=3), st.lists(st.text(alphabet="abc", max_size=5), max_size=5)
)
def test_stop_texts_are_found_wherever_they_are_cut(texts: list[str], parts: list[str]) -> None:
    stop = StopTexts(texts)
    passed = ""
    for part in parts:
        passed += stop.feed(part)
        if stop.found:
            break
    else:
        passed += stop.rest()
    assert (passed, stop.found) == first_stop(texts, "".join(parts))


@given(st.lists(few, min_size=1, max_size=3), st.text(alphabet="abc", max_size=9))
def test_only_what_may_be_a_stop_text_is_held(texts: list[str], text: str) -> None:
    stop = StopTexts(texts)
    passed = stop.feed(text)
    if not stop.found:
        held = stop.rest()
        assert passed + held == text
        assert not held or any(known.startswith(held) for known in texts)


def test_a_turn_is_rendered_and_put_under_its_grammar() -> None:
    prompt, sampling, unenforced, narrowed, _ = prepare_turn(request())
    assert (unenforced, narrowed) == ((), ())
    assert ENCODING.decode(prompt).endswith("<|start|>user<|message|>hi<|end|><|start|>assistant")
    assert sampling == request().sampling
    assert compiled_constraint(request(), 1000).grammar.startswith("start: ")


MEND = ToolDescription.new(
    "mend", "Mends.", {"type": "object", "properties": {"n": {"type": "integer"}}}
)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{"n": 1}}', '{"n": 1}'),
        ("{'n': 1}", '{"n": 1}'),
        ("{'n': 'one'}", "{'n': 'one'}"),  # it would not follow the schema
        ("{'n': 1", "{'n': 1"),
    ],
)
def test_arguments_are_mended_if_they_follow_the_schema(written: str, text: str) -> None:
    developer = DeveloperContent.new().with_function_tools([MEND])
    asked = [Message.from_role_and_content(Role.DEVELOPER, developer)]
    turn = TurnRequest(Conversation.from_messages(asked))
    reader = TurnReader(turn, new_id=str, mend_arguments=True)
    tokens = encode(f"<|channel|>commentary to=functions.mend<|message|>{written}<|call|>")
    _, added, ended, last = [event for token in tokens for event in reader.take(token)]
    assert isinstance(added, ItemText)
    assert isinstance(ended, ItemEnded)
    assert isinstance(last, TurnEnded)
    assert added.text == ended.text == ended.message.text == text
    mended = [one.text for one in last.recoveries if one.kind is RecoveryKind.MENDED_ARGUMENTS]
    assert mended == ([] if text == written else [written])


def test_answers_stream_where_arguments_are_mended() -> None:
    reader = TurnReader(request(), new_id=str, mend_arguments=True)
    events = [event for token in encode(FINAL) for event in reader.take(token)]
    assert sum(isinstance(event, ItemText) for event in events) > 1
