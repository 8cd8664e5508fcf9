"""Engines: whatever runs gpt-oss, behind one small interface of token ids in and token ids out.

::

    errors → sampling → engine    the interface
    row_sampler                   logits to a token, for engines in this process
    transformers_engine           a model in this process (extra ``transformers``)
    demo_model                    the model that comes with the package
"""

from .engine import Engine, FinishReason, Health, SampledToken
from .errors import ContextLengthError, EngineError, SamplingError
from .sampling import Sampling

__all__ = [
    "ContextLengthError",
    "Engine",
    "EngineError",
    "FinishReason",
    "Health",
    "SampledToken",
    "Sampling",
    "SamplingError",
]
