"""The prompt format of gpt-oss: conversations to tokens, tokens to messages.

>>> encoding = load_harmony_encoding("HarmonyGptOss")
>>> conversation = Conversation.from_messages([Message.from_role_and_content("user", "2 + 2?")])
>>> prompt = encoding.render_conversation_for_completion(conversation, "assistant")
>>> encoding.decode(prompt)
'<|start|>user<|message|>2 + 2?<|end|><|start|>assistant'
>>> sampled = [200005, 17196, 200008, 19, 200002]  # <|channel|>final<|message|>4<|return|>
>>> (answer,) = encoding.parse_messages_from_completion_tokens(sampled, "assistant")
>>> answer.channel, answer.text
('final', '4')

The layers, each importing only those above it::

    installation, errors, config          checks of the installation, error classes, options
    conversation   tokens   typescript    messages, the tokenizer, JSON Schemas as TypeScript
    rendering      parsing                messages to tokens, tokens to messages
    encoding                              `HarmonyEncoding`: all of the core behind one object
    grammar                               a grammar for the whole assistant turn
    engines                               engines, which run models
    apis           tools                  the Responses and Chat Completions APIs as data; the
                                          built-in tools
    pipeline       training               one function that runs a model; training data
    web                                   origin checks and time limits of our servers
    inspector                             the page that shows tokens and messages
    server                                the APIs over HTTP
    cli                                   the command ``harmony``
"""

from typing import TYPE_CHECKING, Any

from .config import (
    HeaderStyle,
    ReasoningRule,
    RenderConversationConfig,
    RenderOptions,
    SchemaDialect,
)
from .conversation.content import (
    ChannelConfig,
    Content,
    DeveloperContent,
    ReasoningEffort,
    ResponseFormat,
    SystemContent,
    TextContent,
)
from .conversation.messages import Author, Conversation, Message, Role
from .conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from .encoding import HarmonyEncoding, HarmonyEncodingName, load_harmony_encoding
from .errors import (
    ConversationError,
    HarmonyError,
    PromptLengthError,
    SchemaError,
    TokenError,
    VocabularyError,
)
from .installation import VERSION
from .parsing.parser import StreamableParser
from .parsing.recovery import DamagedHeader, Recovery, RecoveryKind
from .parsing.state import ContentDelta, StreamState
from .rendering.headers import HeaderChange, renderable_messages
from .rendering.renderer import Segment, SegmentKind

if TYPE_CHECKING:
    from .typescript.writer import schema_to_typescript

__all__ = [
    "Author",
    "ChannelConfig",
    "Content",
    "ContentDelta",
    "Conversation",
    "ConversationError",
    "DamagedHeader",
    "DeveloperContent",
    "HarmonyEncoding",
    "HarmonyEncodingName",
    "HarmonyError",
    "HeaderChange",
    "HeaderStyle",
    "Message",
    "PromptLengthError",
    "ReasoningEffort",
    "ReasoningRule",
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
    "renderable_messages",
    "schema_to_typescript",
]

__version__ = VERSION


def __dir__() -> list[str]:
    """Name what is public, for completion; `vars` has the rest."""
    return [*__all__, "__all__", "__doc__", "__version__"]


def __getattr__(name: str) -> Any:
    """Import `schema_to_typescript` on first use; few programs need it."""
    if name == "schema_to_typescript":
        from .typescript.writer import schema_to_typescript

        return schema_to_typescript
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
