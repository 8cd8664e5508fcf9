"""Responses as the store keeps them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...apis.history import HistoryItem
from ..services import Services
from ..store import NewItem, NewResponse, Page, StoredResponse
from .past import CURRENT_DATE
from .plan import ResponsePlan

__all__ = ["begin_record", "finish_record", "new_items", "page_json", "response_json"]

_DAY = 24 * 60 * 60  # seconds


def begin_record(services: Services, plan: ResponsePlan) -> None:
    """Keep a response that begins; it blocks.

    What comes before it and is not stored becomes a part of its input.
    """
    follows = plan.past.is_stored
    response = plan.response
    created_at = response["created_at"]
    days = services.settings.keep_days
    services.store.responses.begin(
        NewResponse(
            id=plan.id,
            owner=plan.owner,
            created_at=created_at,
            body=_body(plan, response),
            input=new_items(plan.input if follows else [*plan.past.items, *plan.input]),
            status=response["status"],
            background=plan.is_background,
            expires_at=None if days is None else created_at + round(days * _DAY),
            previous_response_id=response["previous_response_id"] if follows else None,
            conversation_id=plan.request.conversation,
        )
    )


def finish_record(
    services: Services,
    plan: ResponsePlan,
    response: Mapping[str, Any],
    output: Sequence[HistoryItem],
    events: Sequence[Mapping[str, Any]],
) -> bool:
    """Keep a response that has ended; it blocks. False where it was deleted or had ended before."""
    return services.store.responses.finish(
        plan.id,
        status=response["status"],
        body=_body(plan, response),
        output=new_items(output),
        events=events,
        completed_at=response["completed_at"],
        sessions=(
            plan.tools.sessions()
            if plan.past.is_stored
            else plan.tools.all_sessions(plan.past.sessions)
        ),
    )


def response_json(stored: StoredResponse) -> dict[str, Any]:
    """Write a response as clients see it."""
    shown = {name: value for name, value in stored.body.items() if name != CURRENT_DATE}
    return {**shown, "output": [item.item for item in stored.output]}


def page_json(page: Page) -> dict[str, Any]:
    """Write a list of items as clients see it."""
    items = page.items
    return {
        "object": "list",
        "data": [item.item for item in items],
        "first_id": items[0].id if items else "",
        "last_id": items[-1].id if items else "",
        "has_more": page.has_more,
    }


def new_items(items: Iterable[HistoryItem]) -> list[NewItem]:
    """Make of items what the store keeps."""
    return [
        NewItem(known.item["id"], known.item, known.tokens, known.messages or None)
        for known in items
    ]


def _body(plan: ResponsePlan, response: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in response.items() if name != "output"}
    return {**kept, CURRENT_DATE: plan.past.date}
