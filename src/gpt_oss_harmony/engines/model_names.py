"""What the name of a model means, and which engine opens it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import closest, did_you_mean
from .engine import EngineError
from .gguf_header import is_gguf
from .installed_models import PROGRAMS, find_installed, in_order

ENGINES = ("transformers", "mlx", "llamacpp", "numpy")
"""The engines in this process, as `open_engine` and ``--engine`` name them."""


class ModelSource(NamedTuple):
    """A folder, a file or a name on the hub, and the engine that opens it."""

    engine: str
    place: str


def is_url(model: str) -> bool:
    """Return whether a model is the URL of a server, and not a model for this process."""
    return model.startswith(("http://", "https://"))


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


def split_program(model: str) -> tuple[str | None, str]:
    """Split the name of a program off the name that it has for a model.

    >>> split_program("ollama:gpt-oss:20b"), split_program("openai/gpt-oss-20b")
    (('ollama', 'gpt-oss:20b'), (None, 'openai/gpt-oss-20b'))
    """
    program, colon, name = model.partition(":")
    return (program, name) if colon and program in PROGRAMS else (None, model)


def find_source(
    model: str,
    engine: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> ModelSource:
    """Find the files of a model, and choose its engine if none was chosen.

    `options` are those of the engine; some say where its files are. A name that is not on this disk
    is not looked up: see `check_hub`. Raises `EngineError` for a name that means nothing, and for
    an engine that cannot open the model.
    """
    options = options or {}
    if engine is not None and engine not in ENGINES:
        raise EngineError(f"there is no engine {engine!r}; choose one of {', '.join(ENGINES)}")
    program, name = split_program(model)
    if program is not None:
        model = str(find_installed(program, name).place)
    path = Path(model)
    fitting: tuple[str, ...]
    if model == "demo":
        place, fitting = model, ("numpy", "transformers", "mlx")
    elif path.is_file():
        place, fitting = _file(path), ("llamacpp",)
    elif path.is_dir():
        place, fitting = _folder(path, options)
    else:
        _check_no_path(model)
        place, fitting = model, _of_name(model)
    chosen = engine or fitting[0]
    if chosen not in fitting:
        raise EngineError(
            f"{model} cannot be opened with the engine {chosen}; choose {' or '.join(fitting)}"
        )
    if chosen == "transformers":  # misspelled options are found before PyTorch is imported
        for option in options.keys() - _OPTIONS:
            if meant := did_you_mean(option, _OPTIONS, likeness=_CLOSE):
                raise EngineError(f"the engine has no option {option!r}; {meant}")
    return ModelSource(chosen, place)


def _file(path: Path) -> str:
    if path.suffix == ".gguf" or is_gguf(path):
        return str(path)
    raise EngineError(f"{path} is a file; name the folder that it is in")


def _folder(path: Path, options: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return what is to be opened in a folder, and the engines that can, the usual one first."""
    config = path / "config.json"
    if config.is_file():
        return str(path), _of_config(config)
    base = adapter_base(path)
    if base is not None and find_spec("peft") is None:
        raise EngineError(
            f"the folder {str(path)!r} has an adapter of {base}, which needs PEFT: pip install peft"
        )
    if base is not None or "gguf_file" in options:
        return str(path), ("transformers",)
    files = sorted(path.glob("*.gguf"))
    firsts = [file for file in files if not re.search(r"-\d{5}-of-\d{5}$", file.stem)]
    firsts += [file for file in files if re.search(r"-00001-of-\d{5}$", file.stem)]
    if len(firsts) == 1:
        return str(firsts[0]), ("llamacpp",)
    if firsts:
        listed = ", ".join(file.name for file in firsts)
        raise EngineError(f"the folder {str(path)!r} has several models; name one of {listed}")
    raise EngineError(
        f"the folder {str(path.absolute())!r} has no config.json, so it has no model; name "
        "the folder that has the model's config.json and its weights"
    )


def adapter_base(folder: Path) -> str | None:
    """Return the model that the adapter in a folder changes, as PEFT wrote it; None without one.

    Raises `EngineError` if the file of PEFT does not name it.
    """
    path = folder / _ADAPTER_CONFIG
    if (folder / "config.json").is_file() or not path.is_file():
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise EngineError(f"{path} is not JSON: {error}") from error
    base = content.get("base_model_name_or_path") if isinstance(content, dict) else None
    if not isinstance(base, str) or not base:
        raise EngineError(
            f"{path} does not name the model that the adapter changes, as base_model_name_or_path"
        )
    return base


def _of_config(config: Path) -> tuple[str, ...]:
    """Return the engines for a folder; mlx-lm writes `quantization`, which Transformers ignores."""
    try:
        content = json.loads(config.read_text("utf-8"))
    except (OSError, ValueError):
        content = None  # the engine has a better error
    if not isinstance(content, dict) or content.get("model_type") != "gpt_oss":
        return ("transformers",)
    return ("mlx",) if "quantization" in content else in_order("transformers", "mlx", "numpy")


def _of_name(model: str) -> tuple[str, ...]:
    if model.lower().endswith("-gguf"):
        raise EngineError(
            f"{model} has GGUF files; download one, and name it: hf download {model} --local-dir ."
        )
    return ("mlx",) if model.startswith("mlx-community/") else in_order("transformers", "mlx")


def _check_no_path(model: str) -> None:
    """Raise `EngineError` for what no hub has: paths, names of programs, `demo` misspelled."""
    if "/" not in model and closest(model, ["demo"]):
        raise EngineError(f"there is no model {model!r} on this disk; did you mean demo?")
    if model.endswith(".gguf"):
        raise EngineError(
            f"there is no file {str(Path(model).absolute())!r}; 'harmony models' lists the weights "
            "on this computer"
        )
    if model.startswith((".", "~", "/")) or model.count("/") > 1 or "\\" in model:
        raise EngineError(
            f"there is no folder {str(Path(model).absolute())!r}; name a folder with a model, a "
            "model on the Hugging Face hub such as openai/gpt-oss-20b, the URL of a server, or demo"
        )
    tagged = re.fullmatch(r"([\w.-]+/)?gpt-oss[\w.-]*:([\w.-]+)", model)
    if tagged:
        size = "120b" if "120b" in tagged[2] else "20b"
        raise EngineError(
            f"{model} is a name of Ollama's; write ollama:{model} for what Ollama has downloaded, "
            f"or openai/gpt-oss-{size} for the same model on the Hugging Face hub"
        )


_HUB_TIMEOUT = 10  # seconds


def check_hub(model: str, options: Mapping[str, Any]) -> None:
    """Raise `EngineError` for a name that is neither on this disk nor on the Hugging Face hub.

    This makes one request at most. Transformers would repeat its own for half a minute.
    """
    try:
        from huggingface_hub import HfApi, constants, try_to_load_from_cache
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ModuleNotFoundError:
        return  # the error about Transformers names the extra
    revision, remedy = options.get("revision"), "name a folder, a model on the hub, a URL, or demo"
    if re.fullmatch(r"[\w.-]+:\d+(/.*)?", model):
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
