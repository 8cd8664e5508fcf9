"""Training examples: their tokens, their loss masks, and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Conversation,
    Message,
    RenderConversationConfig,
    Role,
    SegmentKind,
    load_harmony_encoding,
)
from gpt_oss_harmony.sampled_messages import SampledMessage
from gpt_oss_harmony.training import (
    IGNORED,
    TokenSequence,
    TrainingExample,
    TrainingOptions,
    find_prompt_difference,
    read_examples,
    sequence_plan,
    training_examples,
    untrainable_reason,
)
from gpt_oss_harmony.training.examples import least_context_length
from support.training_conversations import (
    any_letters,
    call,
    conversation,
    late_openings,
    likely_letters,
    spoken,
)

ENCODING = load_harmony_encoding("HarmonyGptOss")


def marked(example: TrainingExample) -> str:
    """Write an example with trainable tokens in brackets; {a|b} is an `a` with the label `b`."""
    text, is_trainable = "", False
    for token, label in zip(example.input_ids, example.labels, strict=True):
        if (label != IGNORED) != is_trainable:
            text += "]" if is_trainable else "["
            is_trainable = not is_trainable
        piece = ENCODING.decode([token])
        text += piece if label in (IGNORED, token) else f"{{{piece}|{ENCODING.decode([label])}}}"
    text = text.replace("<|start|>", "/").replace("<|message|>", ">").replace("<|channel|>", "@")
    return text + "]" * is_trainable


QUESTION = "/user>What is 2 + 2?<|end|>"
THOUGHT = "@analysis>Simple arithmetic.<|end|>"
CALL = "@commentary to=functions.f <|constrain|>json>{}<|call|>"
RESULT = "/functions.f to=assistant@commentary>{}<|end|>"
ANSWER = "@final>2 + 2 = 4."

# Letters of a conversation, options, and the examples. Those without options are in the kit.
VECTORS: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "uafuaf",
        {"keep_past_reasoning": True},
        [
            f"{QUESTION}/assistant[{THOUGHT}/assistant{ANSWER}{{<|end|>|<|return|>}}]"
            f"{QUESTION}/assistant[{THOUGHT}/assistant{ANSWER}<|return|>]"
        ],
    ),
    (
        "uafuf",
        {"turns": "last"},
        [f"{QUESTION}/assistant{ANSWER}<|end|>{QUESTION}/assistant[{ANSWER}<|return|>]"],
    ),
    ("uafu", {"turns": "last"}, []),
    (
        "uaf",
        {"channels": frozenset(["final"])},
        [f"{QUESTION}/assistant{THOUGHT}[/assistant{ANSWER}<|return|>]"],
    ),
    (
        "uaf",
        {"channels": frozenset(["analysis"])},
        [f"{QUESTION}/assistant[{THOUGHT}]"],
    ),
    (
        "uc",
        {"header_style": "reference"},
        [f"{QUESTION}/assistant[ to=functions.f@commentary <|constrain|>json>{{}}<|call|>]"],
    ),
]


@pytest.mark.parametrize(("letters", "options", "expected"), VECTORS)
def test_examples(letters: str, options: dict[str, Any], expected: list[str]) -> None:
    made = training_examples(conversation(letters), TrainingOptions(**options))
    assert list(map(marked, made)) == expected


def test_functions_declared_late_begin_a_sequence() -> None:
    first, second = training_examples(conversation("sufdtuf"))
    line = "Calls to these tools must go to the commentary channel"
    assert line not in ENCODING.decode(first.input_ids)
    assert line in ENCODING.decode(second.input_ids)
    assert second.trainable_tokens == first.trainable_tokens


def test_weights() -> None:
    letters = conversation("uafuf")
    (example,) = training_examples(letters, weights={2: 0.5, 4: 0.0, 1: 1.0})
    assert marked(example) == f"{QUESTION}/assistant[{THOUGHT}/assistant{ANSWER}<|return|>]"
    weights = example.loss_weights()
    assert weights.count(0.0) == len(example) - example.trainable_tokens
    assert weights[-1] == 0.5
    assert weights[example.labels.index(200005)] == 1.0


def test_masks_leave_out_what_they_cannot_say() -> None:
    (example,) = training_examples(conversation("ufuf"))
    masks = example.assistant_masks()
    assert sum(masks) == example.trainable_tokens - 1
    index = next(index for index, label in enumerate(example.labels) if label == 200002)
    assert (example.input_ids[index], masks[index]) == (200007, 0)


def test_provenance() -> None:
    (example,) = training_examples(conversation("uaf"))
    kinds, messages, sampled = (
        example.token_kinds(),
        example.token_messages(),
        example.token_sampled(),
    )
    assert len(kinds) == len(messages) == len(sampled) == len(example)
    rows = {
        (messages[index], kinds[index].value, sampled[index]): ENCODING.decode(
            example.input_ids[span.start : span.end]
        )
        for span in example.spans
        for index in range(span.start, span.end)
    }
    assert rows == {
        (0, "header", False): "<|start|>user<|message|>",
        (0, "body", False): "What is 2 + 2?",
        (0, "stop", False): "<|end|>",
        (1, "header", False): "<|start|>assistant",
        (1, "header", True): "<|channel|>analysis<|message|>",
        (1, "body", True): "Simple arithmetic.",
        (1, "stop", True): "<|end|>",
        (2, "header", True): "<|start|>assistant<|channel|>final<|message|>",
        (2, "body", True): "2 + 2 = 4.",
        (2, "stop", True): "<|return|>",
    }


def test_sampled_messages_keep_their_tokens() -> None:
    tokens = ENCODING.encode("<|channel|>final<|message|>", allowed_special="all")
    tokens += [ENCODING.encode(letter)[0] for letter in "2 + 2 = 4."] + [200002]
    assert tokens != [*ENCODING.render(spoken("2 + 2 = 4."))[2:-1], 200002]  # cut otherwise
    chat = conversation("uu")
    chat.messages.insert(1, SampledMessage.of(spoken("2 + 2 = 4."), tokens))
    chat.messages.append(SampledMessage.of(spoken("2 + 2 = 4."), tokens))
    (example,) = training_examples(chat)
    assert [label for label in example.labels if label != IGNORED] == tokens * 2
    assert example.input_ids[-len(tokens) :] == tokens
    assert find_prompt_difference(chat, example) is None


def test_difference_from_inference_is_found() -> None:
    chat = conversation("suaf")
    (example,) = training_examples(chat)
    example.input_ids[3] += 1
    difference = find_prompt_difference(chat, example)
    assert difference is not None
    assert (difference.message, difference.position) == (2, 3)


# Laws


@given(any_letters | likely_letters | late_openings)
def test_what_is_trainable_follows_the_prompt_of_inference(letters: str) -> None:
    chat = conversation(letters)
    for options in (TrainingOptions(), TrainingOptions(keep_past_reasoning=True)):
        for example in training_examples(chat, options):
            assert find_prompt_difference(chat, example, options) is None


@given(any_letters | likely_letters)
def test_each_message_is_trained_on_once_and_wholly(letters: str) -> None:
    chat = conversation(letters)
    trained: list[str] = []
    for example in training_examples(chat):
        for span in example.spans:
            labels = example.labels[span.start : span.end]
            assert len({label == IGNORED for label in labels}) <= 1
            if span.kind is SegmentKind.STOP and labels[0] != IGNORED:
                trained.append(str(span.message))
            if labels and labels[0] != IGNORED:
                assert span.sampled
    own = [str(index) for index, m in enumerate(chat.messages) if m.author.role is Role.ASSISTANT]
    assert sorted(trained) == sorted(own)


@given(likely_letters)
def test_one_turn_is_what_the_reference_renders(letters: str) -> None:
    chat = conversation(letters)
    options = TrainingOptions(keep_past_reasoning=True)
    config = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
    rendered = ENCODING.render_conversation_for_training(chat, config)
    for example in training_examples(chat, options)[-1:]:
        if max(span.message for span in example.spans) == len(chat.messages) - 1:
            assert example.input_ids == rendered
        else:
            assert rendered[: len(example) - 1] == example.input_ids[:-1]


@given(any_letters | likely_letters | late_openings, st.integers(20, 250), st.booleans())
def test_windows_fit_and_lose_nothing_silently(letters: str, limit: int, keeps: bool) -> None:
    chat = conversation(letters)
    options = TrainingOptions(context_length=limit, keep_past_reasoning=keeps)
    examples, too_long = read_examples(chat, options)
    if Role.ASSISTANT in {message.author.role for message in chat.messages}:
        assert (least_context_length(chat, options) <= limit) == bool(examples)
    trained = list(too_long)
    openings = [
        index
        for index, message in enumerate(chat.messages)
        if message.author.role in (Role.SYSTEM, Role.DEVELOPER)
    ]
    for example in examples:
        assert len(example) <= limit
        assert find_prompt_difference(chat, example, options) is None
        held = [part.message for part in example.messages]
        assert held == sorted(held)
        assert {index for index in openings if index < held[-1]} <= {*held}
        trained += (
            span.message
            for span in example.spans
            if span.kind is SegmentKind.STOP and example.labels[span.start] != IGNORED
        )
    own = [index for index, m in enumerate(chat.messages) if m.author.role is Role.ASSISTANT]
    assert sorted(trained) == own


# Messages: 0 system, 1 and 3 questions, 2 and 8 answers, 4 and 6 calls, 5 and 7 results.
WINDOWS = [
    (182, ["012345678"], []),
    (181, ["0123456", "0345678"], []),
    (150, ["01234", "03456", "03678"], []),
    (120, ["01234", "03678"], []),
    (110, ["012", "034", "036", "038"], []),
    (80, ["012", "038"], [4, 6]),
    (60, [], [2, 4, 6, 8]),
]


@pytest.mark.parametrize(("limit", "held", "lost"), WINDOWS)
def test_windows_leave_out_old_turns_then_old_steps(
    limit: int, held: list[str], lost: list[int]
) -> None:
    chat = conversation("sufucrcrf")
    chat.messages[4], chat.messages[6] = call("1" * 40), call("2" * 40)
    examples, too_long = read_examples(chat, TrainingOptions(context_length=limit))
    made = ["".join(map(str, sorted({s.message for s in example.spans}))) for example in examples]
    assert (made, too_long) == (held, lost)


# Messages: 0 system, 1 and 4 questions, 2 an answer, 3 declares a function, 5 a call of it.
LATE_DECLARATIONS = [
    (150, ["012", "012345"], []),
    (149, ["012", "0345"], []),
    (124, ["012", "0345"], []),
    (123, ["012"], [5]),
    (76, ["012"], [5]),
    (75, [], [2, 5]),
]


@pytest.mark.parametrize(("limit", "held", "lost"), LATE_DECLARATIONS)
def test_a_window_has_the_declarations_of_the_turns_that_it_leaves_out(
    limit: int, held: list[str], lost: list[int]
) -> None:
    chat, options = conversation("suftuc"), TrainingOptions(context_length=limit)
    examples, too_long = read_examples(chat, options)
    made = ["".join(str(part.message) for part in example.messages) for example in examples]
    assert (made, too_long) == (held, lost)
    assert all(find_prompt_difference(chat, example, options) is None for example in examples)


def test_no_message_no_example() -> None:
    assert training_examples(Conversation()) == []
    assert training_examples(Conversation.from_messages([Message(author={"role": "user"})])) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("letters", "options", "weights", "reason"),
    [
        ("suf", {}, {}, None),
        ("", {}, {}, "the conversation has no assistant message; add the answer"),
        ("su", {"turns": "last"}, {}, "the conversation has no assistant message; add the answer"),
        ("ufu", {"turns": "last"}, {}, "no assistant message follows the last question"),
        (
            "uacrf",
            {"channels": frozenset({"other"})},
            {},
            "no assistant message is on a channel that is trained on; the channels are analysis, "
            "commentary, final, the choice is other",
        ),
        (
            "ufua",
            {"turns": "last", "channels": frozenset({"final"})},
            {},
            "the channels are analysis, the choice is final",
        ),
        ("suf", {}, {2: 0.0}, "the weight of every assistant message is 0"),
        ("suf", {}, {2: 0.5}, None),
    ],
)
def test_why_nothing_is_trained_on(
    letters: str, options: dict[str, Any], weights: dict[int, float], reason: str | None
) -> None:
    messages = conversation(letters).messages
    answer = untrainable_reason(messages, TrainingOptions(**options), weights)
    assert answer is reason if reason is None else reason in str(answer)


@given(
    any_letters,
    st.sampled_from(["all", "last"]),
    st.none() | st.frozensets(st.sampled_from(["analysis", "commentary", "final"])),
    st.dictionaries(st.integers(0, 8), st.sampled_from([0.0, 1.0])),
)
def test_there_is_a_reason_just_where_there_is_no_example(
    letters: str, turns: Any, channels: frozenset[str] | None, weights: dict[int, float]
) -> None:
    chat = conversation(letters)
    options = TrainingOptions(turns=turns, channels=channels)
    reason = untrainable_reason(chat.messages, options, weights)
    assert (reason is None) == bool(training_examples(chat, options, weights=weights))


def test_the_history_is_read_again_only_if_reasoning_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the time for a row of many turns would grow with their square."""
    calls: list[int] = []
    kept = sequence_plan.kept_in_prompt

    def counted(*arguments: Any) -> list[int]:
        calls.append(1)
        return kept(*arguments)

    monkeypatch.setattr(sequence_plan, "kept_in_prompt", counted)
    for letters, count in [("su" + "fu" * 50 + "f", 0), ("suaf" + "uf" * 50, 1), ("suafuaf", 1)]:
        calls.clear()
        plan = sequence_plan.plan_sequences(conversation(letters).messages, TrainingOptions())
        assert len(plan) == count + 1
        assert len(calls) == count


AN_OPTION: Any = TrainingOptions
TO_EXAMPLES: Any = training_examples

MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a request for a conversation": (
        lambda: TO_EXAMPLES({"messages": []}), TypeError, r"or conversation_from_chat\(\)"),
    "a list for a conversation": (
        lambda: TO_EXAMPLES([]), TypeError, r"write Conversation\.from_messages"),
    "a list for the conversation of a sequence": (
        lambda: TokenSequence.of_prompt([]),  # type: ignore[arg-type]
        TypeError, r"write Conversation\.from_messages"),
    "a dict for options": (
        lambda: TO_EXAMPLES(Conversation(), {"turns": "last"}), TypeError, "TrainingOptions"),
    "unknown turns": (
        lambda: AN_OPTION(turns="first"), ValueError, "'all' or 'last', not 'first'"),
    "a text for channels": (
        lambda: AN_OPTION(channels="final"), TypeError, r"write frozenset\(\['final'\]\)"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_names_the_remedy(mistake: str) -> None:
    call, error, remedy = MISTAKES[mistake]
    with pytest.raises(error, match=remedy):
        call()
