"""The APIs of OpenAI and Anthropic's Messages as data: requests in, items out.

These are pure functions: they use no network and make no ids, and only `current_date` reads a
clock. They need pydantic, the core and `gpt_oss_harmony.engines.Sampling`, but no extra.

::

    request_body → requests             the bodies of requests, validated
    requested_tools                     the tools of a request, and the allowed calls
    conversation_builder → constraints, chat_input, input_items → turn_request
                                        a request and its history as one turn of the model
    messages_request → messages_input   the same for Anthropic's Messages
    items, custom_tools → output_items, chat_output
                                        the model's messages as items, or as a chat message
    response_resource                   the response that contains the items
    current_date                        the default of the date in the prompt
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not on first use: by then, the module of the same name may stand in the function's place.
from .current_date import TODAY, current_date

if TYPE_CHECKING:
    from .chat_output import CHAT_JOINT, chat_message_of, chat_tool_call
    from .custom_tools import CustomToolInput, custom_tool_input
    from .input_items import complete_item, input_items_of
    from .items import (
        ID_PREFIXES,
        Decrypt,
        HistoryItem,
        ItemKind,
        NewId,
        called_name,
        item_kind,
        message_text,
    )
    from .messages_input import INVALID_JSON, turn_of_messages
    from .messages_request import MessagesRequest
    from .output_items import item_of_message, items_of_messages, new_item
    from .request_body import RequestBody, field_path, read_body, validation_problem
    from .requests import ChatRequest, CompletionRequest, ResponsesRequest
    from .response_resource import (
        IncompleteDetails,
        Response,
        ResponseError,
        ResponseUsage,
        response_of,
    )
    from .turn_request import TurnRequest, turn_of_chat, turn_of_response

__all__ = [
    "CHAT_JOINT",
    "ID_PREFIXES",
    "INVALID_JSON",
    "TODAY",
    "ChatRequest",
    "CompletionRequest",
    "CustomToolInput",
    "Decrypt",
    "HistoryItem",
    "IncompleteDetails",
    "ItemKind",
    "MessagesRequest",
    "NewId",
    "RequestBody",
    "Response",
    "ResponseError",
    "ResponseUsage",
    "ResponsesRequest",
    "TurnRequest",
    "called_name",
    "chat_message_of",
    "chat_tool_call",
    "complete_item",
    "current_date",
    "custom_tool_input",
    "field_path",
    "input_items_of",
    "item_kind",
    "item_of_message",
    "items_of_messages",
    "message_text",
    "new_item",
    "read_body",
    "response_of",
    "turn_of_chat",
    "turn_of_messages",
    "turn_of_response",
    "validation_problem",
]

_MODULES = (
    "items",
    "input_items",
    "output_items",
    "custom_tools",
    "chat_output",
    "request_body",
    "requests",
    "response_resource",
    "turn_request",
    "messages_request",
    "messages_input",
)


def __getattr__(name: str) -> Any:
    """Import a name on first use: the models of requests take long to build."""
    if name in __all__:
        for module in _MODULES:
            home = import_module(f".{module}", __name__)
            if name in home.__all__:
                return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
