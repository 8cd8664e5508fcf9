"""Answers whose beginning the client sends (prefill): the model goes on with them, in each API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import pytest
from openai import BadRequestError, OpenAI

from gpt_oss_harmony import Role
from gpt_oss_harmony.apis import ChatRequest, MessagesRequest, TurnReader, turn_of_messages
from gpt_oss_harmony.apis.chat.request import turn_of_chat
from gpt_oss_harmony.apis.constraint import compiled_constraint
from gpt_oss_harmony.apis.items import ItemEnded
from gpt_oss_harmony.grammar import find_mismatch
from support.chat_server import NOW
from support.scripted_engine import ENCODING, ScriptedEngine
from support.served import serving

HI = {"role": "user", "content": "hi"}
BEGUN = "<|start|>assistant<|channel|>final<|message|>"
CONTINUE: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}

# What the client sends, and what the model samples: also beginnings that the parser would hold
# back, because in a damaged header they could be a recipient or a type.
BEGINNINGS = {
    "a text": ("The sum of 2 and 2 is", " 4.<|return|>"),
    "JSON": ("{", '"sum": 4}<|return|>'),
    "nothing": ("", "4.<|return|>"),
    "the end": ("It is 4.", "<|return|>"),
    "code": ("code", " is poetry.<|return|>"),
    "json": ("json", " it is not.<|return|>"),
    "to": ("to", " be or not<|return|>"),
    "to=": ("to=", "be or not<|return|>"),
    "a recipient": ("to=functions.now", " is a name.<|return|>"),
    "half a character": ("A 🏰 in the", " 🙈🏰.<|return|>"),
    "a special token in letters": ("<|end|>", " is a token<|return|>"),
}


def by_messages(url: str, text: str, *, streams: bool) -> tuple[str, int]:
    root = url.removesuffix("/v1")
    said: list[Any] = [HI, {"role": "assistant", "content": text}]
    asked: dict[str, Any] = {"model": "script", "max_tokens": 99, "messages": said}
    client: Any
    with anthropic.Anthropic(base_url=root, api_key="none", max_retries=0) as client:
        if streams:
            with client.messages.stream(**asked) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**asked)
    assert message.stop_reason == "end_turn"
    return "".join(block.text for block in message.content), message.usage.output_tokens


def by_chat(url: str, text: str, *, streams: bool) -> tuple[str, int]:
    said: list[Any] = [HI, {"role": "assistant", "content": text}]
    asked: dict[str, Any] = {"model": "script", "messages": said, "extra_body": CONTINUE}
    client: Any
    with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        if not streams:
            whole = client.chat.completions.create(**asked)
            return whole.choices[0].message.content or "", whole.usage.completion_tokens
        counted = {"include_usage": True}
        stream = client.chat.completions.create(**asked, stream=True, stream_options=counted)
        *chunks, last = list(stream)
    texts = (chunk.choices[0].delta.content for chunk in chunks)
    return "".join(filter(None, texts)), last.usage.completion_tokens


def by_ollama(url: str, text: str, *, streams: bool) -> tuple[str, int]:
    said = [HI, {"role": "assistant", "content": text}]
    body = {"model": "script", "messages": said, "stream": streams}
    answer = httpx.post(f"{url.removesuffix('/v1')}/api/chat", json=body)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return "".join(line["message"]["content"] for line in lines), lines[-1]["eval_count"]


@pytest.mark.parametrize("ask", [by_messages, by_chat, by_ollama])
def test_the_answer_is_what_comes_after_its_beginning(ask: Callable[..., tuple[str, int]]) -> None:
    # In Ollama's API an empty message begins no answer.
    cases = [case for case in BEGINNINGS.values() if case[0] or ask is not by_ollama]
    engine = ScriptedEngine(*(said for _, said in cases for _ in range(2)))
    with serving(engine) as url:
        for text, said in cases:
            rest = said.removesuffix("<|return|>")
            counted = len(ENCODING.encode(said, allowed_special="all"))
            assert ask(url, text, streams=False) == (rest, counted)
            assert ask(url, text, streams=True) == (rest, counted)
    for (text, _), prompt in zip(
        [case for case in cases for _ in range(2)], engine.prompts, strict=True
    ):
        assert prompt.endswith(f"hi<|end|>{BEGUN}{text}")


@pytest.mark.parametrize("form", ["json", {"type": "object"}, {}], ids=repr)
def test_a_form_in_ollamas_api_begins_a_new_message(form: Any) -> None:
    said = [HI, {"role": "assistant", "content": "Hello."}]
    body = {"model": "script", "messages": said, "stream": False, "format": form}
    engine = ScriptedEngine(f"{BEGUN.removeprefix('<|start|>assistant')}{{}}<|return|>")
    with serving(engine) as url:
        answer = httpx.post(f"{url.removesuffix('/v1')}/api/chat", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["message"]["content"] == "{}"
    assert engine.prompts[0].endswith(f"{BEGUN}Hello.<|end|><|start|>assistant")


def test_stop_texts_and_limits_count_what_is_sampled() -> None:
    said = [HI, {"role": "assistant", "content": "One, two"}]
    asked: dict[str, Any] = {"model": "script", "messages": said}
    client: Any
    with serving(ScriptedEngine(", three<|return|>", ", three, two.<|return|>")) as url:
        root = url.removesuffix("/v1")
        with anthropic.Anthropic(base_url=root, api_key="none", max_retries=0) as client:
            cut = client.messages.create(**asked, max_tokens=1)
            stopped = client.messages.create(**asked, max_tokens=99, stop_sequences=["two"])
    assert (cut.content[0].text, cut.stop_reason, cut.usage.output_tokens) == (",", "max_tokens", 1)
    assert (stopped.content[0].text, stopped.stop_sequence) == (", three, ", "two")


def test_reasoning_before_the_answer_stays() -> None:
    begun = {"role": "assistant", "reasoning": "2 + 2.", "content": "It is"}
    earlier = {"role": "assistant", "reasoning": "Past.", "content": "Hello."}
    turn = turn_of_chat(ChatRequest(messages=[HI, earlier, HI, begun], **CONTINUE))
    prompt = ENCODING.decode(turn.prompt())
    assert prompt.endswith(f"<|channel|>analysis<|message|>2 + 2.<|end|>{BEGUN}It is")
    assert "Past." not in prompt


def test_the_tokens_of_the_message_are_those_of_prompt_and_answer() -> None:
    said = [HI, {"role": "assistant", "content": "It is"}]
    turn = turn_of_messages(MessagesRequest(messages=said))
    reader = TurnReader(turn, new_id=str)
    tokens = ENCODING.encode(" 4.<|return|>", allowed_special="all")
    ended: Any
    last: Any
    *_, ended, last = [event for token in tokens for event in reader.take(token)]
    whole = [*turn.begun_tokens(), *tokens]
    (message,) = ENCODING.parse_messages_from_completion_tokens(whole, Role.ASSISTANT)
    assert (ended.message.text, list(ended.message.sampled_tokens)) == (message.text, whole)
    assert list(last.tokens) == tokens


@pytest.mark.parametrize("begun", [text for text, _ in BEGINNINGS.values()])
@pytest.mark.parametrize("stop", [[], ["!"]], ids=["to the end", "to a stop text"])
def test_the_message_has_the_beginning_and_the_events_have_not(begun: str, stop: list[str]) -> None:
    said = [HI, {"role": "assistant", "content": begun}]
    turn = turn_of_messages(MessagesRequest(messages=said, stop_sequences=stop))
    reader = TurnReader(turn, new_id=str)
    text = " is what I say" + ("! No." if stop else "<|return|>")
    tokens = ENCODING.encode(text, allowed_special="all")
    ended: Any
    *_, ended, _ = [event for token in tokens for event in reader.take(token)]
    assert ended.text == " is what I say"
    assert ended.message.text == f"{begun} is what I say"


@pytest.mark.parametrize("begun", ["to=functions.now", "to=now {", "json", "assistant", "It is"])
def test_what_the_client_wrote_is_no_header(begun: str) -> None:
    """Without a grammar the model may write `<|message|>` once more; the text before is a text."""
    said = [HI, {"role": "assistant", "content": begun}]
    turn = turn_of_chat(ChatRequest(messages=said, tools=[NOW], **CONTINUE))
    for text, shown in {'<|message|>{"a": 1}<|call|>': '{"a": 1}', "<|channel|>final": ""}.items():
        reader = TurnReader(turn, new_id=str)
        tokens = ENCODING.encode(f"{text}<|return|>", allowed_special="all")
        events = [event for token in tokens for event in reader.take(token)]
        ended: Any = next(event for event in events if isinstance(event, ItemEnded))
        assert (ended.text, ended.message.text) == (shown, begun + shown)
        assert (ended.message.channel, ended.message.recipient) == ("final", None)


def test_recoveries_point_at_the_tokens_of_the_answer() -> None:
    said = [HI, {"role": "assistant", "content": "It is"}]
    reader = TurnReader(turn_of_messages(MessagesRequest(messages=said)), new_id=str)
    text = " 4.<|channel|>final<|message|>Five.<|return|>"
    tokens = ENCODING.encode(text, allowed_special="all")
    last: Any
    *_, last = [event for token in tokens for event in reader.take(token)]
    found = [ENCODING.decode([last.tokens[one.position]]) for one in last.recoveries]
    assert set(found) == {"<|message|>"}  # which ends the repaired header


def test_a_begun_answer_has_no_calls() -> None:
    said = [HI, {"role": "assistant", "content": "It is"}]
    turn = turn_of_chat(ChatRequest(messages=said, tools=[NOW], **CONTINUE))
    grammar = compiled_constraint(turn, 100).grammar
    for text, is_allowed in {
        " 4.<|return|>": True,
        "<|return|>": True,
        " 4.<|end|><|start|>assistant<|channel|>commentary to=functions.now": False,
        " 4.<|call|>": False,
    }.items():
        mismatch = find_mismatch(grammar, ENCODING.encode(text, allowed_special="all"))
        assert (mismatch is None) is is_allowed, text


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a user's message": ({"messages": [HI], **CONTINUE}, "only a text by the assistant"),
    "no beginning": ({"add_generation_prompt": False}, "send true for a new message"),
    "a new message": (
        {"continue_final_message": True, "add_generation_prompt": True}, "send true for a new"),
    "a form": (
        {"response_format": {"type": "json_object"}, **CONTINUE}, "cannot be enforced after"),
    "a call": ({"tools": [NOW], "tool_choice": "required", **CONTINUE}, "a call is required, but"),
}  # fmt: skip


def test_wrong_requests() -> None:
    begun = {"messages": [HI, {"role": "assistant", "content": "It is"}]}
    with serving(ScriptedEngine()) as url, OpenAI(base_url=url, api_key="none") as client:
        for name, (fields, problem) in WRONG.items():
            with pytest.raises(BadRequestError) as caught:
                client.post("/chat/completions", cast_to=object, body={**begun, **fields})
            assert problem in str(caught.value), name
