"""Our renderers in the packages of other projects: their prompts and labels are those of training.

The packages need openai-harmony, whose place this library takes; `make trainers` has both.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import ConversationError, load_harmony_encoding
from gpt_oss_harmony.apis.chat.request import ChatRequest, turn_of_chat
from gpt_oss_harmony.sampled_messages import prompt_tokens
from gpt_oss_harmony.training import IGNORED, TrainingOptions, row_examples
from gpt_oss_harmony.training.trainers import (
    chat_prompt,
    chat_sequence,
    read_completion,
    training_chats,
)
from support.examples import examples
from support.training_oracle import random_talk, write_chat

ENCODING = load_harmony_encoding("HarmonyGptOss")
DATE = "2025-06-28"
TOOLS = [{"name": "f", "description": "A function.", "parameters": {"type": "object"}}]
NESTED = [{"type": "function", "function": tool} for tool in TOOLS]

ASKED = {"role": "user", "content": "hi"}
ANSWERED = {"role": "assistant", "content": "ho", "reasoning_content": "hm"}
RESULT = {"role": "tool", "name": "f", "content": "{}"}


def calling(call_id: str) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    return {"role": "assistant", "content": "", "reasoning_content": "a call", "tool_calls": [call]}


def chat(letters: str) -> list[dict[str, Any]]:
    """Make a chat: s instructs, u asks, c calls, r is the result of the call before, f answers."""
    messages: list[dict[str, Any]] = []
    for index, letter in enumerate(letters):
        if letter == "c":
            messages.append(calling(f"{index}"))
        elif letter == "r":
            messages.append({**RESULT, "tool_call_id": f"{index - 1}"})
        else:
            instructions = {"role": "system", "content": "Be brief."}
            messages.append({"s": instructions, "u": ASKED, "f": ANSWERED}[letter])
    return messages


CHATS = ["u", "su", "sucr", "suf", "sufu", "sucrfucr", "sufufu", "ucrcrf", "sucrfuf"]


def server_prompt(messages: list[dict[str, Any]]) -> list[int]:
    turn = turn_of_chat(ChatRequest(messages=messages, tools=NESTED), date=DATE)
    return prompt_tokens(ENCODING, turn.conversation, TrainingOptions().rendering())


@pytest.mark.parametrize("letters", CHATS)
def test_prompts_are_those_of_the_server(letters: str) -> None:
    messages = chat(letters)
    prompt = chat_prompt(messages, TOOLS, start_date=DATE)
    assert prompt.token_ids == server_prompt(messages)
    closed = chat_prompt(messages, TOOLS, start_date=DATE, opens=False)
    assert closed.token_ids == prompt.token_ids[:-2]
    assert len(prompt.messages) == len(prompt.is_body) == len(prompt.token_ids)


@pytest.mark.parametrize("seed", range(40))
def test_the_samples_of_all_turns_teach_what_the_row_does(seed: int) -> None:
    """A token, after the same prompt, as often: no label of a turn is lost, and none is doubled."""
    row = write_chat(random_talk(random.Random(seed), turns=4))
    for message in row["messages"]:
        message.pop("weight", None)
    row.pop("weight", None)
    made = row_examples(row, start_date=DATE, reject=())[1].examples
    expected = Counter(
        (tuple(example.input_ids[:index]), label)
        for example in made
        for index, label in enumerate(example.labels)
        if label != IGNORED
    )
    learned: Counter[tuple[tuple[int, ...], int]] = Counter()
    for turn, is_trained in training_chats(row["messages"]):
        sequence = chat_sequence(
            turn, row.get("tools"), effort=row.get("reasoning_effort"), start_date=DATE
        )
        for index, (token, message, is_sampled) in enumerate(
            zip(sequence.token_ids, sequence.messages, sequence.is_sampled, strict=True)
        ):
            if is_sampled and is_trained[message]:
                learned[tuple(sequence.token_ids[:index]), token] += 1
    assert learned == expected


@pytest.mark.parametrize("letters", ["uf", "sucrf", "sufuf", "sucrfuc"])
def test_sequences_are_those_of_training(letters: str) -> None:
    messages = chat(letters)
    made = chat_sequence(messages, TOOLS, start_date=DATE)
    row = {"messages": messages, "tools": NESTED}
    example = row_examples(row, start_date=DATE)[1].examples[-1]
    assert made.token_ids == example.input_ids
    learned = [label not in (IGNORED,) for label in example.labels]
    last_turn = [source > letters.rindex("u") for source in made.messages]
    for is_learned, is_sampled, is_last in zip(learned, made.is_sampled, last_turn, strict=True):
        assert is_learned == (is_sampled and is_last) or (is_sampled and not is_last)


def test_tokens_belong_to_the_messages_of_the_chat() -> None:
    messages = chat("sucrf")
    made = chat_sequence(messages, TOOLS, start_date=DATE)
    texts = {
        index: ENCODING.decode(
            token
            for token, owner, is_body in zip(
                made.token_ids, made.messages, made.is_body, strict=True
            )
            if owner == index and is_body
        )
        for index in range(len(messages))
    }
    assert texts[0].startswith("You are ChatGPT")
    assert "# Instructions\n\nBe brief.\n\n# Tools" in texts[0]
    assert [texts[index] for index in range(1, 5)] == ["hi", 'a call{"a": 1}', "{}", "hmho"]


LATE = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "ho"},
    {"role": "system", "content": "In French."},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "salut"},
]


def sampled_texts(tokens: list[int], is_sampled: list[bool]) -> str:
    return ENCODING.decode(
        token for token, is_one in zip(tokens, is_sampled, strict=True) if is_one
    )


def test_answers_before_later_instructions_do_not_count_as_sampled() -> None:
    made = chat_sequence(LATE, start_date=DATE)
    example = row_examples({"messages": LATE}, start_date=DATE)[1].examples[-1]
    assert made.token_ids == example.input_ids
    assert made.is_sampled == [label != IGNORED for label in example.labels]
    assert sampled_texts(made.token_ids, made.is_sampled).endswith("salut<|return|>")
    assert "ho<|end|>" in ENCODING.decode(made.token_ids)
    assert "ho" not in sampled_texts(made.token_ids, made.is_sampled)


def test_several_results_in_one_message_do_not_shift_the_others() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{**call, "id": "a"}, {**call, "id": "b"}]},
        {
            "role": "tool",
            "content": [{"id": "a", "content": "one"}, {"id": "b", "content": "two"}],
        },
        {"role": "assistant", "content": "ho"},
        *LATE[2:],
    ]
    made = chat_sequence(messages, start_date=DATE)
    owners = {
        ENCODING.decode([token]): owner
        for token, owner in zip(made.token_ids, made.messages, strict=True)
    }
    assert [owners[text] for text in ("one", "two", "ho", "sal")] == [2, 2, 3, 6]
    assert "ho" not in sampled_texts(made.token_ids, made.is_sampled)


def test_a_sequence_needs_an_assistant_at_its_end() -> None:
    with pytest.raises(ConversationError, match="render a prompt instead"):
        chat_sequence(chat("u"))


def test_calls_are_read_with_their_tokens() -> None:
    messages = chat("suc")
    prompt = server_prompt(messages[:-1])
    completion = chat_sequence(messages, TOOLS, start_date=DATE).token_ids[len(prompt) :]
    read = read_completion(completion, TOOLS)
    ((start, end),) = read.spans
    assert ENCODING.decode(completion[start:end]).startswith("<|start|>assistant<|channel|>comment")
    assert (end, read.is_stopped) == (len(completion), True)
    assert read.chat_message["reasoning"] == "a call"
    assert not read_completion([]).is_stopped


# With the packages


def test_the_renderer_of_primeintellect() -> None:
    renderers = pytest.importorskip("renderers", reason="renderers is not installed")
    path = "gpt_oss_harmony.training.trainers.renderers.HarmonyRenderer"
    config = renderers.CustomRendererConfig(import_path=path, conversation_start_date=DATE)
    renderer = renderers.create_renderer(None, config)
    assert isinstance(renderer, renderers.Renderer)
    for letters in CHATS:
        messages = chat(letters)
        rendered = renderer.render(messages, tools=TOOLS, add_generation_prompt=True)
        assert rendered.token_ids == server_prompt(messages)
        assert rendered.message_roles == [message["role"] for message in messages]
    messages = chat("sucrf")
    prompt = server_prompt(messages[:2])
    sample = renderers.build_training_sample(renderer, messages, tools=TOOLS)
    masked = zip(sample.token_ids, sample.loss_mask, strict=True)
    example = row_examples({"messages": messages, "tools": NESTED}, start_date=DATE)[1].examples[-1]
    assert sample.token_ids == example.input_ids
    assert [token for token, mask in masked if mask] == [t for t in example.labels if t != IGNORED]
    # A call, and the next turn after it.
    called = renderers.build_training_sample(renderer, messages[:3], tools=TOOLS).token_ids
    completion = called[len(prompt) :]
    parsed = renderer.parse_response(completion, tools=TOOLS, prompt_ids=prompt)
    assert (parsed.reasoning_content, parsed.content) == ("a call", "")
    assert [(call.name, call.arguments) for call in parsed.tool_calls] == [("f", {"a": 1})]
    bridge = renderer.bridge_to_next_turn(prompt, completion, [messages[3]], tools=TOOLS)
    assert bridge.token_ids == server_prompt(messages[:4])
    answer = sample.token_ids[len(bridge.token_ids) :]
    assert renderer.bridge_to_next_turn(bridge.token_ids, answer, [ASKED], tools=TOOLS) is None
    cut = renderer.bridge_to_next_turn(prompt, completion[:-1], [messages[3]], tools=TOOLS)
    assert cut.token_ids == bridge.token_ids
    broken = renderer.parse_response(
        ENCODING.encode(
            "<|channel|>commentary to=functions.f<|message|>{<|call|>", allowed_special="all"
        )
    )
    assert [call.status.value for call in broken.tool_calls] == ["invalid_json"]
    with pytest.raises(ValueError, match="thinking_retention"):
        renderers.create_renderer(
            None, renderers.CustomRendererConfig(import_path=path, thinking_retention="all")
        )


def test_the_renderer_of_tinker() -> None:
    base = pytest.importorskip("tinker_cookbook.renderers.base", reason="it is not installed")
    from gpt_oss_harmony.training.trainers.tinker import HarmonyRenderer

    renderer = HarmonyRenderer(start_date=DATE)
    opening = renderer.create_conversation_prefix_with_tools(TOOLS, "Be brief.")
    asked = [*opening, ASKED]
    prompt = renderer.build_generation_prompt(asked).to_ints()
    assert prompt == server_prompt(chat("su"))
    messages = chat("sucrf")
    tokens = chat_sequence(messages, TOOLS, start_date=DATE).token_ids
    parsed, ended = renderer.parse_response(
        chat_sequence(messages[:3], TOOLS, start_date=DATE).token_ids[len(prompt) :]
    )
    assert ended is base.ParseTermination.STOP_SEQUENCE
    assert parsed["content"] == [{"type": "thinking", "thinking": "a call"}]
    said = [*asked, parsed, {"role": "tool", "name": "f", "content": "{}"}]
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ho"}]
    said.append({"role": "assistant", "content": parts})
    made, weights = renderer.build_supervised_example(said, base.TrainOnWhat.LAST_ASSISTANT_TURN)
    example = row_examples({"messages": messages, "tools": NESTED}, start_date=DATE)[1].examples[-1]
    assert made.to_ints() == tokens == example.input_ids
    assert weights.tolist() == example.assistant_masks()
    several = [*said, ASKED, said[-1]]
    everything = base.TrainOnWhat.ALL_ASSISTANT_MESSAGES
    assert len(renderer.build_supervised_examples(several, everything)) == 2
    with pytest.raises(ValueError, match="2 sequences"):
        renderer.build_supervised_example(several, everything)
    with pytest.raises(ValueError, match="never sampled"):
        renderer.build_supervised_examples(said, base.TrainOnWhat.ALL_TOKENS)
    late = renderer.build_supervised_examples(LATE, everything)
    expected = row_examples({"messages": LATE}, start_date=DATE)[1].examples
    assert [sequence.to_ints() for sequence, _ in late] == [one.input_ids for one in expected]
    assert [mask.tolist() for _, mask in late] == [one.assistant_masks() for one in expected]
    assert len(late) == 2
    _, ended = renderer.parse_response(prompt[-2:])
    assert ended is base.ParseTermination.MALFORMED


@settings(max_examples=examples(50))
@given(st.lists(st.integers(199998, 200020) | st.integers(0, 200), max_size=20))
def test_any_completion_is_read(tokens: list[int]) -> None:
    read = read_completion(tokens, TOOLS)
    assert len(read.spans) == len(read.chat_message.get("tool_calls", ()))
    assert all(0 <= start <= end <= len(tokens) for start, end in read.spans)
