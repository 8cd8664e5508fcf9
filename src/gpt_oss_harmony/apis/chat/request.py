"""The body of requests for a chat completion, and the turn of one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator

from ...conversation.content import ReasoningEffort
from ...engines.engine import Sampling
from ..request_body import (
    OWNER,
    ConstraintFields,
    Ignored,
    Metadata,
    ParallelCalls,
    PromptCacheRetention,
    Refused,
    ServiceTier,
    StreamOptions,
    Unsupported,
    elsewhere,
)
from ..turn import TurnRequest, noted, request_fields, turn_of_parsed
from .input import read_chat


class ChatRequest(ConstraintFields):
    """A request for a chat completion."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    stream_options: StreamOptions | None = None
    # The bounds of this and of `top_logprobs` are those of OpenAI's API.
    n: int | None = Field(default=None, ge=1, le=128, description="The number of choices.")
    max_completion_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(
        default=None, ge=1, description="Another name for max_completion_tokens."
    )
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: ParallelCalls = None
    response_format: dict[str, Any] | None = None
    functions: Annotated[Any, WithJsonSchema({"type": "null"})] = Field(
        default=None, description="Send tools instead."
    )
    function_call: Unsupported = None
    web_search_options: Annotated[
        Any,
        Refused(
            "Chat Completions has no web search; send the tool `web_search` to the Responses API",
            accepted=(None,),
        ),
    ] = None
    modalities: Annotated[
        Any, Refused("the model writes only text; leave it out", accepted=(None, ["text"]))
    ] = None
    audio: Unsupported = None
    continue_final_message: bool | None = Field(
        default=None, description="Whether to go on writing the last message, by the assistant."
    )
    add_generation_prompt: bool | None = Field(
        default=None,
        description="False only with `continue_final_message`, which requires it.",
    )
    verbosity: Literal["low", "medium", "high"] | None = None
    store: bool | None = None
    metadata: Metadata | None = None
    prompt_cache_key: Annotated[str | None, Ignored("the engine caches every prompt by itself")] = (
        Field(default=None, max_length=1024)
    )
    prompt_cache_retention: PromptCacheRetention = None
    safety_identifier: Annotated[str | None, Ignored(OWNER)] = Field(default=None, max_length=1024)
    service_tier: ServiceTier = None
    user: Annotated[str | None, Ignored(OWNER)] = None
    text: Annotated[Any, elsewhere("send `response_format`, or `verbosity`")] = None
    max_output_tokens: Annotated[Any, elsewhere("send `max_completion_tokens`")] = None
    input: Annotated[Any, elsewhere("send `messages`")] = None
    instructions: Annotated[Any, elsewhere("send a message of the role `developer`")] = None
    previous_response_id: Annotated[
        Any, elsewhere("send all messages, or use the Responses API")
    ] = None
    stop_sequences: Annotated[Any, elsewhere("send `stop`")] = None
    system: Annotated[Any, elsewhere("send a message of the role `system`")] = None

    @field_validator("add_generation_prompt")
    @classmethod
    def _fits_the_last_message(cls, begins: Any, info: ValidationInfo) -> Any:
        if begins is not None and begins is bool(info.data.get("continue_final_message")):
            raise ValueError("send true for a new message, false with continue_final_message")
        return begins

    @field_validator("top_logprobs")
    @classmethod
    def _has_logprobs(cls, top: Any, info: ValidationInfo) -> Any:
        if top and not info.data.get("logprobs"):
            raise ValueError("it needs logprobs; set logprobs to true")
        return top

    @property
    def token_limit(self) -> int | None:
        """The most tokens of a choice."""
        most = self.max_completion_tokens
        return self.max_tokens if most is None else most

    @property
    def includes_usage(self) -> bool:
        """Return whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """Return the settings for sampling each choice."""
        logprobs = (self.top_logprobs or 0) if self.logprobs else None
        return self.settings(defaults or Sampling(), max_tokens=self.token_limit, logprobs=logprobs)


def turn_of_chat(
    request: ChatRequest,
    *,
    date: str | None = None,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    sampling: Sampling | None = None,
) -> TurnRequest:
    """Convert a Chat Completions request to a turn; `turn_of_response` explains the arguments.

    >>> from gpt_oss_harmony.apis import ResponsesRequest, turn_of_response
    >>> chat = ChatRequest(messages=[{"role": "user", "content": "hi"}])
    >>> turn_of_chat(chat) == turn_of_response(ResponsesRequest(input="hi"))
    True
    """
    request = noted(request)
    body = request_fields(request)
    parsed = read_chat(body, conversation_start_date=date, default_effort=effort)
    return turn_of_parsed(parsed, body, request.sampling(sampling), request.stop_texts)
