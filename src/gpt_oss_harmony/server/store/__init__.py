"""The store of a server: responses, conversations, API keys; in SQLite or PostgreSQL.

::

    errors
    reserve                   room that is given up for deletions on a full disk
    database → running_servers
                              transactions, migrations; locks of running servers
    tables → owned_data       columns; all data of one owner, its size, and the limit of that
    rows                      rows as dataclasses: their ids, expiry and order, and pages of them
    response_chains           responses that follow each other, and their tools' sessions
    responses, conversations, files, containers, batches,
    chat_completions          also the threads of the Messages API
    keys                      API keys, their requests, and what these claim
    store                     opens all of these

Everything is synchronous and may be called from any thread. Methods return plain data, and never
the data of other owners.
"""

from ...apis.files import PartialUpload, UploadedFile
from .batches import Batches, BatchRequest, BatchResult
from .chat_completions import MessageThread, MessageThreads, StoredCompletion, StoredCompletions
from .containers import ContainerFile, ContainerFiles, Containers, NewFile, StoredContainer
from .conversations import Conversation, Conversations
from .database import database_name
from .errors import (
    ClaimedError,
    ItemIdError,
    NotFoundError,
    StorageFullError,
    StoreError,
    StoreFullError,
    StoreInUseError,
    StoreVersionError,
    UploadError,
)
from .files import PartialUploads, Uploads
from .keys import Claim, Claims, KeyLimits, KeyRecord, KeyRequest, KeyRequests, Keys
from .owned_data import OwnedData, OwnedRow
from .response_chains import StoredSession, ToolSessions
from .responses import NewResponse, Responses, StoredResponse
from .rows import NewItem, Order, Page, StoredItem, new_id
from .running_servers import CHECK_SECONDS
from .store import Store

__all__ = [
    "CHECK_SECONDS",
    "BatchRequest",
    "BatchResult",
    "Batches",
    "Claim",
    "ClaimedError",
    "Claims",
    "ContainerFile",
    "ContainerFiles",
    "Containers",
    "Conversation",
    "Conversations",
    "ItemIdError",
    "KeyLimits",
    "KeyRecord",
    "KeyRequest",
    "KeyRequests",
    "Keys",
    "MessageThread",
    "MessageThreads",
    "NewFile",
    "NewItem",
    "NewResponse",
    "NotFoundError",
    "Order",
    "OwnedData",
    "OwnedRow",
    "Page",
    "PartialUpload",
    "PartialUploads",
    "Responses",
    "StorageFullError",
    "Store",
    "StoreError",
    "StoreFullError",
    "StoreInUseError",
    "StoreVersionError",
    "StoredCompletion",
    "StoredCompletions",
    "StoredContainer",
    "StoredItem",
    "StoredResponse",
    "StoredSession",
    "ToolSessions",
    "UploadError",
    "UploadedFile",
    "Uploads",
    "database_name",
    "new_id",
]
