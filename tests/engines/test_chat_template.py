"""The chat template gives the library's tokens, or an exception that names the problem."""

from __future__ import annotations

import json
import re
from importlib import resources
from random import Random
from typing import Any, NoReturn

import pytest

from gpt_oss_harmony import HeaderStyle, RenderConversationConfig, Role, load_harmony_encoding
from gpt_oss_harmony.apis.chat.input import conversation_from_chat
from gpt_oss_harmony.conversation.built_in_tools import BUILT_IN_TOOLS
from gpt_oss_harmony.tokens.special_tokens import HUB_SPELLINGS, SPECIAL_TEXTS
from support.examples import examples
from support.random_chats import ChatMaker, ToolSchemaMaker

pytest.importorskip("jinja2")

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

ENCODING = load_harmony_encoding("HarmonyGptOss")
SOURCE = (
    (resources.files("gpt_oss_harmony") / "data" / "demo_model" / "chat_template.jinja")
    .read_text(encoding="utf-8")
)  # fmt: skip


class Refusal(Exception):
    """The template called ``raise_exception``."""


def _refuse(message: str) -> NoReturn:
    raise Refusal(message)


def _environment() -> ImmutableSandboxedEnvironment:
    """Set Jinja up as Transformers does."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _refuse
    return environment


TEMPLATE = _environment().from_string(SOURCE)


def templated(chat: dict[str, Any], **options: Any) -> list[int]:
    """Return the tokens that a tokenizer of the hub makes of the template's text."""
    text = TEMPLATE.render(**chat, add_generation_prompt=True, **options)
    for spelling, token in HUB_SPELLINGS.items():
        text = text.replace(spelling, SPECIAL_TEXTS[token])
    return ENCODING.encode(text, allowed_special="all")


def rendered(
    chat: dict[str, Any],
    date: str | None = None,
    style: HeaderStyle = "guide",
    drops: bool = True,
) -> list[int]:
    """Return the prompt by the server's rule for past reasoning."""
    config = RenderConversationConfig(
        reasoning_rule="by-turn", header_style=style, auto_drop_analysis=drops
    )
    conversation = conversation_from_chat(chat, conversation_start_date=date)
    return ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT, config)


def test_any_chat_has_our_tokens() -> None:
    for seed in range(examples(1_500)):
        chance = Random(seed)
        chat = ChatMaker(chance).chat()
        date = chance.choice([None, "2025-06-28"])
        style: HeaderStyle = chance.choice(["guide", "reference"])
        drops = chance.random() < 0.8
        theirs = templated(
            chat, conversation_start_date=date, header_style=style, auto_drop_analysis=drops
        )
        assert theirs == rendered(chat, date, style, drops), chat


def test_no_text_of_any_chat_becomes_a_special_token() -> None:
    texts = [*SPECIAL_TEXTS.values(), *HUB_SPELLINGS]
    named = [text for text in texts if "reserved" not in text]
    reasons: set[str] = set()
    for seed in range(examples(700)):
        chance = Random(seed)
        chat = ChatMaker(chance, [*named, chance.choice(texts)]).chat()
        try:
            theirs = templated(chat)
        except Refusal as refusal:
            reasons.add(f"{refusal}".partition(", ")[0])
        else:
            assert theirs == rendered(chat), chat
    assert reasons == {"the text spells a special token"}


def test_each_special_token_is_refused_as_text() -> None:
    for text in (*SPECIAL_TEXTS.values(), *HUB_SPELLINGS):
        with pytest.raises(Refusal, match="special token"):
            templated({"messages": [{"role": "user", "content": f"a{text}b"}]})


def test_the_template_lists_the_special_tokens() -> None:
    texts = [*SPECIAL_TEXTS.values(), *HUB_SPELLINGS]
    names = {re.sub(r"^<\|(reserved_2)?.*", r"\1", t) or t.removeprefix("<|") for t in texts}
    (listed,) = re.findall(r"macro plain.*?for name in (\[.*?\])", SOURCE, re.DOTALL)
    assert sorted(json.loads(listed)) == sorted(names)


def _with_tool(parameters: Any) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    return {"messages": [{"role": "user", "content": "hi"}], "tools": [tool]}


@pytest.mark.parametrize(("junk", "least"), [(0.0, 0.5), (0.1, 0.4)])
def test_schemas_of_tools_have_our_tokens_or_are_refused(junk: float, least: float) -> None:
    count = examples(1_000)
    written = 0
    reasons: set[str] = set()
    for seed in range(count):
        made = ToolSchemaMaker(Random(seed), junk).schema(3)
        chat = _with_tool({"type": "object", "properties": {"a": made}})
        try:
            theirs = templated(chat)
        except Refusal as refusal:
            reasons.add(str(refusal))
            continue
        written += 1
        assert theirs == rendered(chat), made
    assert written > least * count
    assert all("cannot write" in reason or "the number" in reason for reason in reasons)


FOUND = [
    {"oneOf": [{"type": "string", "description": "One. "}, {"type": "null", "description": " "}]},
    {"enum": ["a", "a"]},
    {"anyOf": [{"enum": ["a", "a"]}, {"enum": ["a", None]}]},
    {"type": "object", "additionalProperties": {"type": ["integer", "number"]}},
    {"type": "object", "additionalProperties": {"enum": [], "nullable": True}},
    {"anyOf": [{"type": ["null"]}, {"type": "string"}]},
    {"anyOf": [{"type": "string", "description": "x"}, {"type": "null"}], "oneOf": []},
    {"anyOf": [True, {"type": "null"}]},
]


@pytest.mark.parametrize("schema", FOUND, ids=json.dumps)
def test_schemas_that_once_had_other_tokens(schema: Any) -> None:
    chat = _with_tool({"type": "object", "properties": {"a": schema}})
    assert templated(chat) == rendered(chat)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "enum", "examples"])
@pytest.mark.parametrize("value", [1, True, "x", {"a": 1}])
def test_keywords_that_are_no_lists_are_refused(keyword: str, value: Any) -> None:
    for schema in ({keyword: value}, {"properties": {"a": {keyword: value}}}):
        with pytest.raises(Refusal, match=f"cannot write {keyword} that is no list|as a tool's"):
            templated(_with_tool(schema))


@pytest.mark.parametrize(
    "content",
    [None, 1, {"type": "text", "text": "x"}, [{"type": "image_url"}], [{"type": "text"}], [None]],
)
def test_content_that_is_no_text_is_refused(content: Any) -> None:
    function = {"name": "f", "arguments": {}}
    calls = [{"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}]
    for role in ("system", "developer", "user", "tool"):
        message = {"role": role, "content": content, "tool_call_id": "1"}
        with pytest.raises(Refusal, match="expected text"):
            templated({"messages": [*(calls if role == "tool" else []), message]})


def test_calls_without_arguments_are_refused() -> None:
    call = {"id": "1", "function": {"name": "f"}}
    with pytest.raises(Refusal, match="a call of f needs arguments"):
        templated({"messages": [{"role": "assistant", "tool_calls": [call]}]})


@pytest.mark.parametrize("name", ["日本", "ü", "a日"])
def test_names_of_users_that_jinja_cannot_read_are_refused(name: str) -> None:
    with pytest.raises(Refusal, match="the name"):
        templated({"messages": [{"role": "user", "content": "hi", "name": name}]})


def test_tools_of_one_name_that_differ_are_refused() -> None:
    tools = [{"function": {"name": "f", "description": about}} for about in ("a", "b")]
    with pytest.raises(Refusal, match="the tool f is declared twice"):
        templated({"messages": [{"role": "user", "content": "hi"}], "tools": tools})


def test_the_names_of_built_in_tools_are_known() -> None:
    for name in ("functions", "container", "get", *BUILT_IN_TOOLS):
        call = {"id": "1", "function": {"name": name, "arguments": "{}"}}
        chat = {"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
        assert templated(chat) == rendered(chat)
