"""The harmony response format of gpt-oss: conversations to tokens, tokens to messages.

The layers, each importing only those above it::

    errors, special_tokens                what can go wrong; the markers
    tool_namespaces → content → messages  a conversation as Python objects and JSON
    typescript → prompt                   system and developer contents as prompt text
    vocabulary → tokenizer                text to token ids and back
    header → header_styles → render       messages to tokens, message by message
    machine → rules → parser              tokens to messages, strict or lenient
    encoding                              all of it behind one object
"""

from typing import TYPE_CHECKING, Any

from .config import HeaderStyle, RenderConversationConfig, RenderOptions, SchemaDialect
from .content import (
    ChannelConfig,
    Content,
    DeveloperContent,
    ReasoningEffort,
    ResponseFormat,
    SystemContent,
    TextContent,
)
from .encoding import HarmonyEncoding, HarmonyEncodingName, load_harmony_encoding
from .errors import ConversationError, HarmonyError, SchemaError, TokenError, VocabularyError
from .machine import ContentDelta, StreamState
from .messages import Author, Conversation, Message, Role
from .parser import StreamableParser
from .recovery import Recovery, RecoveryKind
from .segments import Segment, SegmentKind
from .tool_namespaces import ToolDescription, ToolNamespaceConfig

if TYPE_CHECKING:
    from .typescript import schema_to_typescript

__all__ = [
    "Author",
    "ChannelConfig",
    "Content",
    "ContentDelta",
    "Conversation",
    "ConversationError",
    "DeveloperContent",
    "HarmonyEncoding",
    "HarmonyEncodingName",
    "HarmonyError",
    "HeaderStyle",
    "Message",
    "ReasoningEffort",
    "Recovery",
    "RecoveryKind",
    "RenderConversationConfig",
    "RenderOptions",
    "ResponseFormat",
    "Role",
    "SchemaDialect",
    "SchemaError",
    "Segment",
    "SegmentKind",
    "StreamState",
    "StreamableParser",
    "SystemContent",
    "TextContent",
    "TokenError",
    "ToolDescription",
    "ToolNamespaceConfig",
    "VocabularyError",
    "load_harmony_encoding",
    "schema_to_typescript",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what only some programs need when they ask for it."""
    if name == "schema_to_typescript":
        from .typescript import schema_to_typescript

        return schema_to_typescript
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
