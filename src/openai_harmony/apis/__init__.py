"""The Responses, Chat Completions and Completions APIs as data: requests to harmony, and back.

Pure functions: no network, no clock, no identifiers of their own. They need the core, pydantic
and the settings of `openai_harmony.engines.sampling`, and no extra.

::

    request_body → sampling_fields → responses_request, chat_request, completion_request
                                  what may be sent, checked
    history → item_reader, tool_choice → turns
                                  a request and the items before it to a `TurnRequest`
    input_items                   the input as the items that are stored
    item_kind, custom_input → output_items, chat_message
                                  messages of the model to items, and to a chat's message
    echoed_tools → response       the resource with all its fields
"""

from .chat_message import CHAT_JOINT, chat_message_of, chat_tool_call
from .chat_request import ChatRequest
from .completion_request import CompletionRequest
from .custom_input import CustomToolInput, custom_tool_input
from .history import HistoryItem, NewId, Unseal
from .input_items import input_items_of, whole_item
from .item_kind import ItemKind, what_kind
from .output_items import (
    ID_PREFIXES,
    called_name,
    item_of_message,
    items_of_messages,
    message_text,
    new_item,
)
from .request_body import RequestBody, field_path, read_body, validation_problem
from .response import IncompleteDetails, Response, ResponseError, ResponseUsage, response_of
from .responses_request import ResponsesRequest
from .turn_request import TurnRequest
from .turns import turn_of_chat, turn_of_response

__all__ = [
    "CHAT_JOINT",
    "ID_PREFIXES",
    "ChatRequest",
    "CompletionRequest",
    "CustomToolInput",
    "HistoryItem",
    "IncompleteDetails",
    "ItemKind",
    "NewId",
    "RequestBody",
    "Response",
    "ResponseError",
    "ResponseUsage",
    "ResponsesRequest",
    "TurnRequest",
    "Unseal",
    "called_name",
    "chat_message_of",
    "chat_tool_call",
    "custom_tool_input",
    "field_path",
    "input_items_of",
    "item_of_message",
    "items_of_messages",
    "message_text",
    "new_item",
    "read_body",
    "response_of",
    "turn_of_chat",
    "turn_of_response",
    "validation_problem",
    "what_kind",
    "whole_item",
]
