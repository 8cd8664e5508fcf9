"""The response template: Transformers' own parser reads with it what the model writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer
from transformers.cli.serving.utils import parse_assistant_message
from transformers.utils.chat_parsing.response_parser import ResponseParser, parse_response

from gpt_oss_harmony import Conversation, Message, RenderConversationConfig, Role
from gpt_oss_harmony.cli import main
from gpt_oss_harmony.config import HeaderStyle
from gpt_oss_harmony.engines.tokenizer_files import (
    RESPONSE_TEMPLATE,
    tokenizer_config,
    tokenizer_json,
)
from support.strategies import ENCODING, STYLES, laws

NEXT = "<|end|><|start|>assistant"
PROMPT = "<|start|>user<|message|>2 + 2?<|end|><|start|>assistant"


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


COMPLETIONS: dict[str, dict[str, Any]] = {
    "<|channel|>final<|message|> 4.\n<|return|>": {"content": " 4.\n"},
    f"<|channel|>analysis<|message|>a < b{NEXT}<|channel|>final<|message|>4<|return|>": {
        "thinking": "a < b",
        "content": "4",
    },
    '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>': {
        "tool_calls": [call("f", {"a": 1})]
    },
    ' to=functions.f<|channel|>commentary json<|message|>{"a": 1}<|call|>': {
        "tool_calls": [call("f", {"a": 1})]
    },
    "<|channel|>analysis to=python code<|message|>print(4)<|call|>": {
        "tool_calls": [call("python", "print(4)")]
    },
    f"<|channel|>commentary<|message|>I look.{NEXT}<|channel|>commentary"
    ' to=functions.f <|constrain|>json<|message|>{"a": cut': {
        "content": "I look.",
        "tool_calls": [call("f", '{"a": cut')],
    },
    f"<|channel|>analysis<|message|>One.{NEXT}<|channel|>analysis<|message|>Two.": {
        "thinking": "One.\n\nTwo."
    },
    '<|channel|>final <|constrain|>json<|message|>{"a": 1}<|return|>': {"content": '{"a": 1}'},
}


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_completions(completion: str) -> None:
    meant = {"role": "assistant", **COMPLETIONS[completion]}
    assert parse_response(completion, RESPONSE_TEMPLATE, prefix=PROMPT) == meant
    parser = ResponseParser(RESPONSE_TEMPLATE, prefix=PROMPT)
    for character in completion:
        parser.feed(character)
    assert parser.finalize()[0] == meant


plain_texts = st.text("ab <>|{}\n.é", min_size=1, max_size=12).filter(lambda text: "<|" not in text)
objects = st.dictionaries(st.text("ab", min_size=1), st.integers() | plain_texts, max_size=2)


@laws
@given(
    st.none() | plain_texts,
    st.none() | plain_texts,
    st.none() | st.tuples(st.sampled_from(["f", "get_weather"]), objects),
    st.sampled_from(STYLES),
)
def test_what_we_render_is_read_back(
    reasoning: str | None,
    answer: str | None,
    called: tuple[str, dict[str, Any]] | None,
    style: HeaderStyle,
) -> None:
    messages: list[Message] = []
    meant: dict[str, Any] = {"role": "assistant"}
    if reasoning is not None:
        messages.append(Message.from_role_and_content(Role.ASSISTANT, reasoning))
        messages[-1].with_channel("analysis")
        meant["thinking"] = reasoning
    if answer is not None:
        messages.append(Message.from_role_and_content(Role.ASSISTANT, answer))
        messages[-1].with_channel("final" if called is None else "commentary")
        meant["content"] = answer
    if called is not None:
        name, arguments = called
        messages.append(Message.from_role_and_content(Role.ASSISTANT, json.dumps(arguments)))
        messages[-1].with_channel("commentary").with_recipient(f"functions.{name}")
        messages[-1].with_content_type("<|constrain|>json")
        meant["tool_calls"] = [call(name, arguments)]
    config = RenderConversationConfig(auto_drop_analysis=False, header_style=style)
    tokens = ENCODING.render_conversation(Conversation.from_messages(messages), config)
    completion = ENCODING.decode(tokens).removeprefix("<|start|>assistant")
    assert parse_response(completion, RESPONSE_TEMPLATE, prefix=PROMPT) == meant


@pytest.mark.slow
def test_transformers_serve_reads_the_template_in_a_models_folder(tmp_path: Path) -> None:
    config = tokenizer_config()
    del config["response_template"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_json()), encoding="utf-8")
    assert main(["template", "response", "--output", str(tmp_path)]) == 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
    text += 'to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>'
    generated, prompt = (ENCODING.encode(part, allowed_special="all") for part in (text, PROMPT))
    model: Any = None  # asked for its type where the tokenizer has no template
    content, reasoning, calls = parse_assistant_message(tokenizer, model, generated, prompt)
    assert (content, reasoning) == ("", "Hm.")
    assert [(call.name, call.arguments) for call in calls or ()] == [("f", '{"a": 1}')]
