"""Approvals of MCP calls: the calls that need one, and the answers of clients.

A call that needs an approval ends its response with an item ``mcp_approval_request``. The client
answers with ``mcp_approval_response`` in a later request. An approved call then runs before the
model continues; for a declined call, the model gets a message that it was declined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...apis.items import HistoryItem
from ...apis.requests import ResponsesRequest
from ...conversation.json_field import JsonField
from ...conversation.messages import Message, Role
from ...sampled_messages import SampledMessage
from ...tools.tool import ServerFunction
from ...tools.tool_message import failure_message
from ..identifiers import new_id

__all__ = [
    "AnsweredRequests",
    "ApprovedCall",
    "answered_requests",
    "approval_item",
    "needs_approval",
]

_REQUEST, _RESPONSE = "mcp_approval_request", "mcp_approval_response"


@dataclass(frozen=True)
class ApprovedCall:
    """An approved call that has not run yet, and the id of its approval request."""

    call: Message
    request_id: str


@dataclass(frozen=True)
class AnsweredRequests:
    """A request whose declined calls are references to `items`, and the calls that it approves."""

    request: ResponsesRequest
    items: Mapping[str, HistoryItem]
    approved: Sequence[ApprovedCall] = ()
    repeated: Sequence[str] = ()
    """The ids of the approvals, if the request has nothing else, and their calls have run."""


def needs_approval(rule: JsonField, function: ServerFunction) -> bool:
    """Return whether a call needs an approval, by the `require_approval` of a request.

    The default is ``always``. A rule that lists tools under ``always`` means ``never`` for all
    others, unless it also lists tools under ``never``.
    """
    if rule.is_null or rule.value == "always":
        return True
    if rule.value == "never":
        return False
    if not isinstance(rule.value, Mapping):
        raise rule.unexpected("always, never, or an object of both")
    always, never = rule["always"], rule["never"]
    if not always.is_null and _is_in(always, function):
        return True
    if not never.is_null:
        return not _is_in(never, function)
    return always.is_null


def _is_in(tools: JsonField, function: ServerFunction) -> bool:
    names, read_only = tools["tool_names"], tools["read_only"]
    has_name = names.is_null or function.name in [name.text() for name in names.items()]
    return has_name and (read_only.is_null or function.is_read_only is read_only.value)


def approval_item(id: str, label: str, name: str, arguments: str) -> dict[str, Any]:
    """Make the item that requests an approval."""
    fields = {"id": id, "server_label": label, "name": name, "arguments": arguments}
    return {"type": _REQUEST, **fields}


def answered_requests(
    request: ResponsesRequest,
    history: Sequence[HistoryItem],
    functions: Mapping[str, Mapping[str, ServerFunction]],
    find: Callable[[str], HistoryItem | None],
) -> AnsweredRequests:
    """Read the approvals in the input of a request.

    `functions` are the MCP functions that the request may call, by the label of their server;
    `find` reads a stored item. Raises `ConversationError` for an answer without a request.
    """
    sent = [
        (item.get("type") == "item_reference" and find(str(item.get("id")))) or HistoryItem(item)
        for item in request.items
    ]
    items = [*sent, *history]  # the server's own come last, and win over those of the client
    run = {
        str(item.item.get("approval_request_id"))
        for item in items
        if item.item.get("type") == "mcp_call"
    }
    asked = {str(item.item.get("id")): item for item in items if item.item.get("type") == _REQUEST}
    replaced: list[dict[str, Any]] = []
    declined: dict[str, HistoryItem] = {}
    approved: list[ApprovedCall] = []
    repeated: list[str] = []
    for item in JsonField(request.items, request.items_field).items():
        replaced.append(dict(item.object()))
        if item["type"].value != _RESPONSE:
            continue
        request_id = item["approval_request_id"].text()
        if not isinstance(item["approve"].value, bool):
            raise item["approve"].unexpected("true or false")
        if request_id in run:
            repeated += [request_id] if item["approve"].value else []
            continue
        question = find(request_id) or asked.get(request_id)
        if question is None or question.item.get("type") != _REQUEST:
            problem = f"no approval was requested under the id {request_id!r:.80}"
            raise item["approval_request_id"].error(problem)
        call = _call_of(question, functions, item["approval_request_id"])
        if item["approve"].value:
            approved.append(ApprovedCall(call, request_id))
            run.add(request_id)
            continue
        reason = item["reason"].optional_text()
        problem = "the user declined this call" + (f": {reason}" if reason else "")
        denial = failure_message(call, problem)
        id = new_id("mcpa")
        tokens = call.sampled_tokens if isinstance(call, SampledMessage) else None
        messages = [call.to_dict(), denial.to_dict()]
        declined[id] = HistoryItem({**item.object(), "id": id}, tokens, messages)
        replaced[-1] = {"type": "item_reference", "id": id}
    answered = request.model_copy(update={request.items_field: replaced}) if declined else request
    is_repetition = len(repeated) == len(sent)
    return AnsweredRequests(answered, declined, approved, repeated if is_repetition else ())


def _call_of(
    question: HistoryItem,
    functions: Mapping[str, Mapping[str, ServerFunction]],
    field: JsonField,
) -> Message:
    """Return the call of an approval request, in the model's own words if they are stored."""
    asked = JsonField(question.item, field.path)
    label, name = asked["server_label"].text(), asked["name"].text()
    if label not in functions:
        raise field.error(f"the MCP server {label!r:.80} is not in the tools of this request")
    if question.messages:
        call = Message.from_dict(dict(question.messages[0]))
        return call if question.tokens is None else SampledMessage.of(call, question.tokens)
    own_names = [own for own, function in functions[label].items() if function.name == name]
    call = Message.from_role_and_content(Role.ASSISTANT, asked["arguments"].text())
    call.with_channel("commentary").with_recipient(f"{label}.{own_names[0] if own_names else name}")
    return call.with_content_type("<|constrain|>json")
