"""A conversation as one item that only the server can read.

Nothing is summed up: what the model would be shown of the conversation is what it will be shown of
the item, token for token. That leaves past reasoning out, so the item is shorter than the items
that it stands for, and a client has one thing to keep.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...apis.history import HistoryItem
from ...apis.input_items import input_items_of
from ...apis.response import ResponseUsage
from ...apis.responses_request import ResponsesRequest
from ...apis.turns import turn_of_response
from ..identifiers import new_id
from ..services import Services
from .past import past_of, with_stored_items
from .sealing import OwnedSeal

__all__ = ["CompactionRequest", "compact"]


class CompactionRequest(ResponsesRequest):
    """A conversation to compact, as a request to respond to it would have it."""

    model: str


def compact(services: Services, owner: str, request: CompactionRequest) -> dict[str, Any]:
    """Make one item of a conversation; it blocks. Raises what planning a response raises.

    No model is asked, so that the usage is nothing.
    """
    services.check_model(request.model)
    past = past_of(services, owner, request)
    whole, references = with_stored_items(services, owner, request)
    seal = OwnedSeal(services.seal, owner)
    turn_of_response(
        whole,
        past.items,
        unseal=seal.open,
        references=references,
        built_in=services.built_in,
    )
    items = [*past.items, *input_items_of(whole, new_id, references)]
    sealed = seal.seal(_without_past_reasoning(items))
    return {
        "id": new_id("resp"),
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [{"type": "compaction", "id": new_id("cmp"), "encrypted_content": sealed}],
        "usage": ResponseUsage.of(0, 0, 0, 0).model_dump(),
    }


def _without_past_reasoning(items: Sequence[HistoryItem]) -> list[HistoryItem]:
    """Leave out what the model is not shown again."""
    answers = [at for at, known in enumerate(items) if _is_answer(known)]
    last = answers[-1] if answers else -1
    return [known for at, known in enumerate(items) if at > last or not _is_reasoning(known)]


def _is_reasoning(known: HistoryItem) -> bool:
    """Whether an item goes with the reasoning: calls of built-in tools within it do."""
    if known.messages:
        return known.messages[0].get("channel") == "analysis"
    return known.item.get("type") == "reasoning"


def _is_answer(known: HistoryItem) -> bool:
    return known.item.get("phase") == "final_answer"
