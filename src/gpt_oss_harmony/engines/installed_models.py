"""The gpt-oss weights that are already on this computer, wherever a program has put them.

Four places: the cache of the Hugging Face hub, the folders of Ollama and of LM Studio, and the
cache of llama.cpp. Nothing is changed there. What is damaged or half downloaded is listed, with
what is wrong.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from .batching_memory import ModelFigures
from .engine import EngineError
from .gguf_conversion import converted_file
from .gguf_header import ARCHITECTURE, OLLAMA_ARCHITECTURE, GgufHeader, read_gguf_header

PROGRAMS = ("ollama", "lmstudio")
"""The programs whose names for models can be opened, such as ``ollama:gpt-oss:20b``."""

_MODEL_LAYER = "application/vnd.ollama.image.model"
_OLLAMA_HOST, _OLLAMA_LIBRARY, _OLLAMA_TAG = "registry.ollama.ai", "library", "latest"


class InstalledModel(NamedTuple):
    """A model that a program has downloaded.

    `name` is what the commands take. `engines` are those that read it, the usual one first; there
    are none with a `problem`.
    """

    program: str
    name: str
    place: Path
    size: int
    quantization: str
    engines: tuple[str, ...]
    problem: str = ""
    figures: ModelFigures | None = None
    is_convertible: bool = False
    """Whether the problem is only the form of Ollama's file."""


def installed_models(environment: Mapping[str, str] = os.environ) -> list[InstalledModel]:
    """List the weights of gpt-oss on this computer; this reads headers, and no weights."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    hub = Path(environment.get("HF_HOME") or cache / "huggingface") / "hub"
    return [
        *_of_hub(Path(environment.get("HF_HUB_CACHE") or hub)),
        *_of_ollama(_ollama_folders(environment, home)),
        *_of_lm_studio(_lm_studio_folders(home)),
        *_of_llama_cpp(_llama_cpp_caches(environment, home)),
    ]


def find_installed(
    program: str,
    name: str,
    environment: Mapping[str, str] = os.environ,
    *,
    convertible: bool = False,
) -> InstalledModel:
    """Return a model that a program of `PROGRAMS` has downloaded, by the name it has there.

    With `convertible`, this may be a file that is yet to be converted. Raises `EngineError` if it
    has none of that name, or a damaged one.
    """
    found = [model for model in installed_models(environment) if model.program == program]
    wanted = {f"{program}:{name}", f"{program}:{name}:{_OLLAMA_TAG}"}
    for model in found:
        if model.name in wanted:
            if model.problem and not (convertible and model.is_convertible):
                raise EngineError(f"{model.name}: {model.problem}")
            return model
    others = ", ".join(model.name for model in found) or "no gpt-oss"
    raise EngineError(f"there is no model {name!r} of {program} on this computer; it has {others}")


# The cache of the hub


def _of_hub(cache: Path) -> Iterator[InstalledModel]:
    for folder in sorted(cache.glob("models--*")):
        name = folder.name.removeprefix("models--").replace("--", "/")
        snapshots = [path for path in (folder / "snapshots").glob("*") if path.is_dir()]
        if not snapshots:
            continue
        latest = max(snapshots, key=lambda path: path.stat().st_mtime)
        if (latest / "config.json").is_file():
            yield from _folder("Hugging Face", name, latest)
        for file in sorted(latest.rglob("*.gguf")):
            yield from _gguf("Hugging Face", str(file), file)


def _folder(program: str, name: str, folder: Path) -> Iterator[InstalledModel]:
    """Yield the model of a folder with a ``config.json``, if it is a gpt-oss."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return  # it may be any model
    if not isinstance(config, dict) or config.get("model_type") != "gpt_oss":
        return
    files = list(folder.glob("model*.safetensors"))
    size = sum(file.stat().st_size for file in files)
    of_mlx = config.get("quantization")
    stored = config.get("quantization_config") or {}
    problem = _missing_weights(folder, files)
    if isinstance(of_mlx, dict):
        kind, engines = f"MLX, {of_mlx.get('bits')} bits", in_order("mlx")
    else:
        method = stored.get("quant_method") if isinstance(stored, dict) else None
        kind = str(method).upper() if method else str(config.get("dtype") or "bfloat16")
        engines = in_order("transformers", "mlx")
    try:
        figures = ModelFigures.of(config)
    except EngineError as error:
        figures, problem = None, problem or str(error)
    engines = () if problem else engines
    yield InstalledModel(program, name, folder, size, kind, engines, problem, figures)


def in_order(*engines: str) -> tuple[str, ...]:
    """Return the engines for weights that all of them read; on a Mac, MLX first if it is there.

    >>> in_order("mlx")
    ('mlx',)
    """
    if "mlx" in engines and sys.platform == "darwin" and find_spec("mlx_lm") is not None:
        return tuple(dict.fromkeys(("mlx", *engines)))
    return engines


def _missing_weights(folder: Path, files: list[Path]) -> str:
    """Name what is missing; an index lists the files of a model that has several."""
    if any(folder.glob("*.incomplete")):
        return "its download is not complete"
    index = folder / "model.safetensors.index.json"
    try:
        listed = json.loads(index.read_text("utf-8"))["weight_map"].values()
    except FileNotFoundError:
        listed = ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{index.name} is damaged; download it again"
    have = {file.name for file in files}
    missing = sorted(set(map(str, listed)) - have)
    if missing:
        return f"{len(missing)} of its {len(set(listed))} files are missing, such as {missing[0]}"
    return "" if files else "its weights are missing"


def _gguf(program: str, name: str, file: Path) -> Iterator[InstalledModel]:
    """Yield the model of a GGUF file, if it is a gpt-oss; a damaged one by its file's name."""
    later = re.search(r"-(\d{5})-of-\d{5}$", file.stem)
    if later and later[1] != "00001":
        return  # the first part stands for all
    size = file.stat().st_size
    try:
        header = read_gguf_header(file)
    except EngineError as error:
        if "gpt-oss" in f"{name} {file}".lower().replace("gptoss", "gpt-oss"):
            yield InstalledModel(program, name, file, size, "unknown", (), str(error))
        return
    if header.architecture in (ARCHITECTURE, OLLAMA_ARCHITECTURE):
        yield _of_header(program, name, header)


def _of_header(program: str, name: str, header: GgufHeader) -> InstalledModel:
    file, kind = header.file, header.quantization
    parts = header.parts()
    missing = [part.name for part in parts if not part.is_file()]
    size = sum(part.stat().st_size for part in parts if part.is_file())
    if missing:
        problem = f"{missing[0]} is missing beside it"
        return InstalledModel(program, name, file, size, kind, (), problem)
    if header.architecture == OLLAMA_ARCHITECTURE:
        converted = converted_file(file)
        if not converted.is_file():
            problem = (
                "it is in a form that only Ollama reads; 'harmony models --convert "
                f"{name}' copies it once ({size / 1e9:.1f} GB)"
            )
            return InstalledModel(program, name, file, size, kind, (), problem, is_convertible=True)
        file = converted
    return InstalledModel(program, name, file, size, kind, ("llamacpp",), figures=header.figures())


# Ollama


def _ollama_folders(environment: Mapping[str, str], home: Path) -> list[Path]:
    if given := environment.get("OLLAMA_MODELS"):
        return [Path(given)]
    # The second is the home of the user that Ollama's installer on Linux makes.
    return [home / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]


def _of_ollama(folders: list[Path]) -> Iterator[InstalledModel]:
    for folder in folders:
        manifests = folder / "manifests"
        try:
            files = sorted(path for path in manifests.glob("*/*/*/*") if path.is_file())
        except OSError:  # it belongs to another user
            continue
        for manifest in files:
            yield from _of_manifest(folder, manifest, manifest.relative_to(manifests).parts)


def _of_manifest(folder: Path, manifest: Path, parts: tuple[str, ...]) -> Iterator[InstalledModel]:
    """Yield the model of a manifest, which names the file of its weights by their digest."""
    host, namespace, model, tag = parts
    shown = [part for part, default in ((host, _OLLAMA_HOST), (namespace, _OLLAMA_LIBRARY))
             if part != default]  # fmt: skip
    name = "ollama:" + "/".join([*shown, f"{model}:{tag}"])
    is_named = "gpt-oss" in model
    try:
        layers = json.loads(manifest.read_text("utf-8"))["layers"]
        (layer,) = [layer for layer in layers if layer["mediaType"] == _MODEL_LAYER]
        digest, size = str(layer["digest"]).replace(":", "-"), int(layer["size"])
        # The digest becomes part of a path, so it may be nothing else.
        if not re.fullmatch(r"sha256-[0-9a-f]{64}", digest):
            raise ValueError(digest)
    except (OSError, ValueError, KeyError, TypeError):
        if is_named:
            problem = f"its manifest {manifest} is damaged; pull it again"
            yield InstalledModel("ollama", name, manifest, 0, "unknown", (), problem)
        return
    blob = folder / "blobs" / digest
    try:
        have = blob.stat().st_size if blob.is_file() else -1
        readable = os.access(blob, os.R_OK)
    except OSError:
        have, readable = -1, False
    if have == size and readable:
        yield from _gguf("ollama", name, blob)
        return
    if not is_named:
        return
    if have < 0:
        started = any((folder / "blobs").glob(f"{digest}-partial*"))
        problem = "its download is not complete" if started else f"its file {blob} is missing"
        problem += f"; ollama pull {name.removeprefix('ollama:')}"
    elif not readable:
        problem = f"its file {blob} may not be read by you"
    else:
        problem = f"its file {blob} has {have:,} of {size:,} bytes; pull it again"
    yield InstalledModel("ollama", name, blob, max(have, 0), "unknown", (), problem)


# LM Studio and llama.cpp


def _lm_studio_folders(home: Path) -> list[Path]:
    folders = [home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"]
    try:
        settings = json.loads((home / ".lmstudio" / "settings.json").read_text("utf-8"))
        folders.insert(0, Path(settings["downloadsFolder"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # the folder was not changed
    return list(dict.fromkeys(folders))


def _of_lm_studio(folders: list[Path]) -> Iterator[InstalledModel]:
    """Yield the models in folders of a publisher and a name; GGUF files, or folders of MLX."""
    for root in folders:
        for folder in sorted(path for path in root.glob("*/*") if path.is_dir()):
            name = f"lmstudio:{folder.parent.name}/{folder.name}"
            if (folder / "config.json").is_file():
                yield from _folder("lmstudio", name, folder)
            files = sorted(folder.glob("*.gguf"))
            for file in files:
                own = name if len(files) == 1 else f"{name}/{file.stem}"
                yield from _gguf("lmstudio", own, file)
            for file in sorted(folder.glob("*gpt-oss*.part")):
                problem = "its download is not complete"
                size = file.stat().st_size
                yield InstalledModel("lmstudio", name, file, size, "unknown", (), problem)


def _llama_cpp_caches(environment: Mapping[str, str], home: Path) -> list[Path]:
    if given := environment.get("LLAMA_CACHE"):
        return [Path(given)]
    if sys.platform == "darwin":
        return [home / "Library" / "Caches" / "llama.cpp"]
    if sys.platform == "win32":
        return [Path(environment.get("LOCALAPPDATA") or home) / "llama.cpp"]
    return [Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "llama.cpp"]


def _of_llama_cpp(folders: list[Path]) -> Iterator[InstalledModel]:
    for folder in folders:
        for file in sorted(folder.glob("*.gguf")):
            yield from _gguf("llama.cpp", str(file), file)
        for file in sorted(folder.glob("*gpt-oss*.gguf.downloadInProgress")):
            problem = "its download is not complete"
            size = file.stat().st_size
            yield InstalledModel("llama.cpp", str(file), file, size, "unknown", (), problem)
