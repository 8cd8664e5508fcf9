"""The APIs of OpenAI and Anthropic's Messages as data: requests in, events out.

These are pure functions: they use no network, read no clock but in `current_date`, and make no ids
but those of `answer_request`. They need pydantic and the core, but no extra and nothing of the
server. `answer_request` takes any request to its prompt, and tokens to the API's events.

::

    request_body, requested_tools, requested_reasoning, requested_format, conversation_builder
                             what the requests of several APIs have in common
    turn                     what a request becomes: the conversation, and the settings of its turn
    items, call_texts, stop_texts
                             what a turn consists of; what an item is, is decided here
    reader                   tokens to items
    wire_events              events as clients read them

    responses, chat, completions, messages, ollama
                             a folder for each API, with the same rooms: request (body to turn),
                             input (its messages), writer (items to events), fold (events to whole)

    files, batches, models, tokens
                             what clients send and get beside answers

    constraint               the grammar of a turn, with the extra `grammar`
    current_date             the default of the date in the prompt
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not on first use: by then, the module of the same name may stand in the function's place.
from .current_date import TODAY, current_date

if TYPE_CHECKING:
    from .answer import Answer, Api, Fold, Writer, answer_request
    from .call_texts import CallArguments, CustomToolInput, custom_tool_input
    from .chat.fold import ChatFold, chat_message_of
    from .chat.request import ChatRequest, turn_of_chat
    from .chat.writer import CHAT_JOINT, ChatWriter
    from .completions.fold import CompletionsFold
    from .completions.request import CompletionPrompt, CompletionRequest, completion_prompts
    from .completions.writer import CompletionsWriter
    from .items import (
        Decrypt,
        Ending,
        HistoryItem,
        ItemBegun,
        ItemEnded,
        ItemEvent,
        ItemKind,
        ItemRules,
        ItemText,
        NewId,
        TurnEnded,
        Usage,
        called_name,
    )
    from .messages.fold import MessagesFold
    from .messages.input import INVALID_JSON, turn_of_messages
    from .messages.request import MessagesRequest
    from .messages.writer import MessagesWriter
    from .reader import TextReader, TurnReader, item_events
    from .request_body import RequestBody, field_path, read_body, validation_problem
    from .responses.fold import ResponseFold
    from .responses.input import complete_item
    from .responses.output_items import item_json, items_of_messages
    from .responses.request import ResponsesRequest, input_items_of, turn_of_response
    from .responses.resource import (
        IncompleteDetails,
        Response,
        ResponseError,
        ResponseUsage,
        response_of,
    )
    from .responses.writer import ResponseWriter
    from .turn import TurnRequest
    from .wire_events import Event, encode_events

__all__ = [
    "CHAT_JOINT",
    "INVALID_JSON",
    "TODAY",
    "Answer",
    "Api",
    "CallArguments",
    "ChatFold",
    "ChatRequest",
    "ChatWriter",
    "CompletionPrompt",
    "CompletionRequest",
    "CompletionsFold",
    "CompletionsWriter",
    "CustomToolInput",
    "Decrypt",
    "Ending",
    "Event",
    "Fold",
    "HistoryItem",
    "IncompleteDetails",
    "ItemBegun",
    "ItemEnded",
    "ItemEvent",
    "ItemKind",
    "ItemRules",
    "ItemText",
    "MessagesFold",
    "MessagesRequest",
    "MessagesWriter",
    "NewId",
    "RequestBody",
    "Response",
    "ResponseError",
    "ResponseFold",
    "ResponseUsage",
    "ResponseWriter",
    "ResponsesRequest",
    "TextReader",
    "TurnEnded",
    "TurnReader",
    "TurnRequest",
    "Usage",
    "Writer",
    "answer_request",
    "called_name",
    "chat_message_of",
    "complete_item",
    "completion_prompts",
    "current_date",
    "custom_tool_input",
    "encode_events",
    "field_path",
    "input_items_of",
    "item_events",
    "item_json",
    "items_of_messages",
    "read_body",
    "response_of",
    "turn_of_chat",
    "turn_of_messages",
    "turn_of_response",
    "validation_problem",
]

_MODULES = (
    "answer",
    "call_texts",
    "chat.fold",
    "chat.request",
    "chat.writer",
    "completions.fold",
    "completions.request",
    "completions.writer",
    "items",
    "messages.fold",
    "messages.input",
    "messages.request",
    "messages.writer",
    "reader",
    "request_body",
    "responses.fold",
    "responses.input",
    "responses.output_items",
    "responses.request",
    "responses.resource",
    "responses.writer",
    "turn",
    "wire_events",
)


def __getattr__(name: str) -> Any:
    """Import a name on first use: the models of requests take long to build."""
    if name in __all__:
        for module in _MODULES:
            home = import_module(f".{module}", __name__)
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
