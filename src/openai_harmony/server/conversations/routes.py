"""The routes of conversations, and of the items in them."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from ...apis.request_body import Metadata, RequestBody
from ..answers.json_answer import JsonAnswer
from ..identifiers import new_id
from ..keys.caller import KnownCaller
from ..responses.records import page_json
from ..services import services_of
from ..store import Conversation, Order, Page, StoredItem
from .items import read_items

__all__ = ["router"]

router = APIRouter(prefix="/v1/conversations", tags=["Conversations"])

_MOST_ITEMS = 20  # in one request

Items = Annotated["list[dict[str, Any]]", Field(max_length=_MOST_ITEMS)]


class ConversationRequest(RequestBody):
    """A new conversation, and what it begins with."""

    items: Items | None = None
    metadata: Metadata | None = None


class ConversationUpdate(RequestBody):
    """The metadata that take the place of those before."""

    metadata: Metadata | None


class ItemsRequest(RequestBody):
    """Items to add to a conversation."""

    items: Items


@router.post("")
async def create(body: ConversationRequest, request: Request, caller: KnownCaller) -> Response:
    """Begin a conversation."""
    services = services_of(request)
    metadata = dict(body.metadata or {})
    conversation = Conversation(new_id("conv"), caller.owner, int(time.time()), metadata)
    items = await asyncio.to_thread(read_items, services, caller.owner, body.items or [])
    await asyncio.to_thread(services.store.conversations.create, conversation, items)
    return JsonAnswer(_conversation_json(conversation))


@router.get("/{conversation_id}")
async def retrieve(conversation_id: str, request: Request, caller: KnownCaller) -> Response:
    """Read a conversation, without its items."""
    conversations = services_of(request).store.conversations
    found = await asyncio.to_thread(conversations.get, conversation_id, caller.owner)
    return JsonAnswer(_conversation_json(found))


@router.post("/{conversation_id}")
async def update(
    conversation_id: str, body: ConversationUpdate, request: Request, caller: KnownCaller
) -> Response:
    """Replace the metadata."""
    conversations = services_of(request).store.conversations
    metadata = body.metadata or {}
    changed = await asyncio.to_thread(conversations.update, conversation_id, caller.owner, metadata)
    return JsonAnswer(_conversation_json(changed))


@router.delete("/{conversation_id}")
async def delete(conversation_id: str, request: Request, caller: KnownCaller) -> dict[str, Any]:
    """Delete a conversation and its items; responses that were made in it stay."""
    conversations = services_of(request).store.conversations
    await asyncio.to_thread(conversations.delete, conversation_id, caller.owner)
    return {"id": conversation_id, "object": "conversation.deleted", "deleted": True}


@router.post("/{conversation_id}/items")
async def create_items(
    conversation_id: str, body: ItemsRequest, request: Request, caller: KnownCaller
) -> Response:
    """Add items at the end."""
    services = services_of(request)
    conversations = services.store.conversations

    def add() -> Page:
        before = conversations.items(conversation_id, caller.owner)
        added = read_items(services, caller.owner, body.items, before)
        conversations.add_items(conversation_id, caller.owner, added)
        return Page(tuple(StoredItem(item.id, dict(item.item)) for item in added), has_more=False)

    return JsonAnswer(page_json(await asyncio.to_thread(add)))


@router.get("/{conversation_id}/items")
async def list_items(
    conversation_id: str,
    request: Request,
    caller: KnownCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
) -> Response:
    """List the items."""
    conversations = services_of(request).store.conversations
    page = await asyncio.to_thread(
        conversations.list_items,
        conversation_id,
        caller.owner,
        after=after,
        limit=limit,
        order=order,
    )
    return JsonAnswer(page_json(page))


@router.get("/{conversation_id}/items/{item_id}")
async def retrieve_item(
    conversation_id: str, item_id: str, request: Request, caller: KnownCaller
) -> Response:
    """Read one item."""
    conversations = services_of(request).store.conversations
    found = await asyncio.to_thread(conversations.get_item, conversation_id, caller.owner, item_id)
    return JsonAnswer(found.item)


@router.delete("/{conversation_id}/items/{item_id}")
async def delete_item(
    conversation_id: str, item_id: str, request: Request, caller: KnownCaller
) -> Response:
    """Delete one item; the answer is the conversation."""
    conversations = services_of(request).store.conversations
    left = await asyncio.to_thread(
        conversations.delete_item, conversation_id, caller.owner, item_id
    )
    return JsonAnswer(_conversation_json(left))


def _conversation_json(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": conversation.metadata,
    }
