"""Halves of characters: texts keep their place, schemas are refused."""

from __future__ import annotations

from typing import Any, get_args
from unittest.mock import patch

import pytest

from gpt_oss_harmony import (
    Author,
    DeveloperContent,
    Message,
    Role,
    SchemaDialect,
    SchemaError,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.rendering.system_prompt import tool_declaration
from gpt_oss_harmony.tokens import tiktoken_core
from gpt_oss_harmony.tokens.special_tokens import END

ENCODING = load_harmony_encoding("HarmonyGptOss")
DIALECTS: tuple[SchemaDialect, ...] = get_args(SchemaDialect)
LONE = "a\ud83c"


def test_lone_surrogates_are_encoded_as_replacement_characters() -> None:
    assert ENCODING.encode(LONE) == ENCODING.encode("a\ufffd")
    assert ENCODING.encode("\ud83c\udff0") == ENCODING.encode("🏰")
    assert ENCODING.encode(LONE + "<|end|>\udff0", allowed_special="all") == [
        *ENCODING.encode("a\ufffd"),
        END,
        *ENCODING.encode("\ufffd"),
    ]
    with patch.object(tiktoken_core, "WHITE_LIMIT", 2):
        text = LONE + "   \udff0   \ud83c\udff0  "
        assert ENCODING.encode(text) == ENCODING.encode("a\ufffd   \ufffd   🏰  ")


def test_lone_surrogates_are_rendered_as_replacement_characters() -> None:
    message = (
        Message.from_author_and_content(Author.new(Role.TOOL, LONE), LONE)
        .with_channel(LONE)
        .with_recipient(LONE)
        .with_content_type(LONE)
    )
    tokens = ENCODING.render(message)
    assert ENCODING.decode_utf8(tokens).count("a\ufffd") == 5
    assert ENCODING.parse_messages_from_completion_tokens(tokens, strict=False)
    content = (
        DeveloperContent.new()
        .with_instructions(LONE)
        .with_function_tools([ToolDescription.new(LONE, LONE, {"type": "object"})])
    )
    assert ENCODING.render(Message.from_role_and_content(Role.DEVELOPER, content))
    system = SystemContent.new().with_model_identity(LONE).with_required_channels([LONE])
    assert ENCODING.render(Message.from_role_and_content(Role.SYSTEM, system))


@pytest.mark.parametrize("schema", [{"description": LONE}, {LONE: 1}, {"enum": [[LONE]]}])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_lone_surrogates_in_schemas_are_refused(
    schema: dict[str, Any], dialect: SchemaDialect
) -> None:
    with pytest.raises(SchemaError, match="lone surrogate"):
        tool_declaration(ToolDescription.new("f", "", schema), dialect)
    for content, field in (
        (DeveloperContent.new().with_response_format("f", schema), "response_formats/f#"),
        (
            DeveloperContent.new().with_function_tools([ToolDescription.new("f", "", schema)]),
            "tools/functions.f#",
        ),
    ):
        with pytest.raises(SchemaError, match="lone surrogate") as caught:
            ENCODING.render(Message.from_role_and_content(Role.DEVELOPER, content))
        assert caught.value.field == field
