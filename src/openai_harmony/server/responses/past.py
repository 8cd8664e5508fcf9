"""What was said before a request: from the store, or from the memory of a connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ...apis.history import HistoryItem
from ...apis.responses_request import ResponsesRequest
from ..api_error import ApiError
from ..services import Services
from ..store import NotFoundError, StoredItem, StoredSession

__all__ = [
    "CURRENT_DATE",
    "Past",
    "as_history",
    "past_of",
    "previous_not_found",
    "sessions_of",
    "with_stored_items",
]

CURRENT_DATE = "_current_date"
"""Where the body of a stored response has the date that its model read; clients do not see it."""


class Past(NamedTuple):
    """The items before those of the request, and the date that the model reads.

    `is_stored` is False where only a connection remembers them, and then the `sessions` of tools.
    """

    items: Sequence[HistoryItem] = ()
    date: str | None = None
    is_stored: bool = True
    sessions: Sequence[StoredSession] = ()


def past_of(services: Services, owner: str, request: ResponsesRequest) -> Past:
    """Read what a request goes on from; it blocks. Raises `ApiError` where that is not there.

    The prompts of a chain all show the date of its first response, token for token.
    """
    if request.previous_response_id is not None:
        return _past_of_response(services, owner, request.previous_response_id)
    if request.conversation is not None:
        return _past_of_conversation(services, owner, request.conversation)
    return Past(date=services.current_date())


def sessions_of(
    services: Services, owner: str, request: ResponsesRequest, past: Past
) -> Sequence[StoredSession]:
    """Read the sessions of the server's tools that a request goes on with; it blocks."""
    if not past.is_stored:
        return past.sessions
    if request.previous_response_id is not None:
        return services.store.sessions.after_response(request.previous_response_id, owner)
    if request.conversation is not None:
        return services.store.sessions.in_conversation(request.conversation, owner)
    return ()


def with_stored_items(
    services: Services, owner: str, request: ResponsesRequest
) -> tuple[ResponsesRequest, dict[str, HistoryItem]]:
    """Find the items that the input names, or repeats, by their ids; it blocks.

    An item that was stored and is sent again as it was becomes a reference, so that the prompt
    repeats the tokens that it was sampled as. Returns the request, and the items by their ids.
    """
    items = request.items
    ids = [item["id"] for item in items if isinstance(item.get("id"), str)]
    if not ids:
        return request, {}
    found = services.store.find_items(ids, owner)
    known = dict(zip(found, as_history(found.values()), strict=True))
    changed = [_reference(item, known) for item in items]
    return request.model_copy(update={request.items_field: changed}), known


def _past_of_response(services: Services, owner: str, id: str) -> Past:
    try:
        before = services.store.responses.get(id, owner)
        items = services.store.responses.history(id, owner)
    except NotFoundError:
        raise previous_not_found(id) from None
    if before.is_running:
        raise ApiError(
            400,
            f"the response {id!r} has not ended; wait for its end, or cancel it",
            param="previous_response_id",
            code="previous_response_not_ended",
        )
    date = before.body.get(CURRENT_DATE, services.current_date())
    return Past(as_history(items), date)


def previous_not_found(id: str) -> ApiError:
    """What is said where a request goes on from a response that is not there."""
    return ApiError(
        400,
        f"Previous response with id {id!r} not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _past_of_conversation(services: Services, owner: str, id: str) -> Past:
    try:
        conversation = services.store.conversations.get(id, owner)
        items = services.store.conversations.items(id, owner)
    except NotFoundError:
        raise ApiError(
            404,
            f"Conversation with id {id!r} not found.",
            param="conversation",
            code="conversation_not_found",
        ) from None
    date = services.settings.current_date
    if date == "today":
        begun = datetime.fromtimestamp(conversation.created_at, timezone.utc)
        date = begun.date().isoformat()
    return Past(as_history(items), date)


def as_history(items: Iterable[StoredItem]) -> list[HistoryItem]:
    """Make of stored items what a turn is made from."""
    return [HistoryItem(item.item, item.tokens, item.messages or ()) for item in items]


def _reference(item: dict[str, Any], known: Mapping[str, HistoryItem]) -> dict[str, Any]:
    stored = known.get(item["id"]) if isinstance(item.get("id"), str) else None
    if stored is None or not _says_the_same(item, stored):
        return item
    return {"type": "item_reference", "id": item["id"]}


def _says_the_same(item: Mapping[str, Any], stored: HistoryItem) -> bool:
    is_bare = not (item.get("content") or item.get("encrypted_content"))
    if item.get("type") == stored.item["type"] == "reasoning" and is_bare:
        return True  # the client sends no text of it, and the server has it
    return bool(stored.tokens or stored.messages) and _gist(item) == _gist(stored.item)


_GIST = ("role", "phase", "call_id", "name", "namespace", "arguments", "input", "code")


def _gist(item: Mapping[str, Any]) -> list[Any]:
    """What an item says to the model: clients leave some of the rest out."""
    content = item.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text")) for part in content if isinstance(part, dict))
    return [item.get("type") or "message", content, *map(item.get, _GIST)]
