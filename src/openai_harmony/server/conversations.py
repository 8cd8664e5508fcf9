"""Conversations: their routes, and the items that clients put into them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from ..apis.input_items import input_items_of
from ..apis.request_body import Metadata, RequestBody
from ..apis.requests import ResponsesRequest
from ..apis.turn_request import turn_of_response
from ..errors import ConversationError
from .auth.api_keys import AuthenticatedCaller
from .http.identifiers import new_id
from .http.json import JsonResponse
from .responses.encryption import OwnerCipher
from .responses.history import history_items, new_items, page_json, with_stored_items
from .services import Services, services_of
from .store import Conversation, NewItem, Order, Page, StoredItem

__all__ = ["router"]


router = APIRouter(prefix="/v1/conversations", tags=["Conversations"])

_MAX_ITEMS = 20  # in one request

Items = Annotated["list[dict[str, Any]]", Field(max_length=_MAX_ITEMS)]


class ConversationRequest(RequestBody):
    """A new conversation, and its first items."""

    items: Items | None = None
    metadata: Metadata | None = None


class ConversationUpdate(RequestBody):
    """The metadata that take the place of those before."""

    metadata: Metadata | None


class ItemsRequest(RequestBody):
    """Items to add to a conversation."""

    items: Items


def read_items(
    services: Services,
    owner: str,
    items: Sequence[dict[str, Any]],
    before: Sequence[StoredItem] = (),
) -> list[NewItem]:
    """Read items that follow those of `before`, as a request to respond would; it blocks.

    Items that a prompt cannot show are refused now, and not with each response in the conversation.
    Raises `ConversationError`, which names the item at fault.
    """
    request, references = with_stored_items(services, owner, ResponsesRequest(input=list(items)))
    history = history_items(before)
    decrypt = OwnerCipher(services.cipher, owner).decrypt
    try:
        turn_of_response(request, history, decrypt=decrypt, references=references)
    except ConversationError as error:
        field = error.field.replace("input", "items", 1)
        raise ConversationError(error.problem, field=field) from None
    return new_items(input_items_of(request, new_id, references))


@router.post("")
async def create(
    body: ConversationRequest, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Begin a conversation."""
    services = services_of(request)
    metadata = dict(body.metadata or {})
    conversation = Conversation(new_id("conv"), caller.owner, int(time.time()), metadata)
    items = await asyncio.to_thread(read_items, services, caller.owner, body.items or [])
    await asyncio.to_thread(services.store.conversations.create, conversation, items)
    return JsonResponse(_conversation_json(conversation))


@router.get("/{conversation_id}")
async def retrieve(conversation_id: str, request: Request, caller: AuthenticatedCaller) -> Response:
    """Read a conversation, without its items."""
    conversations = services_of(request).store.conversations
    conversation = await asyncio.to_thread(conversations.get, conversation_id, caller.owner)
    return JsonResponse(_conversation_json(conversation))


@router.post("/{conversation_id}")
async def update(
    conversation_id: str, body: ConversationUpdate, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Replace the metadata."""
    conversations = services_of(request).store.conversations
    metadata = body.metadata or {}
    changed = await asyncio.to_thread(conversations.update, conversation_id, caller.owner, metadata)
    return JsonResponse(_conversation_json(changed))


@router.delete("/{conversation_id}")
async def delete(
    conversation_id: str, request: Request, caller: AuthenticatedCaller
) -> dict[str, Any]:
    """Delete a conversation and its items; responses that were made in it stay."""
    conversations = services_of(request).store.conversations
    await asyncio.to_thread(conversations.delete, conversation_id, caller.owner)
    return {"id": conversation_id, "object": "conversation.deleted", "deleted": True}


@router.post("/{conversation_id}/items")
async def create_items(
    conversation_id: str, body: ItemsRequest, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Add items at the end."""
    services = services_of(request)
    conversations = services.store.conversations

    def add() -> Page:
        before = conversations.items(conversation_id, caller.owner)
        added = read_items(services, caller.owner, body.items, before)
        conversations.add_items(conversation_id, caller.owner, added)
        return Page(tuple(StoredItem(item.id, dict(item.item)) for item in added), has_more=False)

    return JsonResponse(page_json(await asyncio.to_thread(add)))


@router.get("/{conversation_id}/items")
async def list_items(
    conversation_id: str,
    request: Request,
    caller: AuthenticatedCaller,
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
    return JsonResponse(page_json(page))


@router.get("/{conversation_id}/items/{item_id}")
async def retrieve_item(
    conversation_id: str, item_id: str, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Read one item."""
    conversations = services_of(request).store.conversations
    item = await asyncio.to_thread(conversations.get_item, conversation_id, caller.owner, item_id)
    return JsonResponse(item.item)


@router.delete("/{conversation_id}/items/{item_id}")
async def delete_item(
    conversation_id: str, item_id: str, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Delete one item; the answer is the conversation."""
    conversations = services_of(request).store.conversations
    conversation = await asyncio.to_thread(
        conversations.delete_item, conversation_id, caller.owner, item_id
    )
    return JsonResponse(_conversation_json(conversation))


def _conversation_json(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": conversation.metadata,
    }
