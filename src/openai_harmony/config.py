"""Options for rendering: which messages are dropped, and which spellings are used."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel

__all__ = [
    "HeaderStyle",
    "ReasoningRule",
    "RenderConversationConfig",
    "RenderOptions",
    "SchemaDialect",
]

HeaderStyle: TypeAlias = Literal["reference", "guide", "oss-harmony"]
"""The spelling of a header with a recipient; see `openai_harmony.rendering.headers`."""

SchemaDialect: TypeAlias = Literal["typescript", "reference"]
"""How a JSON Schema is written as a type: without loss, or with the bytes of the reference."""

ReasoningRule: TypeAlias = Literal["reference", "by-turn"]
"""Which past reasoning is dropped; see `openai_harmony.rendering.history`."""


class RenderConversationConfig(BaseModel):
    """Options for rendering a conversation.

    `auto_drop_analysis` drops past reasoning by the `reasoning_rule`. ``reference``: what stands
    before the first ``final`` message, if the assistant's last message is ``final``. ``by-turn``:
    the reasoning of every turn that ended in an answer, as the server and training drop it.
    """

    auto_drop_analysis: bool = True
    reasoning_rule: ReasoningRule = "reference"
    schema_dialect: SchemaDialect = "typescript"
    header_style: HeaderStyle = "reference"


class RenderOptions(BaseModel):
    """Options for rendering one message.

    `conversation_has_function_tools` adds the line on function calls to a system message.
    """

    conversation_has_function_tools: bool = False
    schema_dialect: SchemaDialect = "typescript"
    header_style: HeaderStyle = "reference"
