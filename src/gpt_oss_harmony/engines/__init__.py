"""Engines run gpt-oss models behind one interface: token ids in, token ids out.

::

    engine                        the interface, its settings and its errors
    repetition                    a model that runs in circles, found token by token
    token_sampler → in_process_engine
                                  what all engines in this process share: seeds, grammars, forced
                                  tokens, queues, cancelling
    torch_sampling                rows of PyTorch's logits to tokens
    batching_memory → placement   where a model runs, and how its memory is used
    devices                       the facts about this machine for both
    parallel, cpu_model           threads, processes and memory; gpt-oss on the CPU
    drafts                        guesses of the next tokens
    private_batching → continuous_batching
                                  all requests at once, with what is private in Transformers
    self_check                    the batching against the plain model, before the first request
    sequential_generation         one request after the other, with what is public
    transformers_engine           a model in this process (extra ``transformers``)
    safetensors_file              weights as NumPy arrays
    demo_model                    the model that comes with the package
    numpy_model                   gpt-oss in one file, to be read: the oracle for other engines
    numpy_sampling                a row of NumPy's logits to a token
    numpy_engine                  small models with NumPy alone (extra ``numpy``): the demo model
    local_memory                  what fits beside the weights on a person's own computer
    mlx_sampling → mlx_batching → mlx_engine
                                  a model in this process with MLX (extra ``mlx``)
    http_client → server_engine → vllm_engine, llama_cpp_engine, sglang_engine
                                  engines behind a server (extra ``http``)
    gguf_header → gguf_engine     a GGUF file, in llama.cpp in this process (extra ``llamacpp``)
    gguf_conversion               Ollama's form of a GGUF file, copied into that of llama.cpp
    installed_models              the weights that are already on this computer
    which_server                  the engine for a URL, or what answers there instead
    model_names                   what a name or a path means, and which engine opens it
    completion                    a conversation and an engine to messages
"""

from importlib import import_module
from inspect import isawaitable, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..installation import missing_package, needing_extra
from .completion import Completion, CompletionStep, complete, stream_completion
from .engine import (
    ContextLengthError,
    Engine,
    EngineError,
    FinishReason,
    Health,
    SampledToken,
    Sampling,
    SamplingError,
    unknown_options,
)
from .repetition import RepetitionDetector

if TYPE_CHECKING:
    from .gguf_engine import GgufEngine as GgufEngine
    from .llama_cpp_engine import LlamaCppEngine as LlamaCppEngine
    from .mlx_engine import MlxEngine as MlxEngine
    from .numpy_engine import NumpyEngine as NumpyEngine
    from .sglang_engine import SglangEngine as SglangEngine
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
    "RepetitionDetector",
    "SampledToken",
    "Sampling",
    "SamplingError",
    "complete",
    "open_engine",
    "stream_completion",
]

_ENGINES = {
    "GgufEngine": ("gguf_engine", "llamacpp"),
    "LlamaCppEngine": ("llama_cpp_engine", "http"),
    "MlxEngine": ("mlx_engine", "mlx"),
    "NumpyEngine": ("numpy_engine", "numpy"),
    "SglangEngine": ("sglang_engine", "http"),
    "TransformersEngine": ("transformers_engine", "transformers"),
    "VllmEngine": ("vllm_engine", "http"),
}


def __getattr__(name: str) -> Any:
    """Import an engine on first use: each needs an extra."""
    if name not in _ENGINES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _ENGINES[name]
    with needing_extra(f"{name} needs", extra):
        return getattr(import_module(f".{module}", __name__), name)


async def open_engine(model: str | Path, *, engine: str | None = None, **options: Any) -> Engine:
    """Open the engine for a model.

    `model` is one of these:

    - ``demo``: the small model that comes with the package, with NumPy alone
    - a URL (``http://`` or ``https://``): a server of llama.cpp, SGLang or vLLM
    - a GGUF file, or a folder with one: llama.cpp in this process
    - a folder, or a name on the Hugging Face hub: MLX on a Mac where it is installed, and for
      weights that only MLX reads; otherwise Transformers. A `Path` is always a file or a folder
    - ``ollama:gpt-oss:20b``, ``lmstudio:NAME``: what these programs have downloaded

    `engine` chooses another one for a model in this process: ``transformers``, ``mlx``,
    ``llamacpp`` or, for small models, ``numpy``. `options` are passed to the engine. Loading a
    model in this process may block the event loop. Raises `EngineError` if the model cannot be
    opened.
    """
    from .model_names import check_hub, find_source, is_url

    name = str(model)
    if isinstance(model, Path):
        model = str(model.absolute())
    if is_url(model):
        if engine is not None:
            problem = "is a server; an engine can be chosen for a model in this process"
            raise EngineError(f"{model} {problem}")
        try:
            from .which_server import open_server
        except ModuleNotFoundError as error:
            need = "an engine behind a URL needs"
            raise EngineError(missing_package(need, error, "http")) from error
        return await open_server(model, options)
    source = find_source(model, engine, options)
    if source.place == model != "demo" and not Path(model).exists():
        check_hub(model, options)
    kind, extra = _IN_PROCESS[source.engine]
    try:
        opened: Any = getattr(import_module(f".{_ENGINES[kind][0]}", __name__), kind)
    except ModuleNotFoundError as error:
        raise EngineError(
            missing_package(f"running {model!r} in this process needs", error, extra)
        ) from error
    try:
        # Before the call, in which a bug could raise a `TypeError` as well.
        signature(opened.load).bind(source.place, name=name, **options)
    except TypeError as error:
        raise unknown_options(kind, options, error, opened.load) from error
    place = source.place
    if place == "demo" and source.engine != "numpy":
        from .demo_model import demo_model_folder

        place = str(demo_model_folder())
    loaded = opened.load(place, name=name, **options)
    return cast(Engine, await loaded if isawaitable(loaded) else loaded)


_IN_PROCESS = {
    "numpy": ("NumpyEngine", "numpy"),
    "transformers": ("TransformersEngine", "transformers"),
    "mlx": ("MlxEngine", "mlx"),
    "llamacpp": ("GgufEngine", "llamacpp"),
}
