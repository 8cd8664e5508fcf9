"""The changes to vLLM's modules; each is made once.

vLLM compiles constraints in `adjust_harmony_request`, inside coroutines of its event loop, which
all requests share. So what calls it (`render_chat`, `render_responses` and the batches of chats)
first calls it in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

from gpt_oss_harmony.errors import HarmonyError

from .parser import RecoveringParser, VllmTypes, parser_class
from .rendering import chat_messages, prompt_of, response_messages, vllm_messages
from .settings import Settings

__all__ = ["patch_batches", "patch_enforcement", "patch_parser", "patch_renderer"]

logger = logging.getLogger("vllm.plugins.harmony")

_ASKED = "_harmony_asked_format"
_ADJUSTED = "_harmony_is_adjusted"
_SINGLE = "to_chat_completion_request"
"""The method of a batch that makes the request for one of its conversations."""

# More threads would only compete for the interpreter with the event loop.
_THREADS = ThreadPoolExecutor(2, thread_name_prefix="harmony-grammar")


def patch_parser(module: Any, settings: Settings) -> None:
    """Replace `HarmonyParser` in ``vllm.parser.harmony``."""
    own = module.HarmonyParser
    if issubclass(own, RecoveringParser):
        return
    types = VllmTypes(
        message=module.Message,
        segment=module.Segment,
        chunk_result=module.ChunkResult,
        delta_message=module.DeltaMessage,
        delta_tool_call=module.DeltaToolCall,
        delta_function_call=module.DeltaFunctionCall,
        function_call=module.FunctionCall,
        structured_outputs=sys.modules["vllm.sampling_params"].StructuredOutputsParams,
        is_function_recipient=module.is_function_recipient,
        make_tool_call_id=module.make_tool_call_id,
    )
    ours = module.HarmonyParser = parser_class(own, types, settings)
    package: Any = sys.modules.get(module.__name__.rpartition(".")[0])
    if getattr(package, "HarmonyParser", None) is own:
        package.HarmonyParser = ours


def _is_ours(function: Any) -> bool:
    """Return whether a function is one of this module, or wraps one: it is patched already."""
    while function is not None and getattr(function, "__globals__", None) is not globals():
        function = getattr(function, "__wrapped__", None)
    return function is not None


def patch_renderer(module: Any, settings: Settings) -> None:
    """Make `OnlineRenderer` pass its grammar backend to the parser and render by our mapping."""
    renderer = module.OnlineRenderer
    own = renderer.__init__
    if _is_ours(own):
        return

    @wraps(own)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        own(self, *args, **kwargs)
        if _parses(self):
            config = getattr(self.renderer.config, "structured_outputs_config", None)
            self.parser.backend = getattr(config, "backend", None)
            if settings.grammar != "off":
                _build_tables()
            logger.info("harmony: gpt-oss is parsed by gpt-oss-harmony")

    renderer.__init__ = initialize
    if settings.renders:
        _patch_rendering(module, renderer)
    _adjust_in_threads(renderer)


def _build_tables() -> None:
    """Build what the first grammar needs, before vLLM answers requests."""
    try:
        from gpt_oss_harmony.grammar.token_table import build_tables
    except ImportError:  # the first request that needs a grammar names what is missing
        return
    build_tables()


def _adjust_in_threads(renderer: Any) -> None:
    adjust = renderer.adjust_harmony_request

    @wraps(adjust)
    def adjust_harmony_request(self: Any, request: Any) -> None:
        if not request.__dict__.pop(_ADJUSTED, False):
            adjust(self, request)

    def adjusted_first(render: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(render)
        async def rendered(self: Any, request: Any, **options: Any) -> Any:
            if _parses(self):
                await _adjust(self, request)
            return await render(self, request, **options)

        return rendered

    renderer.adjust_harmony_request = adjust_harmony_request
    renderer.render_chat = adjusted_first(renderer.render_chat)
    renderer.render_responses = adjusted_first(renderer.render_responses)


def _parses(renderer: Any) -> bool:
    """Return whether our parser is that of the renderer's model."""
    return renderer.parser is not None and issubclass(renderer.parser, RecoveringParser)


async def _adjust(renderer: Any, request: Any) -> None:
    """Adjust a request in a thread; when vLLM asks for it, it is done."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(_THREADS, renderer.adjust_harmony_request, request)
    request.__dict__[_ADJUSTED] = True


def patch_batches(module: Any) -> None:
    """Adjust the conversations of ``/v1/chat/completions/batch`` in a thread, one by one."""
    serving = module.OpenAIServingChatBatch
    render = serving.render_batch_chat_request
    if _is_ours(render):
        return

    @wraps(render)
    async def rendered(self: Any, request: Any) -> Any:
        if not _parses(self.online_renderer) or await self._check_model(request) is not None:
            return await render(self, request)  # which answers with the error of the model
        singles = []
        for said in request.messages:
            single = request.to_chat_completion_request(said)
            await _adjust(self.online_renderer, single)
            singles.append(single)
        adjusted = iter(singles)
        request.__dict__[_SINGLE] = lambda _said: next(adjusted)
        try:
            return await render(self, request)
        finally:
            del request.__dict__[_SINGLE]

    serving.render_batch_chat_request = rendered


def _patch_rendering(module: Any, renderer: Any) -> None:
    adjust = renderer.adjust_harmony_request
    render_chat = renderer._make_request_with_harmony
    render_response = renderer._render_responses_with_harmony

    @wraps(adjust)
    def adjust_harmony_request(self: Any, request: Any) -> None:
        # Adjusting clears the format, which our mapping renders. Only declared fields are dumped.
        asked: Any = getattr(request, "response_format", None) or getattr(request, "text", None)
        if hasattr(asked, "model_dump"):
            asked = asked.model_dump(mode="json", by_alias=True, exclude_none=True)
        request.__dict__[_ASKED] = asked
        adjust(self, request)

    @wraps(render_chat)
    def make_request(self: Any, request: Any, should_include_tools: bool = True) -> Any:
        if getattr(request, "kv_transfer_params", None):  # the prompt may come from elsewhere
            return render_chat(self, request, should_include_tools)
        asked = request.__dict__.pop(_ASKED, None)
        messages = chat_messages(request, asked, with_tools=should_include_tools)
        prompt = module.tokens_input(prompt_of(messages), cache_salt=request.cache_salt)
        return vllm_messages(messages, module.OpenAIMessage), [prompt]

    @wraps(render_response)
    def render(self: Any, request: Any, **history: Any) -> Any:
        has_history = history.get("previous_messages") or request.previous_input_messages
        if has_history or any(tool.type != "function" for tool in request.tools):
            return render_response(self, request, **history)
        self.adjust_harmony_request(request)
        messages = response_messages(request, request.__dict__.pop(_ASKED, None))
        arrival_time = time.time()
        prompt = module.TokensPrompt(prompt_token_ids=prompt_of(messages))
        limits = request.build_tok_params(self.model_config)
        limits.apply_post_tokenization(self.renderer.tokenizer, prompt)
        engine_input = module.tokens_input(
            prompt["prompt_token_ids"], cache_salt=request.cache_salt
        )
        engine_input["arrival_time"] = arrival_time
        return module.ResponsesRenderResult(
            messages=vllm_messages(messages, module.OpenAIMessage), engine_input=engine_input
        )

    renderer.adjust_harmony_request = adjust_harmony_request
    renderer._make_request_with_harmony = make_request
    renderer._render_responses_with_harmony = render


def patch_enforcement(module: Any) -> None:
    """Let `StructuredOutputManager` enforce grammars of whole turns by our matcher."""
    manager = module.StructuredOutputManager
    own = manager._create_grammar
    if _is_ours(own):
        return

    @wraps(own)
    def create_grammar(self: Any, request: Any) -> Any:
        from .enforcement import turn_enforcement  # only where a request is constrained

        try:
            enforcement = turn_enforcement(request, self.vllm_config)
        except (HarmonyError, ImportError) as error:
            logger.warning("harmony: vLLM's own llguidance enforces a grammar: %s", error)
            enforcement = None
        return own(self, request) if enforcement is None else enforcement

    manager._create_grammar = create_grammar
