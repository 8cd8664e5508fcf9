"""The items that clients put into conversations, read as a request to respond would read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...apis.input_items import input_items_of
from ...apis.responses_request import ResponsesRequest
from ...apis.turns import turn_of_response
from ...errors import ConversationError
from ..identifiers import new_id
from ..responses.past import as_history, with_stored_items
from ..responses.records import new_items
from ..responses.sealing import OwnedSeal
from ..services import Services
from ..store import NewItem, StoredItem

__all__ = ["read_items"]


def read_items(
    services: Services,
    owner: str,
    items: Sequence[dict[str, Any]],
    before: Sequence[StoredItem] = (),
) -> list[NewItem]:
    """Read items that follow those of `before`; it blocks.

    What the model could not be shown is refused now, and not with each response that would be made
    in the conversation. Raises `ConversationError`, which names the item at fault.
    """
    request, references = with_stored_items(services, owner, ResponsesRequest(input=list(items)))
    history = as_history(before)
    unseal = OwnedSeal(services.seal, owner).open
    try:
        turn_of_response(request, history, unseal=unseal, references=references)
    except ConversationError as error:
        field = error.field.replace("input", "items", 1)
        raise ConversationError(error.problem, field=field) from None
    return new_items(input_items_of(request, new_id, references))
