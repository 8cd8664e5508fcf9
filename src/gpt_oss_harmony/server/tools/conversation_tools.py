"""The server's tools in one conversation: their sessions, their calls, and their files.

An answer cites pages of the browser, and files that code has written.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from ...apis.responses.output_items import mcp_fields
from ...apis.responses.writer import AnsweredCall
from ...conversation.built_in_tools import has_files, tools_with_container
from ...conversation.messages import Message
from ...conversation.tool_namespaces import namespace_of
from ...tools.call_items import FinishedCall, call_fields, pages_of
from ...tools.tool import (
    Attachment,
    ServerFunction,
    Tool,
    ToolMessage,
    ToolSession,
    failure_message,
)
from ..store import ContainerFile, NewFile, StoredSession, StoreError, UploadedFile, new_id
from ..stored import AsyncStore

if TYPE_CHECKING:
    from ...tools.browser import BrowserSession


_FILE = re.compile(r"(?:sandbox:)?/mnt/data/([^\s()<>\"'`\]]+)")
_PUNCTUATION = ".,;:!?*"  # at the end of a path, it belongs to the sentence


class FileCiter(Protocol):
    """Lists the citations of files in a text; an answer also cites new files without a mention."""

    def __call__(self, text: str, *, is_answer: bool) -> list[dict[str, Any]]:
        """Return the annotations of a whole text."""
        ...


class CitedAnswer:
    """A text of the model in the form for clients: citations become links with annotations.

    - `pages`: the session of the browser, if there is one.
    - `cite_files`: see `FileCiter`.
    - `keeps_marks`: keep the marks of citations and only annotate them, because JSON must follow
      its schema.
    """

    def __init__(
        self, pages: BrowserSession | None, cite_files: FileCiter, *, keeps_marks: bool = False
    ) -> None:
        self._pages = pages
        self._cite_files = cite_files
        self._emitted: list[str] = []
        self._links = None
        if pages is not None and not keeps_marks:
            from ...tools.browser import CitedText

            self._links = CitedText(pages)

    def feed(self, text: str) -> str:
        """Take text; return the text for clients that is safe to emit."""
        return self._emit(text if self._links is None else self._links.feed(text))

    def rest(self) -> str:
        """Return the rest of the text for clients."""
        return self._emit("" if self._links is None else self._links.rest())

    def annotations(self, *, is_answer: bool) -> list[dict[str, Any]]:
        """List the citations of the finished text, in order."""
        text = "".join(self._emitted)
        citations: list[dict[str, Any]] = []
        if self._links is not None:
            citations += [citation.to_annotation() for citation in self._links.citations]
        elif self._pages is not None and "【" in text:
            from ...tools.browser import find_citations

            pages = find_citations(text, self._pages)
            citations += [citation.to_annotation() for citation in pages]
        citations += self._cite_files(text, is_answer=is_answer)
        return sorted(citations, key=lambda citation: int(citation["start_index"]))

    def _emit(self, text: str) -> str:
        self._emitted.append(text)
        return text


def _file_citation(file: ContainerFile, start: int, end: int) -> dict[str, Any]:
    return {
        "type": "container_file_citation",
        "container_id": file.container_id,
        "file_id": file.id,
        "filename": file.path,
        "start_index": start,
        "end_index": end,
    }


# The tools

_LOG = logging.getLogger(__name__)

_MAX_FILE_BYTES = 64 << 20  # of the files of one response


@runtime_checkable
class _FileSession(Protocol):
    """The session of a tool that has files."""

    uploads: list[str]

    def add_upload(self, id: str, path: str, data: bytes) -> None: ...


@runtime_checkable
class _OwnedSession(Protocol):
    """The session of a tool that takes turns by owner."""

    owner: str


@dataclass
class FileStorage:
    """Stores the files of one response, before any event names them; `room` is in bytes."""

    store: AsyncStore
    owner: str
    response_id: str
    room: int = _MAX_FILE_BYTES

    async def add(
        self, session: StoredSession, attachments: Iterable[Attachment]
    ) -> list[ContainerFile]:
        """Store files while there is room; return the stored ones."""
        files = list[NewFile]()
        for file in attachments:
            if len(file.data) <= self.room:
                self.room -= len(file.data)
                id = new_id("cfile")
                files.append(NewFile(id, session.id, file.name, file.mime_type, file.data))
        try:
            return await self.store.run(
                self.owner, lambda store: store.files.add(self.response_id, files, session)
            )
        except StoreError:  # it was deleted meanwhile, or the database fails: nothing is cited
            _LOG.warning("files of the response %s could not be stored", self.response_id)
            return []


class ConversationTools:
    """The tools that a response may use, each with its session.

    - `tools`: the tools by name. `functions`: the MCP functions that may be called, by their names
      in harmony.
    - `stored`: the sessions of the conversation; loading them may take a while.
    - `files`: the files of earlier code, the oldest first. `storage`: None stores no new files.
    - `owner`: whose conversation it is.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool[Any]],
        stored: Iterable[StoredSession] = (),
        files: Iterable[ContainerFile] = (),
        storage: FileStorage | None = None,
        include: Collection[str] = (),
        functions: Mapping[str, Mapping[str, ServerFunction]] | None = None,
        owner: str = "",
    ) -> None:
        self.names = frozenset(tools)
        """The names of the tools."""
        self.containers: dict[str, str] = {}
        """The ids of the containers of the tools that have one."""
        self._tools = tools
        self._before: dict[str, StoredSession] = {}
        self._sessions: dict[str, ToolSession] = {}
        known = list(stored)
        for name, tool in tools.items():
            session = next((session for session in known if session.tool == name), None)
            # Files are had by the id of a container.
            prefix = "cntr" if has_files(name) else "session"
            self._before[name] = session or StoredSession(name, new_id(prefix), "")
            opened = self._sessions[name] = _open_session(tool, session)
            if isinstance(opened, _OwnedSession):
                opened.owner = owner
            if name in tools_with_container():
                self.containers[name] = self._before[name].id
        self._files = {file.path: file for file in files}
        self._uncited: dict[str, ContainerFile] = {}
        self._storage = storage
        self._include = include
        self._functions = functions or {}
        self._used_sessions: dict[str, StoredSession] = {}

    def sessions(self) -> list[StoredSession]:
        """Return the sessions of the used tools after their last results."""
        return list(self._used_sessions.values())

    def all_sessions(self, before: Iterable[StoredSession]) -> list[StoredSession]:
        """Return the sessions after this response; `before` are those before it."""
        return list({session.tool: session for session in (*before, *self.sessions())}.values())

    def put_file(self, tool: str, file: UploadedFile, read: Callable[[str], bytes]) -> None:
        """Put a client's file where a tool finds it, unless it is there already; this blocks.

        `read` returns the bytes for the id of a file.
        """
        session = self._sessions[tool]
        if isinstance(session, _FileSession) and file.id not in session.uploads:
            session.add_upload(file.id, file.filename, read(file.id))

    def renew_containers(self, opened: ConversationTools) -> None:
        """Take the state of containers from tools that were opened later; no code has run yet."""
        self._sessions.update({name: opened._sessions[name] for name in self.containers})
        self._files.update(opened._files)

    def call_fields(self, recipient: str) -> dict[str, Any]:
        """Return the fields of the item of a call that depend only on its recipient."""
        tool, _, name = recipient.partition(".")
        fields = mcp_fields(recipient)
        if tool in self.containers:
            fields["container_id"] = self.containers[tool]
        elif name in self._functions.get(tool, {}):
            fields["name"] = self._functions[tool][name].name
        return fields

    def planned_fields(self, call: Message) -> dict[str, Any]:
        """Return the fields of the item of a call before it runs."""
        name = namespace_of(call.recipient)
        return call_fields(name).planned(call, self._sessions[name])

    async def run(self, call: Message) -> AnsweredCall:
        """Run a call of one of the tools; cancelling this cancels the call."""
        name = namespace_of(call.recipient)
        session = self._sessions[name]
        planned = self.planned_fields(call)
        messages = list[ToolMessage]()
        function = (call.recipient or "").partition(".")[2]
        allowed = self._functions.get(name)
        if allowed is not None and function not in allowed:  # of an MCP server
            names = ", ".join(f"`{name}.{own}`" for own in allowed)
            problem = f"there is no function `{function:.100}`; there are {names}"
            unknown = failure_message(call, problem)
            fields = call_fields(name).done(FinishedCall(planned, session, [unknown]))
            return AnsweredCall((unknown,), "failed", fields)
        try:
            results = self._tools[name].call(call, session)
            async with aclosing(cast("Any", results)) as opened:
                iterator = cast("AsyncIterator[ToolMessage]", opened)
                messages += [message async for message in iterator]
        except Exception:  # noqa: BLE001 - a bug of a tool is no reason to lose the response
            _LOG.exception("the tool %s failed", name)
            messages.append(failure_message(call, "the tool failed; go on without it."))
        # Written now, while nothing uses the session: a cancelled call may continue for a while.
        data = await asyncio.to_thread(session.to_json)
        used = self._used_sessions[name] = replace(self._before[name], data=data)
        attachments = [file for message in messages for file in message.attachments]
        if self._storage is not None and attachments:
            for file in await self._storage.add(used, attachments):
                self._files[file.path] = self._uncited[file.path] = file
        finished = FinishedCall(planned, session, messages, self._include)
        status = "failed" if finished.has_failed else "completed"
        return AnsweredCall(tuple(messages), status, call_fields(name).done(finished))

    def refused(self, call: Message, problem: str) -> AnsweredCall:
        """Answer a call that does not run."""
        fields = self.planned_fields(call)
        return AnsweredCall((failure_message(call, problem),), "incomplete", fields)

    def cited_answer(self, *, keeps_marks: bool = False) -> CitedAnswer:
        """Begin a text in the form for clients; the arguments are those of `CitedAnswer`."""
        pages = (pages for session in self._sessions.values() if (pages := pages_of(session)))
        return CitedAnswer(next(pages, None), self._cite_files, keeps_marks=keeps_marks)

    def _cite_files(self, text: str, *, is_answer: bool) -> list[dict[str, Any]]:
        """List the mentions of files in ``/mnt/data``; an answer ends with those of no mention."""
        citations: list[dict[str, Any]] = []
        for mention in _FILE.finditer(text):
            path = mention[1]
            file = self._files.get(path) or self._files.get(path.rstrip(_PUNCTUATION))
            if file is not None:
                end = mention.start(1) + len(file.path)
                citations.append(_file_citation(file, mention.start(), end))
                self._uncited.pop(file.path, None)
        if is_answer:
            end = len(text)
            citations += (_file_citation(file, end, end) for file in self._uncited.values())
            self._uncited.clear()
        return citations


def _open_session(tool: Tool[Any], stored: StoredSession | None) -> ToolSession:
    if stored is not None:
        try:
            return cast("ToolSession", tool.load_session(stored.data))
        except ValueError:
            _LOG.warning("a session of the tool %s cannot be read; a new one begins", stored.tool)
    return cast("ToolSession", tool.new_session())
