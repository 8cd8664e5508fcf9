"""The parts of vLLM that the plugin touches, as small classes with the same fields."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, PrivateAttr

from gpt_oss_harmony import Message as OurMessage


class Message:
    """The class of another library: only its dictionary is the same."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Message:
        assert not isinstance(fields, OurMessage)
        return cls(fields)

    def ours(self) -> OurMessage:
        """The same message of our class, for comparisons."""
        return OurMessage.from_dict(self.fields)


VERSION = "0.33.0"


class Segment(NamedTuple):
    channel: str | None
    recipient: str | None
    delta: str
    completed_message: Message | None = None


@dataclass
class ChunkResult:
    segments: list[Segment]
    reasoning_token_count: int


@dataclass
class FunctionCall:
    name: str
    arguments: str
    id: str | None = None


@dataclass
class DeltaFunctionCall:
    name: str | None = None
    arguments: str | None = None


@dataclass
class DeltaToolCall:
    index: int
    id: str | None = None
    type: str | None = None
    function: DeltaFunctionCall | None = None


@dataclass
class DeltaMessage:
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[DeltaToolCall] = field(default_factory=list)


@dataclass
class StructuredOutputsParams:
    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None


class Function(BaseModel):
    name: str
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(BaseModel):
    type: str = "function"
    function: Function | None = None


class Request(BaseModel):
    """A Chat Completions request."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    messages: list[dict[str, Any]] = []
    tools: list[Tool] | None = None
    tool_choice: Any = "auto"
    response_format: dict[str, Any] | None = None
    structured_outputs: StructuredOutputsParams | None = None
    include_reasoning: bool = True
    parallel_tool_calls: bool | None = True
    reasoning_effort: str | None = None
    cache_salt: str | None = None
    _grammar_from_parser: bool = PrivateAttr(default=False)

    def extract_structured_outputs(self) -> StructuredOutputsParams | None:
        requested = self.response_format
        if requested is None or requested["type"] == "text":
            return self.structured_outputs
        if requested["type"] == "json_object":
            return StructuredOutputsParams(json_object=True)
        return StructuredOutputsParams(json=requested["json_schema"]["schema"])


class FlatTool(BaseModel):
    type: str = "function"
    name: str


class Limits:
    """The cuts that a request asks for; the prompt is changed in place."""

    def apply_post_tokenization(self, tokenizer: object, prompt: dict[str, Any]) -> None:
        prompt["is_limited"] = True


class ResponsesRequest(BaseModel):
    """A Responses request."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    input: Any
    instructions: str | None = None
    previous_input_messages: list[Any] | None = None
    text: Any = None
    tools: list[FlatTool] = []
    parallel_tool_calls: bool | None = True
    tool_choice: Any = "auto"
    structured_outputs: StructuredOutputsParams | None = None
    cache_salt: str | None = None

    def extract_structured_outputs(self) -> StructuredOutputsParams | None:
        return self.text and StructuredOutputsParams(json=self.text["format"]["schema"])

    def build_tok_params(self, _: object) -> Limits:
        return Limits()


class ResponsesRenderResult(NamedTuple):
    messages: list[Any]
    engine_input: Any


class HarmonyParser:
    """vLLM's own parser; what it does itself is marked."""

    def __init__(self, tokenizer: object, tools: object = None, **_: object) -> None:
        self.reasoning_parser: object = "openai_gptoss"
        self.tool_parser: object = "openai"

    def adjust_request(self, request: Request) -> Request:
        request.structured_outputs = StructuredOutputsParams(structural_tag="vLLM's own")
        return request


class _Outputs(NamedTuple):
    backend: str


class _Config(NamedTuple):
    structured_outputs_config: _Outputs


class _Renderer(NamedTuple):
    config: object
    tokenizer: object = None

    def get_tokenizer(self) -> object:
        return self.tokenizer


class OnlineRenderer:
    """vLLM's renderer of requests."""

    def __init__(self, parser: Any, backend: str | None) -> None:
        self.model_config = None
        self.parser = parser
        self.renderer = _Renderer(_Config(_Outputs(backend)) if backend else object())

    async def render_chat(self, request: Request) -> Any:
        self.adjust_harmony_request(request)
        return self._make_request_with_harmony(request)

    async def render_responses(self, request: ResponsesRequest, **history: Any) -> Any:
        return self._render_responses_with_harmony(request, **history)

    def adjust_harmony_request(self, request: Any) -> None:
        self.parser(self.renderer.get_tokenizer(), request.tools).adjust_request(request=request)

    def _make_request_with_harmony(
        self, request: Request, should_include_tools: bool = True
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        return ["vLLM's own"], [{"prompt_token_ids": [], "cache_salt": request.cache_salt}]

    def _render_responses_with_harmony(self, request: ResponsesRequest, **history: Any) -> Any:
        self.adjust_harmony_request(request)
        return "vLLM's own"


class BatchRequest(BaseModel):
    """The request of several chats at once."""

    messages: list[list[Any]]
    schema_of_answers: Any
    model: str = "gpt-oss"

    def to_chat_completion_request(self, messages: list[Any]) -> Request:
        return Request(
            messages=messages,
            structured_outputs=StructuredOutputsParams(json=self.schema_of_answers),
        )


class OpenAIServingChatBatch:
    """vLLM's route for several chats at once."""

    def __init__(self, online_renderer: OnlineRenderer) -> None:
        self.online_renderer = online_renderer

    async def _check_model(self, request: BatchRequest) -> str | None:
        return None if request.model == "gpt-oss" else "no such model"

    async def render_batch_chat_request(self, request: BatchRequest) -> list[Request] | str:
        error = await self._check_model(request)
        if error is not None:
            return error
        singles = []
        for said in request.messages:
            single = request.to_chat_completion_request(said)
            self.online_renderer.adjust_harmony_request(single)
            singles.append(single)
        return singles


def is_function_recipient(recipient: str) -> bool:
    first = recipient.partition(".")[0]
    return first not in ("python", "browser", "container", "assistant")


def modules() -> dict[str, ModuleType]:
    """Make new modules with these classes, by their names in vLLM."""
    ids = itertools.count()
    contents: dict[str, dict[str, Any]] = {
        "vllm": {"__version__": VERSION, "__path__": []},
        "vllm.sampling_params": {"StructuredOutputsParams": StructuredOutputsParams},
        "vllm.parser": {"__path__": [], "HarmonyParser": HarmonyParser},
        "vllm.parser.harmony": {
            "HarmonyParser": type("HarmonyParser", (HarmonyParser,), {}),
            "Message": Message,
            "Segment": Segment,
            "ChunkResult": ChunkResult,
            "DeltaMessage": DeltaMessage,
            "DeltaToolCall": DeltaToolCall,
            "DeltaFunctionCall": DeltaFunctionCall,
            "FunctionCall": FunctionCall,
            "is_function_recipient": is_function_recipient,
            "make_tool_call_id": lambda: f"call_{next(ids)}",
        },
        "vllm.entrypoints.openai.chat_completion.batch_serving": {
            "OpenAIServingChatBatch": type("OpenAIServingChatBatch", (OpenAIServingChatBatch,), {}),
        },
        "vllm.renderers": {"__path__": []},
        "vllm.renderers.online_renderer": {
            "OnlineRenderer": type("OnlineRenderer", (OnlineRenderer,), {}),
            "OpenAIMessage": Message,
            "ResponsesRenderResult": ResponsesRenderResult,
            "TokensPrompt": dict,
            "tokens_input": lambda tokens, cache_salt: {
                "prompt_token_ids": tokens,
                "cache_salt": cache_salt,
            },
        },
    }
    contents["vllm.parser"]["HarmonyParser"] = contents["vllm.parser.harmony"]["HarmonyParser"]
    made = {name: ModuleType(name) for name in contents}
    for name, values in contents.items():
        made[name].__dict__.update(values)
    return made


def installed(monkeypatch: Any) -> dict[str, ModuleType]:
    """Let the modules be vLLM until the end of a test."""
    made = modules()
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made
