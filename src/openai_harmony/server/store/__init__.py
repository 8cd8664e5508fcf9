"""What a server keeps: responses, conversations, API keys; in SQLite or PostgreSQL.

::

    errors
    column_types → tables → items        what a row holds, and the dataclasses made of it
    database → migration, presence       transactions; the newest schema; which servers live
    event_log, response_chains → tool_sessions → responses
    container_files, conversations, keys
    store                                opens all of it

Everything is synchronous and may be called from any thread. What a method returns is data, and what
belongs to another owner is not found.
"""

from .container_files import ContainerFile, ContainerFiles, FilePage, NewFile
from .conversations import Conversation, Conversations
from .errors import (
    ItemIdError,
    NotFoundError,
    StoreError,
    StoreInUseError,
    StoreVersionError,
)
from .items import NewItem, Order, Page, StoredItem
from .keys import KeyLimits, KeyRecord, Keys
from .responses import NewResponse, Responses, StoredResponse
from .store import Store
from .tool_sessions import StoredSession, ToolSessions

__all__ = [
    "ContainerFile",
    "ContainerFiles",
    "Conversation",
    "Conversations",
    "FilePage",
    "ItemIdError",
    "KeyLimits",
    "KeyRecord",
    "Keys",
    "NewFile",
    "NewItem",
    "NewResponse",
    "NotFoundError",
    "Order",
    "Page",
    "Responses",
    "Store",
    "StoreError",
    "StoreInUseError",
    "StoreVersionError",
    "StoredItem",
    "StoredResponse",
    "StoredSession",
    "ToolSessions",
]
