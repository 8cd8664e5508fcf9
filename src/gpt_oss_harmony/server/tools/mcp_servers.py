"""The operator's MCP servers that a request names by their labels.

The server never connects to an address in a request, and ignores its URLs, headers and keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...apis.items import HistoryItem
from ...apis.requests import ResponsesRequest
from ...conversation.json_field import JsonField
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ...tools.tool import ServerFunction, ServerTool, Tool
from .approvals import needs_approval

__all__ = ["RequestedServers", "requested_servers"]

_LISTING = "mcp_list_tools"
_LISTING_FIELDS = ("type", "server_label", "tools", "error")


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
    servers = {name: tool for name, tool in tools.items() if isinstance(tool, ServerTool)}
    for tool in JsonField(request.tools, "tools").optional_items():
        if tool["type"].value != "mcp":
            continue
        label = tool["server_label"].text()
        if label not in servers:
            known = f"there are {', '.join(sorted(servers))}" if servers else "there is none"
            problem = (
                f"this server has no MCP server {label!r:.80}; {known}. It only uses the MCP "
                "servers with which it was started"
            )
            requested.listings[label] = _listing(label, tools=[], error=problem)
            continue
        allowed = _allowed_functions(tool["allowed_tools"], servers[label])
        requested.add(servers[label], allowed)
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
