"""The law: what a parser returns can be rendered, as it is or after a change that is named."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Author,
    Conversation,
    HarmonyError,
    Message,
    RenderConversationConfig,
    Role,
    load_harmony_encoding,
    renderable_messages,
)
from support.examples import examples

ENCODING = load_harmony_encoding("HarmonyGptOss")
PIECES = [
    *("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>"),
    *("<|call|>", "assistant", "user", "tool", "analysis", "commentary", "final", "json", "{}"),
    *(" to=functions.f", " to=", "to=to=functions.f", " to=a=b", "a=b", "functions.f", " to=f<|"),
    *(
        "functions.g:x",
        ":",
        "<",
        "=",
        " ",
        "\n",
        "é",
        "🏰",
        "天",
        "\u200b",
        "\x85",
        "browser.search",
    ),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def parsed(text: str, role: Role | None, strict: bool) -> list[Message]:
    tokens = ENCODING.encode(text, allowed_special="all")
    try:
        return ENCODING.parse_messages_from_completion_tokens(
            tokens, role, strict=strict, tools=("functions.f",)
        )
    except HarmonyError:
        return []


@settings(max_examples=examples(2000), deadline=None)
@given(TEXTS, st.sampled_from([None, Role.ASSISTANT]), st.booleans())
@example("<|channel|>commentary to=a=b<|message|>{}<|call|>", Role.ASSISTANT, True)
@example("<|start|>assistant to=<|constrain|><|message|>{}<|call|>", None, True)
def test_what_is_parsed_can_be_rendered(text: str, role: Role | None, strict: bool) -> None:
    messages = parsed(text, role, strict)
    renderable, changes = renderable_messages(messages)
    for style in ("reference", "guide", "oss-harmony"):
        config = RenderConversationConfig(header_style=style)
        ENCODING.render_conversation(Conversation.from_messages(renderable), config)
    changed = {change.message for change in changes}
    assert [m for i, m in enumerate(messages) if i not in changed] == [
        m for i, m in enumerate(renderable) if i not in changed
    ]
    for message, again in zip(messages, renderable, strict=True):
        assert again.content == message.content
        assert again.author.role is message.author.role
    assert renderable_messages(renderable) == (renderable, [])


@pytest.mark.parametrize(
    "header", ["commentary to=to=functions.f", "commentary to=to=to=functions.f json"]
)
def test_a_recipient_that_begins_twice_is_read_right(header: str) -> None:
    (call,) = parsed(f"<|channel|>{header}<|message|>{{}}<|call|>", Role.ASSISTANT, strict=False)
    assert call.recipient == "functions.f"
    assert renderable_messages([call]) == ([call], [])


CHANGED = [
    ({"recipient": "to=f"}, "recipient", "to_f"),
    ({"recipient": "a b"}, "recipient", "a_b"),
    ({"channel": "fi<nal"}, "channel", "fi_nal"),
    ({"content_type": "<|constrain|>js=on"}, "content_type", "<|constrain|>js_on"),
    ({"content_type": ""}, "content_type", None),
]


@pytest.mark.parametrize(("fields", "field", "after"), CHANGED)
def test_changes_are_named(fields: dict[str, str], field: str, after: str | None) -> None:
    message = Message.from_role_and_content(Role.ASSISTANT, "x").model_copy(update=fields)
    (renamed,), ((index, name, before, new),) = renderable_messages([message])
    assert (index, name, before, new) == (0, field, fields[field], after)
    assert getattr(renamed, field) == after


@pytest.mark.parametrize(("name", "after"), [(None, "tool"), ("system", "system_"), ("a b", "a_b")])
def test_the_author_of_a_result(name: str | None, after: str) -> None:
    author = Author(role=Role.TOOL, name=name)
    message = Message.from_author_and_content(author, "1")
    (renamed,), _ = renderable_messages([message])
    assert renamed.author.name == after
    ENCODING.render(renamed)
