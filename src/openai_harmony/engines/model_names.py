"""The name of a model to the engine that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..installation import missing_package
from .engine import Engine
from .errors import EngineError

__all__ = ["open_engine"]


async def open_engine(model: str, **options: Any) -> Engine:
    """Open what a model's name stands for.

    - ``demo``: the small model that comes with the package
    - ``http://`` or ``https://``: a server, vLLM or llama.cpp, whichever answers there
    - a folder, or a name on the Hugging Face hub: Transformers in this process

    `options` go to the engine. A model in this process is loaded on the spot: meanwhile nothing
    else runs on the event loop. Raises `EngineError`.
    """
    if model.startswith(("http://", "https://")):
        return await _open_server(model, options)
    try:
        from .transformers_engine import TransformersEngine
    except ImportError as error:
        raise EngineError(
            missing_package(f"running {model!r} in this process needs", error, "transformers")
        ) from error
    folder: str | Path = model
    if model == "demo":
        from .demo_model import demo_model_folder

        folder = demo_model_folder()
    return TransformersEngine(folder, name=model, **options)


async def _open_server(url: str, options: dict[str, Any]) -> Engine:
    try:
        from .llama_cpp_engine import LlamaCppEngine
        from .vllm_engine import VllmEngine
    except ImportError as error:
        raise EngineError(missing_package("an engine behind a URL needs", error, "http")) from error
    if await LlamaCppEngine.answers(url):
        return await LlamaCppEngine.connect(url, **options)
    return await VllmEngine.connect(url, **options)
