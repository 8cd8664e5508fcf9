"""The MCP servers of a request: those of the operator that it names by their labels.

What is in a request is never connected to: its URLs, headers and keys are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...apis.history import HistoryItem
from ...apis.responses_request import ResponsesRequest
from ...conversation.json_field import JsonField
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ...tools.server_tool import ServerFunction, ServerTool
from ...tools.tool import Tool

__all__ = ["WantedServers", "wanted_servers"]

_LISTING = "mcp_list_tools"


@dataclass
class WantedServers:
    """What a request may call of MCP servers, by their labels, which are the namespaces' names.

    `listings` are the items, still without ids, that tell the client what each server has.
    """

    namespaces: dict[str, ToolNamespaceConfig] = field(default_factory=dict)
    functions: dict[str, dict[str, ServerFunction]] = field(default_factory=dict)
    listings: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, tool: ServerTool[Any], allowed: Mapping[str, ServerFunction]) -> None:
        """Let a request call some of the functions of a server."""
        label = tool.namespace.name
        self.functions[label] = {**allowed}
        listed = [_listed(function) for function in allowed.values()]
        self.listings[label] = _listing(label, tools=listed, error=None)
        if allowed:  # a namespace without functions would be one that takes free text
            known = [one for one in tool.namespace.tools if one.name in allowed]
            self.namespaces[label] = tool.namespace.model_copy(update={"tools": known})

    def with_choice(self, request: ResponsesRequest) -> ResponsesRequest:
        """Write the choice of a tool as that of the function, or of the namespace, it stands for.

        >>> asked = {"type": "mcp", "server_label": "time"}
        >>> wanted = WantedServers(functions={"time": {}})
        >>> wanted.with_choice(ResponsesRequest(tool_choice=asked)).tool_choice
        {'type': 'namespace', 'name': 'time'}
        """
        choice = request.tool_choice
        if not self.functions or not isinstance(choice, Mapping):
            return request
        return request.model_copy(update={"tool_choice": self._choice(choice)})

    def new_listings(
        self, past: Sequence[HistoryItem], sent: Sequence[HistoryItem]
    ) -> list[dict[str, Any]]:
        """Return the listings that the conversation does not have yet."""
        known = [one.item for one in (*past, *sent) if one.item.get("type") == _LISTING]
        shown = [{name: one.get(name) for name in _LISTED} for one in known]
        return [one for one in self.listings.values() if one["error"] or one not in shown]

    def _choice(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        if choice.get("type") == "mcp":
            return self._chosen(choice)
        found = {**choice}
        if isinstance(choice.get("tools"), list):
            found["tools"] = [
                self._choice(one) if isinstance(one, Mapping) else one for one in choice["tools"]
            ]
        if isinstance(choice.get("allowed_tools"), Mapping):
            found["allowed_tools"] = self._choice(choice["allowed_tools"])
        return found

    def _chosen(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        label, name = choice.get("server_label"), choice.get("name")
        functions = self.functions.get(label) if isinstance(label, str) else None
        if functions is None:
            return {**choice}
        if name is None:
            return {"type": "namespace", "name": label}
        names = [known for known, function in functions.items() if function.name == name]
        return {"type": "function", "namespace": label, "name": names[0] if names else name}


def wanted_servers(request: ResponsesRequest, tools: Mapping[str, Tool[Any]]) -> WantedServers:
    """Find the servers that a request asks for; `tools` are the server's own, by name.

    A label that the operator has given no server is listed with an error, as the API has it; the
    model goes on without. Raises `ConversationError` for what cannot be done as it is asked.
    """
    wanted = WantedServers()
    servers = {name: tool for name, tool in tools.items() if isinstance(tool, ServerTool)}
    for asked in JsonField(request.tools, "tools").optional_items():
        if asked["type"].value != "mcp":
            continue
        label = asked["server_label"].text()
        if label in servers:
            _check_approval(asked["require_approval"])
            wanted.add(servers[label], _allowed(asked["allowed_tools"], servers[label]))
        else:
            wanted.listings[label] = _listing(label, tools=[], error=_unknown(label, servers))
    return wanted


def _check_approval(approval: JsonField) -> None:
    if approval.value not in (None, "never"):
        raise approval.error(
            "calls cannot be approved one by one here; send 'never', and name the tools that may "
            "be called in allowed_tools"
        )


def _allowed(allowed: JsonField, tool: ServerTool[Any]) -> dict[str, ServerFunction]:
    """Find the functions that a request allows: a list of names, or a filter."""
    functions = {**tool.functions}
    if allowed.is_null:
        return functions
    names, is_read_only = allowed, None
    if isinstance(allowed.value, Mapping):
        names, is_read_only = allowed["tool_names"], allowed["read_only"].value
    if not names.is_null:
        wanted = {name.text() for name in names.items()}
        functions = {key: one for key, one in functions.items() if one.name in wanted}
    if is_read_only is not None:
        functions = {key: one for key, one in functions.items() if one.is_read_only is is_read_only}
    return functions


def _listed(function: ServerFunction) -> dict[str, Any]:
    return {
        "name": function.name,
        "description": function.description,
        "input_schema": function.input_schema,
        "annotations": function.annotations,
    }


_LISTED = ("type", "server_label", "tools", "error")


def _listing(label: str, tools: list[dict[str, Any]], error: str | None) -> dict[str, Any]:
    return dict(zip(_LISTED, (_LISTING, label, tools, error), strict=True))


def _unknown(label: str, servers: Mapping[str, object]) -> str:
    known = f"there are {', '.join(sorted(servers))}" if servers else "there is none"
    return (
        f"this server has no MCP server {label!r:.80}; {known}. It uses those that it was started "
        "with, and connects to no others"
    )
