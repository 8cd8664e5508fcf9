"""Sequences of sampled tokens: what was sampled is fed back as it was, whatever it means."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony import Conversation, ConversationError, Role, load_harmony_encoding
from gpt_oss_harmony.training import (
    IGNORED,
    TokenSequence,
    inference_prompt,
    training_examples,
)
from support.training_conversations import conversation, result

ENCODING = load_harmony_encoding("HarmonyGptOss")


def tokens(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


THOUGHT = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
ANSWER = "<|channel|>final<|message|>4<|return|>"

# What a model sampled, how the prompt goes on right after it, and the channel of the last message.
TURNS = [
    (CALL, "", "commentary"),
    (THOUGHT + CALL, "", "commentary"),
    ("<|channel|>analysis<|message|>hm<|end|>", "", "analysis"),
    # Malformed: the recipient in odd places, a missing end, no markup, a cut message or header.
    ("<|channel|>commentary json to=functions.f<|message|>{}<|call|>", "", "commentary"),
    ("<|channel|>functions.f<|message|>{}<|call|>", "", None),
    ("<|channel|>analysis<|message|>hm<|start|>assistant" + CALL, "", "commentary"),
    ("<|channel|>analysis<|message|>cut sho", "<|end|>", "analysis"),
    ("<|channel|>commentary to=functions.f<|message|>{", "<|call|>", "commentary"),
    ("<|channel|>analysis", "<|end|>", None),
    ("<|start|><|start|>", "<|end|>", None),
    ("", "<|end|>", None),
]


@pytest.mark.parametrize(("sampled", "closing", "channel"), TURNS)
def test_sampled_tokens_are_fed_back(sampled: str, closing: str, channel: str | None) -> None:
    chat = conversation("stu")
    prompt = TokenSequence.of_prompt(chat)
    assert prompt.input_ids == inference_prompt(chat.messages)
    ids = tokens(sampled)
    logprobs = [-float(index + 1) for index in range(len(ids))]
    turn = prompt.add_sampled(ids, logprobs)
    following = turn.extend([result()])
    rest = "<|start|>functions.f to=assistant<|channel|>commentary<|message|>{}<|end|>"
    expected = [*prompt.input_ids, *ids, *tokens(closing + rest + "<|start|>assistant")]
    assert following.input_ids == expected
    start, end = len(prompt.input_ids), len(prompt.input_ids) + len(ids)
    assert following.labels[start:end] == ids
    assert following.logprobs[start:end] == logprobs
    assert following.sampled_mask().count(True) == len(ids)
    assert not any(following.logprobs[end:])
    if channel is not None:
        assert turn.messages[-1].channel == channel
    assert following.earlier == ()


def test_an_answer_is_closed_as_prompts_have_it_and_trained_on_as_it_was() -> None:
    prompt = TokenSequence.of_prompt(conversation("su"))
    turn = prompt.add_sampled(tokens(ANSWER))
    following = turn.extend(conversation("u").messages)
    assert turn.input_ids[-1] == 200002
    index = len(turn.input_ids) - 1
    assert (following.input_ids[index], following.labels[index]) == (200007, 200002)
    assert math.isnan(following.logprobs[index])
    assert following.input_ids[:index] == turn.input_ids[:index]


def test_past_reasoning_begins_a_sequence_of_the_same_tokens() -> None:
    odd = tokens("<|channel|>final<|message|>") + [ENCODING.encode(c)[0] for c in "four"] + [200002]
    prompt = TokenSequence.of_prompt(conversation("su"))
    turn = prompt.add_sampled(tokens(THOUGHT) + odd)
    following = turn.extend(conversation("u").messages)
    assert following.earlier == (turn,)
    question = tokens("<|end|><|start|>user<|message|>What is 2 + 2?<|end|><|start|>assistant")
    opening = tokens("<|start|>assistant")
    assert following.input_ids == prompt.input_ids[:-2] + opening + odd[:-1] + question
    assert set(following.labels) == {IGNORED}
    last = following.add_sampled(tokens(ANSWER)).extend(conversation("u").messages)
    assert last.earlier == (turn,)  # there was no more reasoning to leave out


def test_a_call_that_ended_in_return_is_closed_as_a_call() -> None:
    prompt = TokenSequence.of_prompt(conversation("stu"))
    turn = prompt.add_sampled(tokens(CALL.replace("<|call|>", "<|return|>")))
    following = turn.extend([result()])
    index = len(turn.input_ids) - 1
    assert (following.input_ids[index], following.labels[index]) == (200012, 200002)
    assert following.input_ids == inference_prompt([*turn.messages, result()])


def test_functions_declared_late_begin_a_sequence() -> None:
    prompt = TokenSequence.of_prompt(conversation("su"))
    turn = prompt.add_sampled(tokens(ANSWER))
    more = conversation("tu").messages
    following = turn.extend(more)
    assert following.earlier == (turn,)
    assert following.input_ids == inference_prompt([*turn.messages, *more])
    assert set(following.labels) == {IGNORED}
    again = following.add_sampled(tokens(ANSWER)).extend(more)
    assert again.earlier == (turn,)  # they had been declared


def test_one_object_may_be_several_messages() -> None:
    chat = conversation("suaf")
    question, thought, answer = chat.messages[1:]
    again = Conversation.from_messages([*chat.messages, question, thought, answer, question])
    expected = inference_prompt(conversation("suafuafu").messages)
    assert inference_prompt(again.messages) == expected
    assert TokenSequence.of_prompt(again).input_ids == expected
    (first, second) = training_examples(Conversation.from_messages(again.messages[:-1]))
    copied = training_examples(conversation("suafuaf"))
    assert [first.input_ids, second.input_ids] == [example.input_ids for example in copied]


def test_one_prompt_many_samples() -> None:
    prompt = TokenSequence.of_prompt(conversation("su"))
    length = len(prompt.input_ids)
    answers = [prompt.add_sampled(tokens(text)) for text in (ANSWER, CALL, THOUGHT)]
    assert len(prompt.input_ids) == length
    assert [len(answer.messages) for answer in answers] == [3, 3, 3]


def test_the_parser_says_what_it_repaired() -> None:
    prompt = TokenSequence.of_prompt(conversation("stu"))
    turn = prompt.add_sampled(tokens("<|channel|>functions.f<|message|>{}<|call|>"))
    assert turn.messages[-1].recipient == "functions.f"
    assert turn.recoveries


@pytest.mark.parametrize(
    ("begun", "sampled"),
    [
        ("<|channel|>final<|message|>The answer", " is 4.<|return|>"),
        ("<|channel|>analysis<|message|>Easy", ".<|end|><|start|>assistant" + ANSWER),
        ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{", "}<|call|>"),
        ("<|channel|>final<|message|>The", ""),
    ],
)
def test_a_message_that_was_cut_is_continued(begun: str, sampled: str) -> None:
    opening = tokens("<|start|>assistant" + THOUGHT)
    question = conversation("stu").messages
    thought, message = ENCODING.parse_messages_from_completion_tokens(
        tokens(THOUGHT + begun), Role.ASSISTANT, strict=False
    )
    chat = Conversation.from_messages([*question, thought, message])
    prompt = TokenSequence.of_prompt(chat, continue_last=True)
    asked = inference_prompt(question)
    assert prompt.input_ids == [*asked[:-2], *opening, *tokens(begun)]
    turn = prompt.add_sampled(tokens(sampled))
    assert turn.messages == [
        *question,
        *ENCODING.parse_messages_from_completion_tokens(
            tokens(THOUGHT + begun + sampled), Role.ASSISTANT, strict=False
        ),
    ]
    assert turn.sampled_mask() == [False] * len(prompt.input_ids) + [True] * len(tokens(sampled))
    following = turn.extend([result()])
    assert sum(following.sampled_mask()) in (len(tokens(sampled)), 0)  # 0: reasoning was left out
    with pytest.raises(ConversationError, match="by the assistant can be continued"):
        TokenSequence.of_prompt(conversation("stu"), continue_last=True)


def test_steps_in_the_wrong_order() -> None:
    prompt = TokenSequence.of_prompt(conversation("u"))
    with pytest.raises(ConversationError, match="add_sampled"):
        prompt.extend([result()])
    turn = prompt.add_sampled(tokens(ANSWER))
    with pytest.raises(ConversationError, match="extend"):
        turn.add_sampled([1])
    with pytest.raises(ConversationError, match="6 tokens have 1 logprobs"):
        prompt.add_sampled([1] * 6, [0.0])


def test_nothing_comes_before_the_first_message() -> None:
    turn = TokenSequence.of_prompt(conversation("")).add_sampled(tokens(ANSWER))
    assert [message.author.role for message in turn.messages] == [Role.ASSISTANT]


# Laws

STEPS = [
    (CALL, "r"),
    (THOUGHT + CALL, "r"),
    (CALL.replace("<|call|>", "<|return|>"), "r"),
    (ANSWER, "u"),
    (THOUGHT + ANSWER, "u"),
    (THOUGHT + ANSWER, "tu"),
]
"""What a model samples, and what follows."""

some_tokens = st.lists(
    st.one_of(
        st.integers(0, 200020),
        st.sampled_from([200002, 200003, 200005, 200006, 200007, 200008, 200012, 173781, 17196]),
    ),
    max_size=30,
)


@given(some_tokens)
def test_any_tokens_are_fed_back(sampled: list[int]) -> None:
    prompt = TokenSequence.of_prompt(conversation("stu"))
    turn = prompt.add_sampled(sampled)
    start = len(prompt.input_ids)
    assert turn.input_ids == [*prompt.input_ids, *sampled]
    assert [run.start for run in turn.runs[1:]] == [run.end for run in turn.runs[:-1]]
    assert turn.runs[-1].end == len(turn.input_ids)
    following = turn.extend([result()])
    if following.earlier:
        return  # it ended in an answer, after reasoning
    shown = following.input_ids[start : start + len(sampled)]
    expected = [*sampled[:-1], 200007] if sampled[-1:] == [200002] else sampled
    assert shown == expected
    assert following.labels[start : start + len(sampled)] == sampled
    assert following.runs[-1].end == len(following.input_ids) - 2


@given(st.sampled_from(["", "s", "sd", "st"]), st.lists(st.sampled_from(STEPS), max_size=5))
def test_each_prompt_is_that_of_inference(opening: str, steps: list[tuple[str, str]]) -> None:
    messages = conversation(opening + "u").messages
    sequence = TokenSequence.of_prompt(Conversation.from_messages(messages))
    for sampled, then in steps:
        sequence = sequence.add_sampled(tokens(sampled))
        said = sequence.messages[len(sequence.messages) - sampled.count("<|message|>") :]
        messages = [*messages, *said, *conversation(then).messages]
        sequence = sequence.extend(conversation(then).messages)
        assert sequence.input_ids == inference_prompt(messages)
