"""The operator's MCP servers that a request names by their labels, and approvals of their calls.

The server never connects to an address in a request, and ignores its URLs, headers and keys.

A call that needs an approval ends its response with an item ``mcp_approval_request``. The client
answers with ``mcp_approval_response`` in a later request. An approved call then runs before the
model continues; for a declined call, the model gets a message that it was declined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...apis.items import HistoryItem
from ...apis.responses.request import ResponsesRequest
from ...conversation.json_field import JsonField
from ...conversation.messages import Message, Role
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ...sampled_messages import SampledMessage
from ...tools.tool import ServerFunction, ServerTool, Tool, failure_message
from ..store import new_id

_LISTING = "mcp_list_tools"
_LISTING_FIELDS = ("type", "server_label", "tools", "error")
_REQUEST, _RESPONSE = "mcp_approval_request", "mcp_approval_response"


@dataclass
class RequestedServers:
    """The functions of MCP servers that a request may call, by the servers' labels.

    The labels are the names of the namespaces. `listings` are the items, still without ids, that
    list the tools of each server for the client. `approvals` are the recipients whose calls need an
    approval.
    """

    namespaces: dict[str, ToolNamespaceConfig] = field(default_factory=dict)
    functions: dict[str, dict[str, ServerFunction]] = field(default_factory=dict)
    listings: dict[str, dict[str, Any]] = field(default_factory=dict)
    approvals: set[str] = field(default_factory=set)

    def add(self, tool: ServerTool[Any], allowed: Mapping[str, ServerFunction]) -> None:
        """Let a request call some of the functions of a server."""
        label = tool.namespace.name
        self.functions[label] = {**allowed}
        listed = [
            {
                "name": function.name,
                "description": function.description,
                "input_schema": function.input_schema,
                "annotations": function.annotations,
            }
            for function in allowed.values()
        ]
        self.listings[label] = _listing(label, tools=listed, error=None)
        if allowed:  # a namespace without functions would be one that takes free text
            tools = [function for function in tool.namespace.tools if function.name in allowed]
            self.namespaces[label] = tool.namespace.model_copy(update={"tools": tools})

    def with_choice(self, request: ResponsesRequest) -> ResponsesRequest:
        """Replace the choice of an MCP tool by the choice of its function or namespace.

        >>> choice = {"type": "mcp", "server_label": "time"}
        >>> servers = RequestedServers(functions={"time": {}})
        >>> servers.with_choice(ResponsesRequest(tool_choice=choice)).tool_choice
        {'type': 'namespace', 'name': 'time'}
        """
        choice = request.tool_choice
        if not self.functions or not isinstance(choice, Mapping):
            return request
        return request.model_copy(update={"tool_choice": self._choice(choice)})

    def new_listings(
        self, history: Sequence[HistoryItem], input: Sequence[HistoryItem]
    ) -> list[dict[str, Any]]:
        """Return the listings that the conversation does not have yet."""
        if not self.listings:
            return []
        listed = [
            {name: item.item.get(name) for name in _LISTING_FIELDS}
            for item in (*history, *input)
            if item.item.get("type") == _LISTING
        ]
        return [
            listing
            for listing in self.listings.values()
            if listing["error"] or listing not in listed
        ]

    def _choice(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        if choice.get("type") == "mcp":
            return self._mcp_choice(choice)
        replaced = {**choice}
        if isinstance(choice.get("tools"), list):
            replaced["tools"] = [
                self._choice(tool) if isinstance(tool, Mapping) else tool
                for tool in choice["tools"]
            ]
        if isinstance(choice.get("allowed_tools"), Mapping):
            replaced["allowed_tools"] = self._choice(choice["allowed_tools"])
        return replaced

    def _mcp_choice(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        label, name = choice.get("server_label"), choice.get("name")
        functions = self.functions.get(label) if isinstance(label, str) else None
        if functions is None:
            return {**choice}
        if name is None:
            return {"type": "namespace", "name": label}
        own_names = [own for own, function in functions.items() if function.name == name]
        name = own_names[0] if own_names else name
        return {"type": "function", "namespace": label, "name": name}


def requested_servers(
    request: ResponsesRequest, tools: Mapping[str, Tool[Any]]
) -> RequestedServers:
    """Find the MCP servers that a request names; `tools` are this server's tools, by name.

    A label without a server is listed with an error, as in the API, and the model continues without
    it. Raises `ConversationError` for requirements that this server cannot meet.
    """
    requested = RequestedServers()
    for tool in JsonField(request.tools, "tools").optional_items():
        if tool["type"].value != "mcp":
            continue
        label = tool["server_label"].text()
        server = tools.get(label)
        if not isinstance(server, ServerTool):
            names = sorted(name for name, own in tools.items() if isinstance(own, ServerTool))
            known = f"there are {', '.join(names)}" if names else "there is none"
            problem = (
                f"this server has no MCP server {label!r:.80}; {known}. It only uses the MCP "
                "servers with which it was started"
            )
            requested.listings[label] = _listing(label, tools=[], error=problem)
            continue
        allowed = _allowed_functions(tool["allowed_tools"], server)
        requested.add(server, allowed)
        requested.approvals |= {
            f"{label}.{name}"
            for name, function in allowed.items()
            if needs_approval(tool["require_approval"], function)
        }
    return requested


def _allowed_functions(allowed: JsonField, tool: ServerTool[Any]) -> dict[str, ServerFunction]:
    """Return the functions that a request allows by a list of names or a filter."""
    functions = {**tool.functions}
    if allowed.is_null:
        return functions
    names, is_read_only = allowed, None
    if isinstance(allowed.value, Mapping):
        names, is_read_only = allowed["tool_names"], allowed["read_only"].value
    if not names.is_null:
        allowed_names = {name.text() for name in names.items()}
        functions = {key: f for key, f in functions.items() if f.name in allowed_names}
    if is_read_only is not None:
        functions = {key: f for key, f in functions.items() if f.is_read_only is is_read_only}
    return functions


def _listing(label: str, tools: list[dict[str, Any]], error: str | None) -> dict[str, Any]:
    return dict(zip(_LISTING_FIELDS, (_LISTING, label, tools, error), strict=True))


# Approvals


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


def answered_requests(
    request: ResponsesRequest,
    history: Sequence[HistoryItem],
    functions: Mapping[str, Mapping[str, ServerFunction]],
    find: Callable[[str], HistoryItem | None],
    is_signed: Callable[[str, Sequence[str]], bool],
) -> AnsweredRequests:
    """Read the approvals in the input of a request.

    `functions` are the MCP functions that the request may call, by the label of their server;
    `find` reads a stored item. A call is the model's if its message is stored, or `is_signed` knows
    the id and the fields of its request again. Raises `ConversationError` for an answer without a
    request of the model.
    """
    if not any(item.get("type") == _RESPONSE for item in request.items):
        return AnsweredRequests(request, {})
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
        # The stored one first, because a client may have changed the one that it sends.
        question = find(request_id) or asked.get(request_id)
        if question is None or question.item.get("type") != _REQUEST:
            problem = f"no approval was requested under the id {request_id!r:.80}"
            raise item["approval_request_id"].error(problem)
        call = _call_of(question, functions, item["approval_request_id"], is_signed)
        if item["approve"].value:
            approved.append(ApprovedCall(call, request_id))
            # So that a second answer to the same request does not run the call again.
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
    is_signed: Callable[[str, Sequence[str]], bool],
) -> Message:
    """Return the call of an approval request, in the model's own words if they are stored."""
    asked = JsonField(question.item, field.path)
    fields = [asked[name].text() for name in ("server_label", "name", "arguments")]
    # Only items of the store have messages; what a client sends needs the signature.
    if not (question.messages or is_signed(field.text().removeprefix("mcpr_"), fields)):
        raise field.error(
            "no model of this server asked for this call with this API key, or the request was "
            "changed; send the mcp_approval_request as it came, or name its response in "
            "previous_response_id"
        )
    label, name, arguments = fields
    if label not in functions:
        raise field.error(f"the MCP server {label!r:.80} is not in the tools of this request")
    if question.messages:
        call = Message.from_dict(dict(question.messages[0]))
        return call if question.tokens is None else SampledMessage.of(call, question.tokens)
    own_names = [own for own, function in functions[label].items() if function.name == name]
    recipient = f"{label}.{own_names[0] if own_names else name}"
    call = Message.from_role_and_content(Role.ASSISTANT, arguments).with_channel("commentary")
    return call.with_recipient(recipient).with_content_type("<|constrain|>json")
