"""The two changes to vLLM's modules; each is made once."""

from __future__ import annotations

import logging
import sys
from functools import wraps
from types import ModuleType
from typing import Any

from .parser import RecoveringParser, VllmTypes, parser_class
from .settings import Settings

__all__ = ["patch_parser", "patch_renderer"]

logger = logging.getLogger("vllm.plugins.harmony")


def patch_parser(module: ModuleType, settings: Settings) -> None:
    """Replace `HarmonyParser` in ``vllm.parser.harmony``."""
    own = module.HarmonyParser
    if issubclass(own, RecoveringParser):
        return
    types = VllmTypes(
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
    package = sys.modules.get(module.__name__.rpartition(".")[0])
    if getattr(package, "HarmonyParser", None) is own:
        package.HarmonyParser = ours
    logger.info("harmony: gpt-oss is parsed by gpt-oss-harmony")


def patch_renderer(module: ModuleType, settings: Settings) -> None:
    """Let `OnlineRenderer` tell its parser what enforces grammars."""
    renderer = module.OnlineRenderer
    own = renderer.adjust_harmony_request
    if hasattr(own, "__wrapped__"):
        return

    @wraps(own)
    def adjust_harmony_request(self: Any, request: Any) -> None:
        if self.parser is not None and issubclass(self.parser, RecoveringParser):
            self.parser.backend = self.renderer.config.structured_outputs_config.backend
        own(self, request)

    renderer.adjust_harmony_request = adjust_harmony_request
