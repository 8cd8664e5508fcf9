"""Files, uploads in parts and containers: what clients send, and the forms of what they get.

Files have two forms: that of OpenAI's API, and Anthropic's.
"""

from __future__ import annotations

from dataclasses import dataclass
from mimetypes import guess_type
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ..errors import ConversationError
from .current_date import rfc_3339
from .request_body import Ignored, RequestBody, RequestSettings

_LONGEST_NAME = 255
_MOST_BYTES = 256 << 20  # of a file that is uploaded in parts
_MOST_PARTS = 10_000
_MOST_FILES = 100  # that a request puts into a new container
_MINUTES = 30 * 24 * 60  # the longest time without use

Purpose: TypeAlias = Literal["assistants", "batch", "evals", "fine-tune", "user_data", "vision"]


class File(TypedDict):
    """A file; times in seconds since 1970, `bytes` its size."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"]


class DeletedFile(TypedDict):
    """The id of a deleted file."""

    id: str
    object: Literal["file"]
    deleted: Literal[True]


class MessagesFile(TypedDict):
    """A file in Anthropic's form."""

    id: str
    type: Literal["file"]
    filename: str
    mime_type: str
    size_bytes: int
    created_at: str
    expires_at: str | None
    downloadable: bool


class DeletedMessagesFile(TypedDict):
    """The id of a deleted file in Anthropic's form."""

    id: str
    type: Literal["file_deleted"]


class MessagesFiles(TypedDict):
    """A page of files in Anthropic's form."""

    data: list[MessagesFile]
    has_more: bool
    next_page: str | None


class FileExpiry(RequestSettings):
    """The time for which a file is kept."""

    anchor: Literal["created_at"]
    # OpenAI's bounds: an hour and thirty days.
    seconds: int = Field(ge=3600, le=2_592_000)


class UploadBody(RequestBody):
    """A file that will be uploaded in parts."""

    filename: str
    bytes: int = Field(ge=0, le=_MOST_BYTES)
    purpose: Purpose
    mime_type: Annotated[str | None, Ignored("a file is read by its name")] = None
    expires_after: FileExpiry | None = None


class CompleteUpload(RequestBody):
    """The ids of all parts in their order, and the MD5 of the file in hexadecimal."""

    part_ids: list[str] = Field(max_length=_MOST_PARTS)
    md5: str | None = None


@dataclass(frozen=True)
class UploadedFile:
    """A file without its bytes; times are in seconds since 1970, `size` in bytes.

    A file with a `container_id` belongs to that container and is deleted with it.
    """

    id: str
    owner: str
    container_id: str | None
    purpose: str
    filename: str
    size: int
    created_at: int
    expires_at: int | None


def plain_name(name: str | None, field: str = "file") -> str:
    """Return the last part of a path that a client sent as the name of a file.

    >>> plain_name("C:\\\\data\\\\sales.csv")
    'sales.csv'
    """
    plain = (name or "").replace("\\", "/").rpartition("/")[2]
    if not plain or plain in (".", "..") or not plain.isprintable() or len(plain) > _LONGEST_NAME:
        problem = f"a file needs a name of up to {_LONGEST_NAME} printable characters"
        raise ConversationError(problem, field=field)
    return plain


def messages_file(file: UploadedFile) -> MessagesFile:
    """Describe a file in Anthropic's form."""
    return {
        "id": file.id,
        "type": "file",
        "filename": file.filename,
        "mime_type": guess_type(file.filename)[0] or "application/octet-stream",
        "size_bytes": file.size,
        "created_at": rfc_3339(file.created_at),
        "expires_at": None if file.expires_at is None else rfc_3339(file.expires_at),
        "downloadable": True,
    }


def openai_file(file: UploadedFile) -> File:
    """Describe a file in OpenAI's form."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": file.created_at,
        "expires_at": file.expires_at,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
    }


@dataclass(frozen=True)
class PartialUpload:
    """A file that is uploaded in parts; `file` has the fields that the complete one will have.

    Once it is complete, `file` also has ``completed_by``: a hash of the request's parts and MD5.
    """

    id: str
    owner: str
    created_at: int
    expires_at: int
    status: str
    file: dict[str, Any]


def upload_json(upload: PartialUpload, file: UploadedFile | None = None) -> dict[str, Any]:
    """Describe an upload in parts, and the file that it has become."""
    return {
        "id": upload.id,
        "object": "upload",
        "bytes": upload.file["size"],
        "created_at": upload.created_at,
        "expires_at": upload.expires_at,
        "filename": upload.file["filename"],
        "purpose": upload.file["purpose"],
        "status": upload.status,
        "file": None if file is None else openai_file(file),
    }


# Containers


class ExpiresAfter(RequestBody):
    """The time after a container's last use at which it ends, in minutes."""

    anchor: Literal["last_active_at"]
    minutes: int = Field(ge=1, le=_MINUTES)


class NetworkPolicy(RequestBody):
    """The network policy: code has no network."""

    type: Literal["disabled"]


class ContainerRequest(RequestBody):
    """A new container; the server's settings determine its memory."""

    name: str = Field(max_length=256)
    file_ids: list[str] | None = Field(default=None, max_length=_MOST_FILES)
    expires_after: ExpiresAfter | None = None
    network_policy: NetworkPolicy | None = None
    memory_limit: None = None
    skills: Annotated[list[Any], Field(max_length=0)] | None = None


class Expiry(TypedDict):
    """The time after which an unused container ends."""

    anchor: Literal["last_active_at"]
    minutes: int


class Container(TypedDict):
    """A container; times in seconds since 1970."""

    id: str
    object: Literal["container"]
    created_at: int
    last_active_at: int
    name: str
    status: Literal["running"]
    expires_after: Expiry | None


class DeletedContainer(TypedDict):
    """The id of a deleted container."""

    id: str
    object: Literal["container.deleted"]
    deleted: Literal[True]


class ContainedFile(TypedDict):
    """A file; `created_at` in seconds since 1970, `bytes` its size."""

    id: str
    object: Literal["container.file"]
    container_id: str
    created_at: int
    bytes: int
    path: str
    source: Literal["assistant", "user"]


class DeletedContainedFile(TypedDict):
    """The id of a deleted file."""

    id: str
    object: Literal["container.file.deleted"]
    deleted: Literal[True]
