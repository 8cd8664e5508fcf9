"""The files in requests as text: uploaded files by their ids, and PDF in base64.

What has no text, such as an image, is refused in messages by users, unless the settings allow a
note in its place. In the result of a tool it always becomes a note: the model asked for it, and has
to learn that it is not shown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..apis.chat.request import ChatRequest
from ..apis.conversation_builder import attachment_in
from ..apis.responses.request import ResponsesRequest
from ..conversation.json_field import JsonField
from ..installation import missing_package
from ..rendering.cache import BoundedCache
from ..tools.tool import ToolError
from .fair_turns import FairPool, FairSemaphore
from .http.errors import ApiError
from .store import NotFoundError
from .stored import AsyncStore

_PARTS = ("file", "input_file")
_TEXTS = ("text", "input_text", "output_text")
_PDF = "data:application/pdf"
_PDF_START = b"%PDF-"
_CHARACTERS = 1_000_000  # of one file
_SECONDS = 20  # to read one file
_MEMORY = 1 << 30  # bytes, for the same
_AT_ONCE = 3  # files that are read; the files of one owner leave a place for others
_CACHED = 16_000_000  # characters of all files that were read
_FEW = 100  # items, or parts of one, that the event loop looks at; more take some time


_READ = "data:text/plain;harmony=read;base64,"
"""The beginning of a text that the server has read from a PDF."""

_Request = TypeVar("_Request", bound=ResponsesRequest)


class FileTexts:
    """Replaces files that the model cannot read by their text; it belongs to one event loop.

    A part with a `file_id` or a PDF gets its text as `file_data`. A damaged document can only crash
    the process that reads it. All methods raise `ApiError`, which names the part.
    """

    def __init__(self, store: AsyncStore, pool: FairPool, *, refuses_others: bool = True) -> None:
        self._refuses_others = refuses_others
        self._store = store
        self._pool = pool
        self._turns = FairSemaphore(_AT_ONCE, lambda owner: _AT_ONCE - 1)
        self._texts = BoundedCache[str, str](_CACHED, len)

    async def of_response(self, owner: str, request: _Request) -> _Request:
        """Replace the files in the items of a request."""
        field = request.items_field
        items = await self.in_items(owner, request.items, field)
        return request if items is None else request.model_copy(update={field: items})

    async def of_chat(self, owner: str, request: ChatRequest) -> ChatRequest:
        """Replace the files in the messages of a request."""
        messages = await self.in_items(owner, request.messages, "messages")
        return request if messages is None else request.model_copy(update={"messages": messages})

    async def in_items(
        self, owner: str, items: Sequence[Any], field: str
    ) -> list[dict[str, Any]] | None:
        """Replace the files in items or messages; None if there are none to read."""
        changed: dict[int, dict[str, Any]] = {}
        if len(items) <= _FEW and all(len(parts) <= _FEW for _, _, parts in _part_lists(items)):
            found = _other_parts(items)
        else:
            found = await self._pool.run(owner, _other_parts, items)
        for index, name, place, part in found:
            item = items[index]
            path = f"{field}[{index}].{name}[{place}]"
            replaced = None
            if part.get("type") in _PARTS:
                replaced = await self._with_text(owner, part, path)
            if self._refuses_others and item.get("role") == "user":
                _refuse_attachment(JsonField(replaced or part, path))
            if replaced is not None:
                copy = changed.setdefault(index, {**item})
                if copy[name] is item[name]:
                    copy[name] = list(item[name])
                copy[name][place] = replaced
        if not changed:
            return None
        return [changed.get(index, item) for index, item in enumerate(items)]

    async def _with_text(
        self, owner: str, part: Mapping[str, Any], path: str
    ) -> dict[str, Any] | None:
        nested = part.get("file")
        file = nested if isinstance(nested, Mapping) else part
        path = f"{path}.file" if file is nested else path
        file_id, data = file.get("file_id"), file.get("file_data")
        if isinstance(file_id, str):
            path = f"{path}.file_id"
            uploads = self._store.uploads
            try:
                name = (await uploads.get(file_id, owner)).filename
                content = await uploads.data(file_id, owner)
            except NotFoundError as error:
                problem = f"{error}; upload it to /v1/files"
                raise ApiError(400, problem, param=path, code="file_not_found") from None
        elif isinstance(data, str) and data[: len(_PDF)].lower() == _PDF:
            path = f"{path}.file_data"
            content = await self._pool.run(owner, _decoded, data, path)
            name = file.get("filename") or "without a name"
        else:
            return None
        text = await self._text(owner, str(name), content, path)
        encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
        kind = _READ if content.startswith(_PDF_START) else "data:text/plain;base64,"
        fields = {"filename": name, "file_data": f"{kind}{encoded}"}
        return {**part, "file": {**file, **fields}} if file is nested else {**part, **fields}

    async def _text(self, owner: str, name: str, content: bytes, path: str) -> str:
        if not content.startswith(_PDF_START):
            try:
                return content.decode("utf-8-sig")
            except UnicodeDecodeError:
                raise ApiError(
                    400,
                    f"the file {name!r:.80} is neither text in UTF-8 nor a PDF; code can read it "
                    "in a container",
                    param=path,
                    code="unsupported_file",
                ) from None
        key = hashlib.sha256(content).hexdigest()
        text = self._texts.get(key)
        if text is None:
            await self._turns.take(owner)
            try:
                text = await _read_pdf(name, content)
            except (ToolError, ModuleNotFoundError) as error:
                raise ApiError(400, str(error), param=path, code="unsupported_file") from error
            finally:
                self._turns.give_back(owner)
            self._texts.put(key, text)
        return text


def _part_lists(items: Iterable[Any]) -> Iterator[tuple[int, str, list[Any]]]:
    """Yield the lists of parts in items: the index of the item, the field, and the list."""
    for index, item in enumerate(items):
        if isinstance(item, (dict, Mapping)):  # the first is much faster
            for name in ("content", "output"):
                parts = item.get(name)
                if isinstance(parts, list):
                    yield index, name, parts


def _other_parts(items: Sequence[Any]) -> list[tuple[int, str, int, Mapping[str, Any]]]:
    """List the parts of items that are no texts: index, field, place and part."""
    return [
        (index, name, place, part)
        for index, name, parts in _part_lists(items)
        for place, part in enumerate(parts)
        if isinstance(part, (dict, Mapping)) and part.get("type") not in _TEXTS
    ]


def _refuse_attachment(part: JsonField) -> None:
    if isinstance(part["type"].value, str) and (kind := attachment_in(part)) is not None:
        raise ApiError(
            400,
            f"this model reads text only, and cannot see the {kind}; leave it out, or start the "
            "server with --attachments note",
            param=part.path,
            code="unsupported_attachment",
        )


def without_read_text(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an item as its client sent it, without the text that the server has read from PDFs.

    >>> part = {"type": "input_file", "filename": "a.pdf", "file_data": f"{_READ}YQ=="}
    >>> without_read_text({"content": [part]})
    {'content': [{'type': 'input_file', 'filename': 'a.pdf'}]}
    """
    shown = item
    for name in ("content", "output"):
        parts = item.get(name)
        if isinstance(parts, list) and any(map(_is_read, parts)):
            kept = [
                {key: value for key, value in part.items() if key != "file_data"}
                if _is_read(part)
                else part
                for part in parts
            ]
            shown = {**shown, name: kept}
    return shown


def _is_read(part: Any) -> bool:
    data = part.get("file_data") if isinstance(part, Mapping) else None
    return isinstance(data, str) and data.startswith(_READ)


def _decoded(data: str, path: str) -> bytes:
    kind, _, encoded = data.partition(",")
    try:
        if not kind.lower().endswith(";base64"):
            raise ValueError
        return base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        problem = "this is not a PDF in base64; send data:application/pdf;base64,..."
        raise ApiError(400, problem, param=path, code="invalid_value") from None


async def _read_pdf(name: str, content: bytes) -> str:
    try:
        from ..tools.browser.web_pages import ReadingProcesses
    except ModuleNotFoundError as error:
        problem = missing_package("reading PDF on this server needs", error, "tools")
        raise ModuleNotFoundError(problem) from error
    reader = ReadingProcesses(seconds=_SECONDS, memory=_MEMORY, at_once=1)
    page = await reader.read(
        content,
        content_type="application/pdf",
        address=name,
        limit=_CHARACTERS,
        source=False,
        cut=False,
    )
    return page.text
