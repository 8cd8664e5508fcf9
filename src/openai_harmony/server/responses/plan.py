"""A request to respond, read and prepared: all that can be wrong with it is found here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...apis.history import HistoryItem
from ...apis.input_items import input_items_of
from ...apis.response import response_of
from ...apis.responses_request import ResponsesRequest
from ...apis.turn_request import TurnRequest
from ...apis.turns import turn_of_response
from ...encoding import load_harmony_encoding
from ...engines.errors import ContextLengthError
from ...sampled_messages import SampledMessage
from ..identifiers import new_id
from ..keys.caller import Caller
from ..services import Services
from ..tools.conversation_tools import ConversationTools, FileKeeper
from ..tools.mcp_servers import WantedServers, wanted_servers
from ..turns.preparation import RENDERING, prepare_turn
from ..turns.sampled_turn import PreparedTurn
from .past import Past, past_of, sessions_of, with_stored_items
from .sealing import OwnedSeal
from .truncation import without_oldest_turns

__all__ = [
    "ResponsePlan",
    "plan_response",
    "planned_prompt",
    "planned_turn",
    "prepare_plan_turn",
]

_LEAST_ROOM = 4  # a part of the context: what truncation leaves for the answer


@dataclass(frozen=True)
class ResponsePlan:
    """What a response is made of.

    - `response`: the resource as it begins; `turn`, `prepared`: what the engine gets.
    - `past`: what comes before it; `input`: the items of the request, whole.
    - `tools`: the server's own that it may use; `listings` are what its MCP servers have, where
      the conversation does not say it yet.
    - `is_generated`: False where the state is prepared alone, for a later request.
    """

    caller: Caller
    request: ResponsesRequest
    response: dict[str, Any]
    turn: TurnRequest
    prepared: PreparedTurn
    past: Past
    input: Sequence[HistoryItem]
    tools: ConversationTools
    listings: Sequence[Mapping[str, Any]] = ()
    is_generated: bool = True

    @property
    def owner(self) -> str:
        """Whose response it is."""
        return self.caller.owner

    @property
    def id(self) -> str:
        """The id of the response."""
        return str(self.response["id"])

    @property
    def is_stored(self) -> bool:
        """Whether the response is kept."""
        return self.request.is_stored

    @property
    def is_background(self) -> bool:
        """Whether it goes on without a client."""
        return bool(self.request.background)


def plan_response(
    services: Services,
    caller: Caller,
    request: ResponsesRequest,
    *,
    past: Past | None = None,
    is_generated: bool = True,
) -> ResponsePlan:
    """Read a request and what it goes on from, and render the prompt; it blocks.

    `past` takes the place of what the store has. Raises `HarmonyError` of many kinds, which
    `ApiError.of` knows.
    """
    model = services.check_model(request.model)
    owner = caller.owner
    begun = past or past_of(services, owner, request)
    whole, references = with_stored_items(services, owner, request)
    servers = wanted_servers(request, services.tools)
    turn = _turn(services, owner, whole, begun, references, servers)
    turn, prepared = prepare_plan_turn(services, request, turn)
    sent = input_items_of(whole, new_id, references)
    response = response_of(request, id=new_id("resp"), created_at=int(time.time()), model=model)
    if request.background:
        response = response.model_copy(update={"status": "queued"})
    return ResponsePlan(
        tools=_tools(services, owner, request, turn, begun, servers, response.id),
        listings=servers.new_listings(begun.items, sent),
        caller=caller,
        request=request,
        response=response.to_dict(),
        turn=turn,
        prepared=prepared,
        past=begun,
        input=sent,
        is_generated=is_generated,
    )


def planned_prompt(services: Services, owner: str, request: ResponsesRequest) -> list[int]:
    """Render the prompt of a request, whatever its length; it blocks."""
    return prepare_turn(planned_turn(services, owner, request), constrain=False)[0]


def planned_turn(services: Services, owner: str, request: ResponsesRequest) -> TurnRequest:
    """Read a request and what it goes on from; it blocks."""
    past = past_of(services, owner, request)
    whole, references = with_stored_items(services, owner, request)
    servers = wanted_servers(request, services.tools)
    return _turn(services, owner, whole, past, references, servers)


def _turn(
    services: Services,
    owner: str,
    request: ResponsesRequest,
    past: Past,
    references: dict[str, HistoryItem],
    servers: WantedServers,
) -> TurnRequest:
    return turn_of_response(
        servers.with_choice(request),
        past.items,
        date=past.date,
        unseal=OwnedSeal(services.seal, owner).open,
        references=references,
        built_in={**services.built_in, **servers.namespaces},
    )


def _tools(
    services: Services,
    owner: str,
    request: ResponsesRequest,
    turn: TurnRequest,
    past: Past,
    servers: WantedServers,
    id: str,
) -> ConversationTools:
    """Open the tools that the request may use, as the conversation has left them."""
    tools = {name: services.tools[name] for name in sorted(turn.built_in_tools)}
    if not tools:
        return ConversationTools({})
    sessions = sessions_of(services, owner, request, past)
    containers = [session.id for session in sessions if session.tool != "browser"]
    return ConversationTools(
        tools,
        sessions,
        files=[file for one in containers for file in services.store.files.list(one, owner)],
        keeper=FileKeeper(services.store, id) if request.is_stored else None,
        include=request.include or (),
        functions=servers.functions,
    )


def prepare_plan_turn(
    services: Services, request: ResponsesRequest, turn: TurnRequest
) -> tuple[TurnRequest, PreparedTurn]:
    """Prepare a turn of a response, truncated where the request asks for it; it blocks.

    Raises `ContextLengthError` where there is no room for a token.
    """
    with services.metrics.preparation.time():
        prepared = PreparedTurn(*prepare_turn(turn, constrain=services.settings.grammar))
        if request.truncation == "auto":
            turn, prepared = _truncated(services, turn, prepared)
    ContextLengthError.check(len(prepared.prompt), services.context_length)
    return turn, prepared


def _truncated(
    services: Services, turn: TurnRequest, prepared: PreparedTurn
) -> tuple[TurnRequest, PreparedTurn]:
    limit = services.context_length
    room = min(turn.sampling.max_tokens or limit, limit // _LEAST_ROOM)
    excess = len(prepared.prompt) + room - limit
    if excess <= 0:
        return turn, prepared
    shorter = without_oldest_turns(turn.conversation, _lengths(turn), excess)
    turn = replace(turn, conversation=shorter)
    return turn, PreparedTurn(prepare_turn(turn, constrain=False)[0], prepared.sampling)


def _lengths(turn: TurnRequest) -> list[int]:
    """Count the tokens of each message."""
    messages = turn.conversation.messages
    lengths = [0] * len(messages)
    encoding = load_harmony_encoding("HarmonyGptOss")
    for segment in encoding.segments_for_completion(turn.conversation, None, RENDERING):
        lengths[segment.message] += len(segment.tokens)
    for at, message in enumerate(messages):
        if isinstance(message, SampledMessage):
            lengths[at] = len(message.sampled_tokens) + 2
    return lengths
