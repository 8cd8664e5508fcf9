"""The Responses, Chat Completions and Completions APIs as data: requests to harmony, and back.

Pure functions: no network, no clock, no identifiers of their own.

::

    request_body → sampling_fields → responses_request, chat_request, completion_request
                                  what may be sent, checked
    item_kind                     what a message of the model is
"""

from .chat_request import ChatRequest
from .completion_request import CompletionRequest
from .item_kind import ItemKind, what_kind
from .request_body import RequestBody, field_path, read_body, validation_problem
from .responses_request import ResponsesRequest
from .turn_request import TurnRequest

__all__ = [
    "ChatRequest",
    "CompletionRequest",
    "ItemKind",
    "RequestBody",
    "ResponsesRequest",
    "TurnRequest",
    "field_path",
    "read_body",
    "validation_problem",
    "what_kind",
]
