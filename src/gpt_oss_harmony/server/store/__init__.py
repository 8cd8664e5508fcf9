"""The store of a server: responses, conversations, API keys; in SQLite or PostgreSQL.

::

    errors
    tables → items            the columns of a row, and the dataclasses made of it
    database → leases         transactions, migrations; locks of running servers
    expiring_rows             expiry and order of rows
    contents                  the bytes of files, each once
    response_chains           responses that follow each other
    tool_sessions, responses, conversations, container_files, uploads, chat_completions, keys,
    key_requests
    owned_data → quota        all data of one owner; its size, and the limit of that
    store                     opens all of these

Everything is synchronous and may be called from any thread. Methods return plain data, and never
the data of other owners.
"""

from .chat_completions import CompletionPage, StoredCompletion, StoredCompletions
from .claims import Claim, Claims
from .container_files import ContainerFile, ContainerFiles, FilePage, NewFile
from .conversations import Conversation, Conversations
from .database import database_name
from .errors import (
    ClaimedError,
    ItemIdError,
    NotFoundError,
    StorageFullError,
    StoreError,
    StoreInUseError,
    StoreVersionError,
)
from .items import NewItem, Order, Page, StoredItem
from .key_requests import KeyRequest, KeyRequests
from .keys import KeyLimits, KeyRecord, Keys
from .owned_data import OwnedData, OwnedRow
from .responses import NewResponse, Responses, StoredResponse
from .store import Store
from .tool_sessions import StoredSession, ToolSessions
from .uploads import (
    ContainerPage,
    Containers,
    StoredContainer,
    UploadedFile,
    UploadPage,
    Uploads,
)

__all__ = [
    "Claim",
    "ClaimedError",
    "Claims",
    "CompletionPage",
    "ContainerFile",
    "ContainerFiles",
    "ContainerPage",
    "Containers",
    "Conversation",
    "Conversations",
    "FilePage",
    "ItemIdError",
    "KeyLimits",
    "KeyRecord",
    "KeyRequest",
    "KeyRequests",
    "Keys",
    "NewFile",
    "NewItem",
    "NewResponse",
    "NotFoundError",
    "Order",
    "OwnedData",
    "OwnedRow",
    "Page",
    "Responses",
    "StorageFullError",
    "Store",
    "StoreError",
    "StoreInUseError",
    "StoreVersionError",
    "StoredCompletion",
    "StoredCompletions",
    "StoredContainer",
    "StoredItem",
    "StoredResponse",
    "StoredSession",
    "ToolSessions",
    "UploadPage",
    "UploadedFile",
    "Uploads",
    "database_name",
]
