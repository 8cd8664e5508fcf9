"""The server's tools in one conversation: their sessions, their calls, the files they wrote."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ...conversation.messages import Message
from ...tools.python.attachment import Attachment
from ...tools.server_tool import ServerFunction
from ...tools.tool import Tool, ToolSession
from ...tools.tool_message import ToolMessage, failure_message
from ..identifiers import new_id
from ..store import ContainerFile, NewFile, Store, StoredSession, StoreError
from .citations import CitedAnswer, file_citations, unnamed_files
from .code_interpreter import outputs_of
from .mcp_call import mcp_outcome
from .web_search import done_action, found_sources, planned_action

if TYPE_CHECKING:
    from ...tools.browser import BrowserSession

__all__ = ["AnsweredCall", "ConversationTools", "FileKeeper"]

_LOG = logging.getLogger(__name__)

_BROWSER = "browser"
_PYTHON = "python"
_CONTAINER = "cntr"
_MOST_KEPT = 64 << 20  # bytes of the files of one response


@dataclass(frozen=True)
class AnsweredCall:
    """What came of a call: the tool's messages, and what its item shows besides."""

    messages: tuple[Message, ...]
    status: str
    fields: Mapping[str, Any]


class FileKeeper:
    """Keeps the files of one response in the store; they are there before anyone hears of them."""

    def __init__(self, store: Store, response_id: str) -> None:
        self._store = store
        self._response_id = response_id
        self._room = _MOST_KEPT

    async def keep(
        self, container_id: str, attachments: Iterable[Attachment]
    ) -> list[ContainerFile]:
        """Keep files, as far as there is room; return those that are kept."""
        files = list[NewFile]()
        for one in attachments:
            if len(one.data) <= self._room:
                self._room -= len(one.data)
                id = new_id("cfile")
                files.append(NewFile(id, container_id, one.name, one.mime_type, one.data))
        try:
            return await asyncio.to_thread(self._store.files.add, self._response_id, files)
        except StoreError:  # it was deleted meanwhile, or the database fails: nothing is cited
            _LOG.warning("files of the response %s could not be kept", self._response_id)
            return []


class ConversationTools:
    """The tools that a response may use, each with its session.

    - `tools`: by name. `functions`: of MCP servers among them, all that may be called, by the
      names in harmony.
    - `stored`: the sessions that the conversation has; making this from them may take a while.
    - `files`: what code has written before, the oldest first. `keeper`: None keeps no new ones.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool[Any]],
        stored: Iterable[StoredSession] = (),
        files: Iterable[ContainerFile] = (),
        keeper: FileKeeper | None = None,
        include: Collection[str] = (),
        functions: Mapping[str, Mapping[str, ServerFunction]] | None = None,
    ) -> None:
        known = {session.tool: session for session in stored}
        self._tools = tools
        self._ids = {
            name: known[name].id if name in known else new_id(_id_prefix(name)) for name in tools
        }
        self._sessions = {name: _session(tool, known.get(name)) for name, tool in tools.items()}
        self._files = {file.path: file for file in files}
        self._uncited: dict[str, ContainerFile] = {}
        self._keeper = keeper
        self._include = include
        self._functions = functions or {}
        self._written: dict[str, StoredSession] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of the tools."""
        return frozenset(self._tools)

    @property
    def container_id(self) -> str:
        """The id of what code runs in; empty where none can be run."""
        return self._ids.get(_PYTHON, "")

    @property
    def mcp_names(self) -> dict[str, str]:
        """What the tools of MCP servers are called there, by their recipients."""
        return {
            f"{label}.{name}": function.name
            for label, functions in self._functions.items()
            for name, function in functions.items()
        }

    def sessions(self) -> list[StoredSession]:
        """Return the sessions of the tools that were used, as the last answer has left them."""
        return list(self._written.values())

    def all_sessions(self, before: Iterable[StoredSession]) -> list[StoredSession]:
        """Return the sessions that come after those `before`."""
        return list({one.tool: one for one in (*before, *self.sessions())}.values())

    def planned_fields(self, call: Message) -> dict[str, Any]:
        """Say what the item of a call shows before it is run."""
        if self._name(call) != _BROWSER:
            return {}
        return {"action": planned_action(call, _pages_of(self._sessions[_BROWSER]))}

    async def run(self, call: Message) -> AnsweredCall:
        """Run a call of one of the tools; where this is cancelled, so is the call."""
        name = self._name(call)
        session = self._sessions[name]
        planned = self.planned_fields(call)
        messages = list[ToolMessage]()
        unknown = self._unknown_function(call)
        if unknown is not None:
            return AnsweredCall((unknown,), "failed", mcp_outcome([unknown]))
        try:
            answers = self._tools[name].call(call, session)
            async with aclosing(cast("Any", answers)) as said:
                messages += [message async for message in cast("AsyncIterator[ToolMessage]", said)]
        except Exception:  # noqa: BLE001 - a bug of a tool is no reason to lose the response
            _LOG.exception("the tool %s failed", name)
            messages.append(failure_message(call, "the tool failed; go on without it."))
        has_failed = any(message.is_error for message in messages)
        # Now, since nothing uses it: a call that is cancelled may go on for a while.
        data = await asyncio.to_thread(session.to_json)
        self._written[name] = StoredSession(name, self._ids[name], data)
        await self._keep(self._ids[name], messages)
        if name == _BROWSER:
            fields = planned if has_failed else self._done(planned)
        else:
            fields = self._outputs(messages) if name == _PYTHON else mcp_outcome(messages)
        return AnsweredCall(tuple(messages), "failed" if has_failed else "completed", fields)

    def refused(self, call: Message, problem: str) -> AnsweredCall:
        """Answer a call that is not run."""
        fields = self.planned_fields(call)
        return AnsweredCall((failure_message(call, problem),), "incomplete", fields)

    def cited_answer(self, *, keeps_marks: bool = False) -> CitedAnswer:
        """Begin a text of the model, as clients see it; the arguments are those of the class."""
        session = self._sessions.get(_BROWSER)
        pages = None if session is None else _pages_of(session)
        return CitedAnswer(pages, self._cite_files, keeps_marks=keeps_marks)

    def _cite_files(self, text: str, *, is_answer: bool) -> list[dict[str, Any]]:
        found = list(file_citations(text, self._files))
        for citation in found:
            self._uncited.pop(citation["filename"], None)
        if is_answer:
            found += unnamed_files(text, self._uncited.values())
            self._uncited.clear()
        return found

    def _name(self, call: Message) -> str:
        return (call.recipient or "").partition(".")[0]

    def _unknown_function(self, call: Message) -> ToolMessage | None:
        """Answer a call of an MCP server's tool that the request does not allow."""
        name, _, function = (call.recipient or "").partition(".")
        allowed = self._functions.get(name)
        if allowed is None or function in allowed:
            return None
        known = ", ".join(f"`{name}.{one}`" for one in allowed)
        return failure_message(call, f"there is no function `{function:.100}`; there are {known}")

    async def _keep(self, container_id: str, messages: Iterable[ToolMessage]) -> None:
        attachments = [one for message in messages for one in message.attachments]
        if self._keeper is None or not attachments:
            return
        kept = await self._keeper.keep(container_id, attachments)
        for file in kept:
            self._files[file.path] = self._uncited[file.path] = file

    def _outputs(self, messages: Iterable[ToolMessage]) -> dict[str, Any]:
        wanted = "code_interpreter_call.outputs" in self._include
        return {"outputs": outputs_of(messages) if wanted else None}

    def _done(self, planned: dict[str, Any]) -> dict[str, Any]:
        """Say what the item of a call of the browser shows after it succeeded."""
        pages = _pages_of(self._sessions[_BROWSER])
        if pages is None:
            return planned
        action = done_action(planned["action"], pages)
        if "web_search_call.action.sources" in self._include and action["type"] == "search":
            action = {**action, "sources": found_sources(action, pages)}
        return {"action": action}


def _id_prefix(tool: str) -> str:
    """Return how the id of a session begins: by that of a container, files can be had."""
    return "session" if tool == _BROWSER else _CONTAINER


def _session(tool: Tool[Any], stored: StoredSession | None) -> ToolSession:
    if stored is not None:
        try:
            return cast("ToolSession", tool.load_session(stored.data))
        except ValueError:
            _LOG.warning("a session of the tool %s cannot be read; it begins anew", stored.tool)
    return cast("ToolSession", tool.new_session())


def _pages_of(session: ToolSession) -> BrowserSession | None:
    """Return a session of the browser as what it is; None for that of another such tool."""
    return cast("BrowserSession", session) if hasattr(session, "views") else None
