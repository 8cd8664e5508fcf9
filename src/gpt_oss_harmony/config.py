"""The options of rendering."""

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
"""The spelling of a message header with a recipient.

- ``reference``: ``assistant to=functions.f<|channel|>commentary json``, as openai-harmony 0.0.8
- ``guide``: ``assistant<|channel|>commentary to=functions.f <|constrain|>json``
- ``oss-harmony``: the spelling of the fork
"""

SchemaDialect: TypeAlias = Literal["typescript", "reference"]
"""How a JSON Schema becomes a TypeScript type.

``typescript`` writes correct TypeScript; ``reference`` writes the bytes of openai-harmony 0.0.8.
"""

ReasoningRule: TypeAlias = Literal["reference", "by-turn"]
"""Which past reasoning a prompt leaves out.

- ``reference``: if the assistant's last message is on ``final``, all ``analysis`` messages before
  the first ``final`` message
- ``by-turn``: the reasoning of every turn that ended in an answer; the server and the training
  data use this rule
"""


class RenderConversationConfig(BaseModel):
    """Options for rendering a conversation.

    If `auto_drop_analysis` is true, past reasoning is left out by the `reasoning_rule`.
    `schema_dialect` and `header_style` choose how tools and headers are spelled.
    """

    auto_drop_analysis: bool = True
    reasoning_rule: ReasoningRule = "reference"
    schema_dialect: SchemaDialect = "typescript"
    header_style: HeaderStyle = "reference"


class RenderOptions(BaseModel):
    """Options for rendering one message.

    If `conversation_has_function_tools` is true, a system message states the channel of function
    calls. `schema_dialect` and `header_style` choose how tools and headers are spelled.
    """

    conversation_has_function_tools: bool = False
    schema_dialect: SchemaDialect = "typescript"
    header_style: HeaderStyle = "reference"
