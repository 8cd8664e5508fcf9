"""The resource of the Responses API, with every field, also where it is null."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from ..conversation.content import ReasoningEffort
from ..conversation.json_field import JsonField
from ..engines.sampling import Sampling
from .conversation_builder import read_effort
from .echoed_tools import echoed_tool_choice, echoed_tools
from .responses_request import ResponsesRequest

__all__ = ["IncompleteDetails", "Response", "ResponseError", "ResponseUsage", "response_of"]


class InputTokensDetails(BaseModel):
    """What the input's tokens were."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(BaseModel):
    """What the output's tokens were."""

    reasoning_tokens: int = 0


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
        cls, input_tokens: int, cached_tokens: int, output_tokens: int, reasoning_tokens: int
    ) -> ResponseUsage:
        """Make it of the four numbers; the second and the last are parts of those before them."""
        return cls(
            input_tokens=input_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=cached_tokens),
            output_tokens=output_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=reasoning_tokens),
            total_tokens=input_tokens + output_tokens,
        )


class ResponseError(BaseModel):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(BaseModel):
    """Why a response ended too early."""

    reason: Literal["max_output_tokens", "content_filter", "max_tool_calls"]


class ConversationReference(BaseModel):
    """The conversation that a response belongs to."""

    id: str


class ReasoningEcho(BaseModel):
    """How much the model reasoned."""

    effort: str | None
    summary: str | None = None


class TextEcho(BaseModel):
    """The form of the answer."""

    format: dict[str, Any]
    verbosity: str = "medium"


class Response(BaseModel):
    """A response: what was asked, and what came of it so far."""

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
        """Write it as JSON has it."""
        # What the client sent may be nested more deeply than pydantic writes, and is JSON already.
        return {
            name: value.model_dump() if isinstance(value, BaseModel) else value
            for name, value in self
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

    `effort` and `sampling` are what is used where the request says nothing. Later states are
    copies: ``response.model_copy(update={"status": "completed", "output": items, ...})``.

    >>> request = ResponsesRequest(input="hi")
    >>> response = response_of(request, id="resp_1", created_at=0, model="gpt-oss-20b")
    >>> response.status, response.tool_choice, response.to_dict()["usage"]
    ('in_progress', 'auto', None)
    """
    settings = request.sampling(sampling)
    conversation = request.conversation
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
        reasoning=_reasoning(request, effort),
        safety_identifier=request.safety_identifier,
        store=request.is_stored,
        temperature=settings.temperature,
        text=_text(request),
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


def _reasoning(request: ResponsesRequest, default: ReasoningEffort) -> ReasoningEcho:
    """Tell the effort that the model was asked for, among the three that it knows."""
    asked = request.reasoning
    effort = read_effort(JsonField(asked.effort if asked else None), default)
    return ReasoningEcho(
        effort=effort.value.lower() if effort else None, summary=asked.summary if asked else None
    )


def _text(request: ResponsesRequest) -> TextEcho:
    asked = request.text
    verbosity = (asked.verbosity if asked else None) or "medium"
    wanted = (asked.format if asked else None) or {"type": "text"}
    return TextEcho(format=_format(wanted), verbosity=verbosity)


def _format(wanted: dict[str, Any]) -> dict[str, Any]:
    if wanted.get("type") != "json_schema":
        return wanted
    fields = wanted.get("json_schema") or wanted
    return {
        "type": "json_schema",
        "name": fields.get("name"),
        "description": fields.get("description"),
        "schema": fields.get("schema") or {},
        "strict": fields.get("strict") is True,
    }
