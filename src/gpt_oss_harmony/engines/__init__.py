"""Engines run gpt-oss models behind one interface: token ids in, token ids out.

::

    engine                        the interface, its settings and its errors
    repetition                    a model that runs in circles, found token by token
    token_sampler                 logits to tokens, for engines in this process
    memory_plan → placement       where a model runs, and how its memory is used
    devices                       the facts about this machine for both
    parallel, cpu_model           threads, processes and memory; gpt-oss on the CPU
    drafts                        guesses of the next tokens
    running_requests              requests of a model in this process
    private_batching → continuous_batching
                                  all requests at once, with what is private in Transformers
    self_check                    the batching against the plain model, before the first request
    sequential_generation         one request after the other, with what is public
    transformers_engine           a model in this process (extra ``transformers``)
    demo_embedding → demo_model   the model that comes with the package
    http_client → server_engine → vllm_engine, llama_cpp_engine, sglang_engine
                                  engines behind a server (extra ``http``)
    completion                    a conversation and an engine to messages
"""

import difflib
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
)
from .repetition import RepetitionDetector

if TYPE_CHECKING:
    from .llama_cpp_engine import LlamaCppEngine as LlamaCppEngine
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
    "LlamaCppEngine": ("llama_cpp_engine", "http"),
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


async def open_engine(model: str | Path, **options: Any) -> Engine:
    """Open the engine for a model.

    `model` is one of these:

    - ``demo``: the small model that comes with the package
    - a URL (``http://`` or ``https://``): a server of llama.cpp, SGLang or vLLM
    - a folder, or a name on the Hugging Face hub: Transformers in this process; a `Path` is always
      a folder

    `options` are passed to the engine. Loading a model in this process blocks the event loop.
    Raises `EngineError` if the model cannot be opened.
    """
    name = str(model)
    if isinstance(model, Path):
        model = str(model.absolute())
    if model.startswith(("http://", "https://")):
        try:
            from .llama_cpp_engine import LlamaCppEngine
            from .sglang_engine import SglangEngine
            from .vllm_engine import VllmEngine
        except ModuleNotFoundError as error:
            raise EngineError(
                missing_package("an engine behind a URL needs", error, "http")
            ) from error
        engine: type[LlamaCppEngine | SglangEngine | VllmEngine] = VllmEngine
        for kind in (LlamaCppEngine, SglangEngine):
            if await kind.answers(model, api_key=options.get("api_key")):
                engine = kind
        try:
            return await engine.connect(model, **options)
        except TypeError as error:
            given = ", ".join(sorted(options))
            if not given:
                raise
            raise EngineError(
                f"{engine.__name__} does not have all of the options {given}: {error}"
            ) from error
    _check_options(options)
    _check_name(model, options)
    try:
        from .transformers_engine import TransformersEngine
    except ModuleNotFoundError as error:
        raise EngineError(
            missing_package(f"running {model!r} in this process needs", error, "transformers")
        ) from error
    folder: str | Path = model
    if model == "demo":
        from .demo_model import demo_model_folder

        folder = demo_model_folder()
    return TransformersEngine(folder, name=name, **options)


_CLOSE = 0.75
# Of `TransformersEngine` and `AutoModelForCausalLM.from_pretrained`; the latter takes more.
_OPTIONS = frozenset(
    """
context_length max_requests threads self_check attn_implementation cache_dir device_map device_mesh
distributed_config dtype experts_implementation force_download gguf_file local_files_only
low_cpu_mem_usage max_memory offload_buffers offload_folder proxies quantization_config revision
subfolder token torch_dtype tp_plan tp_size trust_remote_code use_safetensors variant
    """.split()  # noqa: SIM905 - it would fill thirty lines
)
_ADAPTER_CONFIG = "adapter_config.json"


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise `EngineError` for a misspelled option before PyTorch is imported."""
    for name in options.keys() - _OPTIONS:
        close = difflib.get_close_matches(name, _OPTIONS, 1, _CLOSE)
        if close:
            raise EngineError(f"the engine has no option {name!r}; did you mean {close[0]}?")


def _check_name(model: str, options: Mapping[str, Any]) -> None:
    """Raise `EngineError` for a path that is not a folder; names on the hub have at most one /."""
    path = Path(model)
    if model == "demo":
        return
    if path.is_dir():
        has_config = any((path / name).is_file() for name in ("config.json", _ADAPTER_CONFIG))
        if not (has_config or "gguf_file" in options):
            raise EngineError(
                f"the folder {str(path.absolute())!r} has no config.json, so it has no model; name "
                "the folder that has the model's config.json and its weights"
            )
        return
    if path.exists():
        raise EngineError(f"{model} is a file; name the folder that it is in")
    if model.startswith((".", "~", "/")) or model.count("/") > 1 or "\\" in model:
        raise EngineError(
            f"there is no folder {str(path.absolute())!r}; name a folder with a model, a model on "
            "the Hugging Face hub such as openai/gpt-oss-20b, the URL of a server, or demo"
        )
    _check_hub(model, options)


_HUB_TIMEOUT = 10  # seconds


def _check_hub(model: str, options: Mapping[str, Any]) -> None:
    """Raise `EngineError` for a name that is neither on this disk nor on the Hugging Face hub.

    This makes one request at most. Transformers would repeat its own for half a minute.
    """
    try:
        from huggingface_hub import HfApi, constants, try_to_load_from_cache
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ModuleNotFoundError:
        return  # the error about Transformers names the extra
    revision, remedy = options.get("revision"), "name a folder, a model on the hub, a URL, or demo"
    if difflib.get_close_matches(model, ["demo"]):
        remedy = "did you mean demo?"
    elif re.fullmatch(r"[\w.-]+:\d+(/.*)?", model):
        remedy = f"for a server, write http://{model}"
    try:
        cached = try_to_load_from_cache(model, "config.json", options.get("cache_dir"), revision)
        if isinstance(cached, str):
            return
        if constants.HF_HUB_OFFLINE or options.get("local_files_only"):
            problem = "the Hugging Face hub is off (HF_HUB_OFFLINE or local_files_only)"
        else:
            api = HfApi(token=options.get("token"))
            api.model_info(model, revision=revision, timeout=_HUB_TIMEOUT)
            return
    except HFValidationError as error:
        raise EngineError(f"{model!r} cannot be the name of a model; {remedy}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status == 429 or status >= 500:
            return  # Transformers waits and tries again
        problem = f"the Hugging Face hub has none that you may read ({status})"
        remedy += "; a private model needs the variable HF_TOKEN"
    except Exception as error:  # noqa: BLE001 - of whichever HTTP library the hub's client uses
        problem = f"the Hugging Face hub cannot be reached ({error})"
    raise EngineError(f"there is no model {model!r} on this disk, and {problem}; {remedy}")
