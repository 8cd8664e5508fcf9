"""The response resource of the Responses API, with every field, even if it is null.

A response repeats the request's tools and tool choice, flat and with every nullable field. It omits
the credentials of MCP servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel

from ...conversation.built_in_tools import requested_tool, tools_with_container
from ...conversation.content import ReasoningEffort
from ...conversation.json_field import JsonField
from ...engines.engine import Sampling
from ..request_body import ReasoningSettings
from ..requested_reasoning import requested_effort
from .request import ResponsesRequest, TextSettings


class InputTokensDetails(BaseModel):
    """The numbers of input tokens that were read from and written to the prompt cache."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(BaseModel):
    """The numbers of output tokens that are reasoning and that the grammar forced."""

    reasoning_tokens: int = 0
    forced_tokens: int = 0


class ResponseUsage(BaseModel):
    """Numbers of tokens.

    >>> ResponseUsage.of(10, 8, 5, 2).total_tokens
    15
    """

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int

    @classmethod
    def of(
        cls,
        input_tokens: int,
        cached_tokens: int,
        output_tokens: int,
        reasoning_tokens: int,
        forced_tokens: int = 0,
    ) -> ResponseUsage:
        """Make the usage; cached tokens are part of the input, other details of the output."""
        return cls(
            input_tokens=input_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=cached_tokens),
            output_tokens=output_tokens,
            output_tokens_details=OutputTokensDetails(
                reasoning_tokens=reasoning_tokens, forced_tokens=forced_tokens
            ),
            total_tokens=input_tokens + output_tokens,
        )


class ResponseError(BaseModel):
    """The reason for the failure of a response."""

    code: str
    message: str


class IncompleteDetails(BaseModel):
    """The reason for an incomplete response.

    `stop_reason` is there only if the server ended it because the model ran in circles; the reason
    is then ``max_output_tokens``.
    """

    reason: Literal["max_output_tokens", "content_filter", "max_tool_calls"]
    stop_reason: Literal["repetition"] | None = None


class ConversationReference(BaseModel):
    """The conversation that a response belongs to."""

    id: str


class ReasoningEcho(BaseModel):
    """The reasoning settings of the request."""

    effort: str | None
    summary: str | None = None


class TextEcho(BaseModel):
    """The text settings of the request."""

    format: dict[str, Any]
    verbosity: str = "medium"


class Response(BaseModel):
    """A response: the settings of the request, and the output so far."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: bool
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    model: str
    output: list[dict[str, Any]]
    parallel_tool_calls: bool
    previous_response_id: str | None
    conversation: ConversationReference | None
    prompt: dict[str, Any] | None = None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    reasoning: ReasoningEcho
    safety_identifier: str | None
    service_tier: str = "default"
    store: bool
    temperature: float
    text: TextEcho
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    truncation: str
    usage: ResponseUsage | None = None
    user: str | None
    metadata: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the response as JSON values."""
        # The client's values are already JSON, and may be nested more deeply than pydantic allows.
        return {
            name: value.model_dump() if isinstance(value, BaseModel) else value
            for name, value in vars(self).items()
        }


def response_of(
    request: ResponsesRequest,
    *,
    id: str,
    created_at: int,
    model: str,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    sampling: Sampling | None = None,
) -> Response:
    """Make the response to a request that has just begun; `created_at` is in seconds since 1970.

    `effort` and `sampling` are the defaults for missing fields of the request. Make later states as
    copies: ``response.model_copy(update={"status": "completed", "output": items, ...})``.

    >>> request = ResponsesRequest(input="hi")
    >>> response = response_of(request, id="resp_1", created_at=0, model="gpt-oss-20b")
    >>> response.status, response.tool_choice, response.to_dict()["usage"]
    ('in_progress', 'auto', None)
    """
    settings = request.sampling(sampling)
    conversation = request.conversation
    reasoning = request.reasoning or ReasoningSettings()
    body = {**vars(request), "reasoning": reasoning.model_dump()}
    model_effort = requested_effort(JsonField(body), effort)
    text = request.text or TextSettings()
    text_format = text.format or {"type": "text"}
    if text_format.get("type") == "json_schema":
        fields = text_format.get("json_schema") or text_format
        text_format = {
            "type": "json_schema",
            "name": fields.get("name"),
            "description": fields.get("description"),
            "schema": fields.get("schema") or {},
            "strict": fields.get("strict") is True,
        }
    return Response(
        id=id,
        created_at=created_at,
        status="in_progress",
        background=bool(request.background),
        instructions=request.instructions,
        max_output_tokens=request.token_limit,
        max_tool_calls=request.max_tool_calls,
        model=model,
        output=[],
        parallel_tool_calls=request.parallel_tool_calls is not False,
        previous_response_id=request.previous_response_id,
        conversation=None if conversation is None else ConversationReference(id=conversation),
        prompt_cache_key=request.prompt_cache_key,
        prompt_cache_retention=request.prompt_cache_retention,
        reasoning=ReasoningEcho(
            effort=model_effort.value.lower() if model_effort else None,
            summary=request.reasoning_summary,
        ),
        safety_identifier=request.safety_identifier,
        store=request.is_stored,
        temperature=settings.temperature,
        text=TextEcho(format=text_format, verbosity=text.verbosity or "medium"),
        tool_choice=echoed_tool_choice(request.tool_choice),
        tools=echoed_tools(request.tools),
        top_logprobs=request.top_logprobs or 0,
        top_p=settings.top_p,
        presence_penalty=settings.presence_penalty,
        frequency_penalty=settings.frequency_penalty,
        truncation=request.truncation or "disabled",
        user=request.user,
        metadata=request.metadata or {},
    )


_NESTED = ("function", "custom")
_CREDENTIALS = ("authorization", "headers")


def echoed_tools(tools: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Repeat the tools of a request.

    >>> echoed_tools([{"type": "function", "function": {"name": "now"}}])[0]["parameters"] is None
    True
    """
    return [_echoed_tool(tool) for tool in tools or ()]


def echoed_tool_choice(choice: str | Mapping[str, Any] | None) -> str | dict[str, Any]:
    """Repeat a tool choice; ``auto`` if it is left out.

    >>> echoed_tool_choice({"type": "function", "function": {"name": "now"}})
    {'type': 'function', 'name': 'now'}
    """
    if choice is None or isinstance(choice, str):
        return choice or "auto"
    if choice.get("type") in ("none", "auto", "required"):
        return str(choice["type"])
    if choice.get("type") != "allowed_tools":
        return _flat(choice)
    allowed = choice.get("allowed_tools") or choice
    tools = [_flat(tool) for tool in allowed["tools"]]
    return {"type": "allowed_tools", "mode": allowed.get("mode") or "auto", "tools": tools}


def _echoed_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    flat = _flat(tool)
    name = flat.get("name")
    if flat["type"] == "function":
        nullable = dict.fromkeys(("description", "parameters", "strict"))
        return {"type": "function", "name": name, **nullable, **flat}
    if flat["type"] == "custom":
        defaults = {"description": None, "format": {"type": "text"}}
        return {"type": "custom", "name": name, **defaults, **flat}
    if requested_tool(flat["type"]) in tools_with_container():
        return {"container": {"type": "auto"}, **flat}
    if flat["type"] == "namespace":
        members = echoed_tools(flat.get("tools"))
        return {**flat, "description": flat.get("description") or "", "tools": members}
    if flat["type"] == "mcp":
        return {name: value for name, value in flat.items() if name not in _CREDENTIALS}
    return flat


def _flat(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Lift the fields that Chat Completions nests under the type's name."""
    kind = tool["type"]
    nested = tool.get(kind) if kind in _NESTED else None
    return {"type": kind, **nested} if isinstance(nested, Mapping) else dict(tool)
