"""The items before a request: from the store, or from the memory of a connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ...apis.current_date import TODAY
from ...apis.items import HistoryItem
from ...apis.responses.request import ResponsesRequest
from ..file_texts import without_read_text
from ..http.errors import ApiError
from ..http.json import ListPage, list_json
from ..services import Services
from ..store import NewItem, NotFoundError, Page, StoredItem, StoredResponse, StoredSession

CURRENT_DATE = "_current_date"
"""The field of a stored body with the date of the prompt; clients do not see it."""

_COMPARED = ("role", "phase", "call_id", "name", "namespace", "arguments", "input", "code")


class History(NamedTuple):
    """The items before those of the request, and the date of the prompt.

    `is_stored` is False if only a connection has the items; it then also has the `sessions` of
    tools.
    """

    items: Sequence[HistoryItem] = ()
    date: str | None = None
    is_stored: bool = True
    sessions: Sequence[StoredSession] = ()


def history_of(services: Services, owner: str, request: ResponsesRequest) -> History:
    """Read the items that a request continues; this blocks. Raises `ApiError` if they are gone.

    All prompts of a chain have the date of its first response, so their tokens stay the same.
    """
    if request.previous_response_id is not None:
        return _of_response(services, owner, request.previous_response_id)
    if request.conversation is not None:
        return _of_conversation(services, owner, request.conversation)
    return History(date=services.current_date())


def _of_response(services: Services, owner: str, id: str) -> History:
    try:
        previous = services.store.blocking.responses.get(id, owner)
        items = services.store.blocking.responses.history(id, owner)
    except NotFoundError:
        raise ApiError(
            400,
            # The status, the words and the code are those of OpenAI's API.
            f"Previous response with id {id!r} not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        ) from None
    if previous.is_running:
        raise ApiError(
            400,
            f"the response {id!r} has not ended; wait for its end, or cancel it",
            param="previous_response_id",
            code="previous_response_not_ended",
        )
    date = previous.body.get(CURRENT_DATE, services.current_date())
    return History(history_items(items), date)


def _of_conversation(services: Services, owner: str, id: str) -> History:
    try:
        conversation = services.store.blocking.conversations.get(id, owner)
        items = services.store.blocking.conversations.items(id, owner)
    except NotFoundError:
        raise ApiError(
            404,
            f"Conversation with id {id!r} not found.",
            param="conversation",
            code="conversation_not_found",
        ) from None
    date = services.settings.current_date
    if date == TODAY:
        created = datetime.fromtimestamp(conversation.created_at, timezone.utc)
        date = created.date().isoformat()
    return History(history_items(items), date)


def sessions_of(
    services: Services, owner: str, request: ResponsesRequest, history: History
) -> Sequence[StoredSession]:
    """Read the sessions of the server's tools that a request continues; this blocks."""
    if not history.is_stored:
        return services.store.blocking.sessions.kept(history.sessions)
    if request.previous_response_id is not None:
        return services.store.blocking.sessions.after_response(request.previous_response_id, owner)
    if request.conversation is not None:
        return services.store.blocking.sessions.in_conversation(request.conversation, owner)
    return ()


def with_stored_items(
    services: Services, owner: str, request: ResponsesRequest
) -> tuple[ResponsesRequest, dict[str, HistoryItem]]:
    """Find the items that the input names or repeats, by their ids; this blocks.

    A stored item that is sent again unchanged becomes a reference, so that the prompt repeats its
    sampled tokens. Returns the request, and the items by their ids.
    """
    items = request.items
    ids = [item["id"] for item in items if isinstance(item.get("id"), str)]
    if not ids:
        return request, {}
    by_id = services.store.blocking.find_items(ids, owner)
    stored = dict(zip(by_id, history_items(by_id.values()), strict=True))
    replaced = []
    for item in items:
        original = stored.get(item["id"]) if isinstance(item.get("id"), str) else None
        is_repeated = original is not None and _is_repetition(item, original)
        replaced.append({"type": "item_reference", "id": item["id"]} if is_repeated else item)
    return request.model_copy(update={request.items_field: replaced}), stored


def _is_repetition(item: Mapping[str, Any], stored: HistoryItem) -> bool:
    has_no_text = not (item.get("content") or item.get("encrypted_content"))
    if item.get("type") == stored.item["type"] == "reasoning" and has_no_text:
        return True  # the client did not send its text, but the server has it
    # Without either, the stored item gives the prompt nothing that the sent one lacks.
    return bool(stored.tokens or stored.messages) and _gist(item) == _gist(stored.item)


def _gist(item: Mapping[str, Any]) -> list[Any]:
    """Return the fields that the model reads; clients may leave out others."""
    content = item.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text")) for part in content if isinstance(part, dict))
    return [item.get("type") or "message", content, *map(item.get, _COMPARED)]


# Items of the store to those of requests and responses, and back


def history_items(items: Iterable[StoredItem]) -> list[HistoryItem]:
    """Convert stored items to the items of a turn."""
    return [HistoryItem(item.item, item.tokens, item.messages or ()) for item in items]


def new_items(items: Iterable[HistoryItem]) -> list[NewItem]:
    """Convert items to those that can be stored."""
    return [
        NewItem(item.item["id"], item.item, item.tokens, item.messages or None) for item in items
    ]


def response_json(stored: StoredResponse) -> dict[str, Any]:
    """Write a stored response as clients see it."""
    body = {name: value for name, value in stored.body.items() if name != CURRENT_DATE}
    return {**body, "output": [item.item for item in stored.output]}


def page_json(page: Page[StoredItem]) -> ListPage[Any]:
    """Write a list of items as clients see it."""
    return list_json(
        [dict(without_read_text(item.item)) for item in page.items], has_more=page.has_more
    )
