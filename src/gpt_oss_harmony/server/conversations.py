"""Conversations: their routes, and the items that clients add."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ..apis.request_body import MetadataUpdate
from ..apis.responses.request import (
    ConversationRequest,
    ItemsRequest,
    ResponsesRequest,
    input_items_of,
    turn_of_response,
)
from ..errors import ConversationError
from .auth.api_keys import AuthenticatedCaller
from .encryption import OwnerCipher
from .file_texts import without_read_text
from .http.json import JsonResponse
from .limited_route import LimitedRoute, in_pool, written
from .repeated_requests import IdempotencyKey, stored_once
from .responses.history import history_items, new_items, page_json, with_stored_items
from .services import Services, services_of
from .store import Conversation, NewItem, Order, Page, Store, StoredItem, new_id

router = APIRouter(prefix="/v1/conversations", tags=["Conversations"], route_class=LimitedRoute)


def read_items(
    services: Services,
    owner: str,
    items: Sequence[dict[str, Any]],
    before: Sequence[StoredItem] = (),
) -> list[NewItem]:
    """Read the items that follow those of `before`, like a request for a response; this blocks.

    Items that a prompt cannot contain are refused now, not later with each response. Raises
    `ConversationError`, which names the wrong item.
    """
    request, references = with_stored_items(services, owner, ResponsesRequest(input=list(items)))
    history = history_items(before)
    decrypt = OwnerCipher(services.cipher, owner).decrypt
    try:
        turn_of_response(request, history, decrypt=decrypt, references=references)
    except ConversationError as error:
        field = error.field.replace("input", "items", 1)
        raise ConversationError(error.problem, field=field) from None
    made = new_items(input_items_of(request, new_id, references))
    for index, item in enumerate(made):
        if not item.id or "/" in item.id:
            problem = f"no URL can name an item with the id {item.id!r}; leave the id out"
            raise ConversationError(problem, field=f"items[{index}].id")
    return made


@router.post("")
async def create(
    body: ConversationRequest, request: Request, caller: AuthenticatedCaller, key: IdempotencyKey
) -> Response:
    """Begin a conversation."""
    services = services_of(request)
    metadata = dict(body.metadata or {})
    conversation = Conversation(new_id("conv"), caller.owner, int(time.time()), metadata)
    owner, pool = caller.owner, services.pools.encoding
    given = body.items or []
    given = await services.file_texts.in_items(owner, given, "items") or given
    items = await in_pool(request, pool, owner, read_items, services, owner, given)

    def store(rows: Store) -> Conversation:
        rows.conversations.create(conversation, items)
        return conversation

    def find(rows: Store, id: str) -> Conversation:
        return rows.conversations.get(id, owner)

    claims = partial(key.claims, body)
    made = await stored_once(services, owner, claims, conversation.id, store, find)
    return JsonResponse(_conversation_json(made))


@router.get("/{conversation_id}")
async def retrieve(conversation_id: str, request: Request, caller: AuthenticatedCaller) -> Response:
    """Read a conversation, without its items."""
    services = services_of(request)
    conversation = await services.store.conversations.get(conversation_id, caller.owner)
    return JsonResponse(_conversation_json(conversation))


@router.post("/{conversation_id}")
async def update(
    conversation_id: str, body: MetadataUpdate, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Replace the metadata."""
    services, owner = services_of(request), caller.owner
    change = services.store.conversations.update
    changed = await change(conversation_id, owner, body.metadata or {})
    return JsonResponse(_conversation_json(changed))


@router.delete("/{conversation_id}")
async def delete(
    conversation_id: str, request: Request, caller: AuthenticatedCaller
) -> dict[str, Any]:
    """Delete a conversation and its items; its responses stay."""
    services = services_of(request)
    await services.store.conversations.delete(conversation_id, caller.owner)
    return {"id": conversation_id, "object": "conversation.deleted", "deleted": True}


@router.post("/{conversation_id}/items")
async def create_items(
    conversation_id: str,
    body: ItemsRequest,
    request: Request,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
) -> Response:
    """Add items at the end."""
    services, owner, pool = services_of(request), caller.owner, services_of(request).pools.encoding
    given = await services.file_texts.in_items(owner, body.items, "items") or body.items
    before = await services.store.conversations.items(conversation_id, owner)
    added = await in_pool(request, pool, owner, read_items, services, owner, given, before)

    def store(rows: Store) -> list[StoredItem]:
        rows.conversations.add_items(conversation_id, owner, added)
        return [StoredItem(item.id, dict(item.item)) for item in added]

    def find(rows: Store, ids: str) -> list[StoredItem]:
        get = rows.conversations.get_item
        return [get(conversation_id, owner, id) for id in json.loads(ids)]

    claims = partial(key.claims, body)
    ids = json.dumps([item.id for item in added])
    items = await stored_once(services, owner, claims, ids, store, find)
    return await written(request, owner, page_json(Page(tuple(items), has_more=False)))


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
    services, owner = services_of(request), caller.owner
    page = await services.store.conversations.list_items(
        conversation_id, owner, after=after, limit=limit, order=order
    )
    return await written(request, owner, page_json(page))


@router.get("/{conversation_id}/items/{item_id}")
async def retrieve_item(
    conversation_id: str, item_id: str, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Read one item."""
    services, owner = services_of(request), caller.owner
    item = await services.store.conversations.get_item(conversation_id, owner, item_id)
    return await written(request, owner, without_read_text(item.item))


@router.delete("/{conversation_id}/items/{item_id}")
async def delete_item(
    conversation_id: str, item_id: str, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Delete one item; return the conversation."""
    services = services_of(request)
    remove = services.store.conversations.delete_item
    conversation = await remove(conversation_id, caller.owner, item_id)
    return JsonResponse(_conversation_json(conversation))


def _conversation_json(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": conversation.metadata,
    }
