"""A request for a response, read and prepared; all its errors are found here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...apis.items import HistoryItem
from ...apis.responses.request import ResponsesRequest, input_items_of, turn_of_response
from ...apis.responses.resource import response_of
from ...apis.turn import TurnRequest
from ...conversation.built_in_tools import has_files, requested_tool, tools_with_container
from ...conversation.json_field import JsonField
from ...conversation.tool_namespaces import namespace_of
from ..auth.api_keys import Caller
from ..encryption import OwnerCipher
from ..preparation import PreparedTurn, prepare_turn
from ..services import Services
from ..store import Claim, NotFoundError, StoredSession, new_id
from ..tools.conversation_tools import ConversationTools, FileStorage
from ..tools.mcp import (
    AnsweredRequests,
    ApprovedCall,
    RequestedServers,
    answered_requests,
    requested_servers,
)
from .compaction import compacted_items, compaction_item, opened_items, prompt_counter
from .history import History, history_items, history_of, sessions_of, with_stored_items
from .truncation import truncated_turn


@dataclass(frozen=True)
class ResponsePlan:
    """Everything that is needed to make a response.

    - `response`: the resource at its beginning. `turn`, `prepared`: the input of the engine.
    - `history`: the items before it. `input`: the complete items of the request.
    - `tools`: the server's own tools that it may use; `open_tools` opens them anew. `listings`:
      the tools of its MCP servers that the conversation does not list yet.
    - `approved`: calls of MCP servers that the request approves; they run first.
    - `claims`: what no later request may use again: these approvals, and the idempotency key.
    - `compaction`: the first item of the response, if everything before it was compacted.
    - `earlier`: the ends of responses that named its container before; its code waits for them.
    - `is_generated`: False if only the state is prepared, for a later request.
    """

    caller: Caller
    request: ResponsesRequest
    response: dict[str, Any]
    turn: TurnRequest
    prepared: PreparedTurn
    history: History
    input: Sequence[HistoryItem]
    tools: ConversationTools
    open_tools: Callable[[], ConversationTools]
    listings: Sequence[Mapping[str, Any]] = ()
    approved: Sequence[ApprovedCall] = ()
    claims: Sequence[Claim] = ()
    compaction: Sequence[HistoryItem] = ()
    earlier: Sequence[asyncio.Event] = ()
    is_generated: bool = True

    @property
    def owner(self) -> str:
        """The owner of the response."""
        return self.caller.owner

    @property
    def id(self) -> str:
        """The id of the response."""
        return str(self.response["id"])


def plan_response(
    services: Services,
    caller: Caller,
    request: ResponsesRequest,
    *,
    history: History | None = None,
    is_generated: bool = True,
) -> ResponsePlan:
    """Read a request and the items before it, and render the prompt; this blocks.

    The plan has no grammar yet. `history` replaces the history in the store. Raises many kinds of
    `HarmonyError`, which `ApiError.of` maps.
    """
    model = services.check_model(request.model)
    owner = caller.owner
    history = history or history_of(services, owner, request)
    resolved, references, servers, answered = _resolved(services, owner, request, history)
    turn = _turn(services, owner, resolved, history, references, servers)
    input_items = input_items_of(resolved, new_id, references)
    prepared: PreparedTurn | None = None
    compaction: Sequence[HistoryItem] = ()
    if request.compaction_threshold is not None:
        prepared = prepare_turn(turn)
        if len(prepared.prompt) > request.compaction_threshold:
            items = [*history.items, *input_items]
            # Everything before the response becomes one item, of half the tokens that are allowed.
            opened = opened_items(items, OwnerCipher(services.cipher, owner))
            count = prompt_counter(services, owner, request, history)
            kept = compacted_items(opened, request.compaction_threshold // 2, count)
            compaction = [HistoryItem(compaction_item(services, owner, kept))]
            empty = resolved.model_copy(update={"input": [], "messages": None})
            turn = _turn(services, owner, empty, history._replace(items=compaction), {}, servers)
            prepared = None
    called = {namespace_of(pending.call.recipient) for pending in answered.approved}
    turn = replace(
        turn,
        built_in_tools=turn.built_in_tools | called,
        approvals=frozenset(servers.approvals),
    )
    turn, prepared = truncated_turn(services, request, turn, prepared)
    response = response_of(request, id=new_id("resp"), created_at=int(time.time()), model=model)
    if request.background:
        response = response.model_copy(update={"status": "queued"})
    # In a conversation, the calls of a repeated request are in its history.
    repeated = answered.repeated if request.conversation is not None else ()
    used = [*(pending.request_id for pending in answered.approved), *repeated]
    open_tools = partial(_tools, services, owner, request, history, servers, turn, response.id)
    return ResponsePlan(
        caller=caller,
        request=request,
        response=response.to_dict(),
        turn=turn,
        prepared=prepared,
        history=history,
        input=input_items,
        tools=open_tools(),
        open_tools=open_tools,
        listings=servers.new_listings(history.items, input_items),
        approved=answered.approved,
        claims=[Claim(f"approval {id}") for id in used],
        compaction=compaction,
        is_generated=is_generated,
    )


def _tools(
    services: Services,
    owner: str,
    request: ResponsesRequest,
    history: History,
    servers: RequestedServers,
    turn: TurnRequest,
    response_id: str,
) -> ConversationTools:
    """Open the tools of a response, with their sessions and files in this conversation."""
    tools = {name: services.tools[name] for name in sorted(turn.built_in_tools)}
    sessions = sessions_of(services, owner, request, history) if tools else ()
    sessions = _with_container(services, owner, request, sessions)
    stored_files = services.store.blocking.files
    files = [
        file
        for session in sessions
        if has_files(session.tool)
        for file in stored_files.list(session.id, owner)
    ]
    opened = ConversationTools(
        tools,
        sessions,
        files=files,
        storage=FileStorage(services.store, owner, response_id) if request.is_stored else None,
        include=request.include or (),
        functions=servers.functions if tools else None,
        owner=owner,
    )
    if opened.containers:
        _put_files(services, owner, request, opened)
    return opened


def _with_container(
    services: Services, owner: str, request: ResponsesRequest, sessions: Sequence[StoredSession]
) -> Sequence[StoredSession]:
    """Replace sessions by those of the containers that the request names."""
    for name, container in _containers(request):
        if not isinstance(container.value, str):
            continue
        named = services.store.blocking.sessions.by_id(container.value, name, owner)
        try:
            expires_at = services.settings.expires_at(int(time.time()))
            services.store.blocking.containers.touch(container.value, owner, expires_at)
        except NotFoundError:
            raise container.error(
                f"there is no container {container.value!r:.80}; make one, name one of an earlier "
                'response, or send {"type": "auto"}'
            ) from None
        named = named or StoredSession(name, container.value, "{}", continues=True)
        sessions = [*(session for session in sessions if session.tool != name), named]
    return sessions


def named_container(request: ResponsesRequest) -> str | None:
    """Return the id of the container that a request names."""
    named = [container.value for _, container in _containers(request)]
    return next((id for id in reversed(named) if isinstance(id, str)), None)


def _containers(request: ResponsesRequest) -> Iterator[tuple[str, JsonField]]:
    """Yield the tools of a request whose sessions are containers, with what it asks for."""
    for tool in JsonField(request.tools, "tools").optional_items():
        name = requested_tool(tool["type"].text())
        if name in tools_with_container():
            yield name, tool["container"]


def _put_files(
    services: Services, owner: str, request: ResponsesRequest, tools: ConversationTools
) -> None:
    """Put the client's files into containers: those of the containers and of the request."""
    uploads = services.store.blocking.uploads
    read = partial(uploads.data, owner=owner)
    for name, container in _containers(request):
        is_described = name in tools.containers and isinstance(container.value, dict)
        for file_id in container["file_ids"].optional_items() if is_described else ():
            try:
                tools.put_file(name, uploads.get(file_id.text(), owner), read)
            except NotFoundError as error:
                raise file_id.error(f"{error}; upload it to /v1/files") from None
    for name, id in tools.containers.items():
        for file in services.store.blocking.containers.files(id, owner):
            tools.put_file(name, file, read)


def planned_turn(services: Services, owner: str, request: ResponsesRequest) -> TurnRequest:
    """Read a request and the items before it; this blocks."""
    history = history_of(services, owner, request)
    resolved, references, servers, _ = _resolved(services, owner, request, history)
    return _turn(services, owner, resolved, history, references, servers)


def _resolved(
    services: Services, owner: str, request: ResponsesRequest, history: History
) -> tuple[ResponsesRequest, dict[str, HistoryItem], RequestedServers, AnsweredRequests]:
    """Find the stored items, MCP servers and answered approvals that a request names."""
    resolved, references = with_stored_items(services, owner, request)
    servers = requested_servers(request, services.tools)

    def find(id: str) -> HistoryItem | None:
        stored = history_items(services.store.blocking.find_items([id], owner).values())
        return references.get(id) or next(iter(stored), None)

    is_signed = partial(services.cipher.is_signed, owner=owner)
    answered = answered_requests(resolved, history.items, servers.functions, find, is_signed)
    references.update(answered.items)
    return answered.request, references, servers, answered


def _turn(
    services: Services,
    owner: str,
    request: ResponsesRequest,
    history: History,
    references: dict[str, HistoryItem],
    servers: RequestedServers,
) -> TurnRequest:
    turn = turn_of_response(
        servers.with_choice(request),
        history.items,
        date=history.date,
        decrypt=OwnerCipher(services.cipher, owner).decrypt,
        references=references,
        built_in={**services.built_in, **servers.namespaces},
    )
    services.unknown_fields.check_turn(ResponsesRequest, turn, owner, listed="mcp")
    return turn
