"""Engines: whatever runs gpt-oss, behind one small interface of token ids in and token ids out.

::

    errors → sampling → engine    the interface
    row_sampler                   logits to a token, for engines in this process
    transformers_engine           a model in this process (extra ``transformers``)
    server_sent_events → http_client → server_engine → vllm_engine, llama_cpp_engine
                                  servers of their own (extra ``http``)
    completion                    a conversation and an engine to messages
    model_names                   a model's name to an engine
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..installation import missing_package
from .completion import Completion, CompletionStep, complete, stream_completion
from .engine import Engine, FinishReason, Health, SampledToken
from .errors import ContextLengthError, EngineError, SamplingError
from .model_names import open_engine
from .sampling import Sampling

if TYPE_CHECKING:
    from .llama_cpp_engine import LlamaCppEngine as LlamaCppEngine
    from .transformers_engine import TransformersEngine as TransformersEngine
    from .vllm_engine import VllmEngine as VllmEngine

__all__ = [
    "Completion",
    "CompletionStep",
    "ContextLengthError",
    "Engine",
    "EngineError",
    "FinishReason",
    "Health",
    "SampledToken",
    "Sampling",
    "SamplingError",
    "complete",
    "open_engine",
    "stream_completion",
]

_ENGINES = {
    "LlamaCppEngine": ("llama_cpp_engine", "http"),
    "TransformersEngine": ("transformers_engine", "transformers"),
    "VllmEngine": ("vllm_engine", "http"),
}


def __getattr__(name: str) -> Any:
    """Import an engine when it is asked for: each needs an extra."""
    if name not in _ENGINES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _ENGINES[name]
    try:
        return getattr(import_module(f".{module}", __name__), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            missing_package(f"{name} needs", error, extra), name=error.name
        ) from error
