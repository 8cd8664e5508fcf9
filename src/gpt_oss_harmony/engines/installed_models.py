"""The gpt-oss weights that are already on this computer, wherever a program has put them.

Four places: the cache of the Hugging Face hub, the folders of Ollama and of LM Studio, and the
cache of llama.cpp. Nothing is changed there. What is damaged or half downloaded is listed, with
what is wrong; so is a folder that cannot be listed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple

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


# One bad entry must not hide the others


def _below(folder: Path, levels: int = 1) -> Iterator[tuple[Path, OSError | None]]:
    """Yield what is so many levels below a folder; and a folder that cannot be listed, with why."""
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a null character in a setting
        return
    except OSError as error:
        yield folder, error
        return
    for path in paths:
        if levels > 1:
            yield from _below(path, levels - 1)
        else:
            yield path, None


def _inside(folder: Path) -> list[Path]:
    """Return what is in a folder; raises `OSError` if it cannot be listed, but not without one."""
    found = list(_below(folder))
    for _, problem in found:
        if problem is not None:
            raise problem
    return [path for path, _ in found]


def _listed(
    program: str, name: str, place: Path, models: Iterator[InstalledModel]
) -> Iterator[InstalledModel]:
    """Yield the models of an entry; where it cannot be read, its name with the problem."""
    try:
        yield from models
    except OSError as error:
        if _is_gpt_oss(name):
            yield _closed(program, place, error)._replace(name=name)


def _closed(program: str, folder: Path, problem: OSError) -> InstalledModel:
    """Return the entry of a folder that cannot be listed: nobody knows what is in it."""
    text = f"{problem.filename or folder} cannot be read: {problem.strerror}"
    return InstalledModel(program, str(folder), folder, 0, "unknown", (), text)


def _is_gpt_oss(name: str) -> bool:
    """Return whether a name is one of gpt-oss, where nothing else says it."""
    return "gpt-oss" in name.lower().replace("gptoss", "gpt-oss")


def _size(file: Path) -> int | None:
    """Return the bytes of a file; None if there is none, as behind a dangling link."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size if S_ISREG(status.st_mode) else None


def _is_open(file: Path) -> bool:
    """Return whether a file may be read, if there is one."""
    try:
        file.stat()
        return os.access(file, os.R_OK)
    except PermissionError:
        return False
    except OSError:
        return True


def _read_json(file: Path) -> Any:
    """Read a file; raises `ValueError` if it is damaged, and `OSError` if it is no file.

    To open a pipe would wait for its writer.
    """
    if not S_ISREG(file.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a file", str(file))
    try:
        return json.loads(file.read_text("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


# The cache of the hub


def _of_hub(cache: Path) -> Iterator[InstalledModel]:
    for folder, problem in _below(cache):
        if problem is not None:
            yield _closed("Hugging Face", folder, problem)
        elif folder.name.startswith("models--"):
            name = folder.name.removeprefix("models--").replace("--", "/")
            yield from _listed("Hugging Face", name, folder, _of_repository(name, folder))


def _of_repository(name: str, folder: Path) -> Iterator[InstalledModel]:
    snapshots = []
    for path in _inside(folder / "snapshots"):
        if path.is_symlink() and not path.exists():
            continue
        status = path.stat()
        if S_ISDIR(status.st_mode):
            snapshots.append((status.st_mtime, path))
    if not snapshots:
        return
    _, latest = max(snapshots)
    problems: list[OSError] = []
    files = [
        Path(parent, file)
        for parent, _, names in os.walk(latest, onerror=problems.append)
        for file in names
    ]
    if latest / "config.json" in files:
        yield from _listed("Hugging Face", name, latest, _folder("Hugging Face", name, latest))
    for file in sorted(file for file in files if file.match("*.gguf")):
        yield from _gguf("Hugging Face", str(file), file)
    for problem in problems[:1]:
        raise problem


def _folder(program: str, name: str, folder: Path) -> Iterator[InstalledModel]:
    """Yield the model of a folder with a ``config.json``, if it is a gpt-oss."""
    try:
        config = _read_json(folder / "config.json")
    except ValueError:
        if _is_gpt_oss(name):
            problem = "config.json is damaged; download it again"
            yield InstalledModel(program, name, folder, 0, "unknown", (), problem)
        return
    if not isinstance(config, dict) or config.get("model_type") != "gpt_oss":
        return
    sizes = {file: _size(file) for file in sorted(folder.glob("model*.safetensors"))}
    total = sum(filter(None, sizes.values()))
    of_mlx = config.get("quantization")
    stored = config.get("quantization_config") or {}
    problem = _missing_weights(folder, sizes)
    if isinstance(of_mlx, dict):
        kind, engines = f"MLX, {of_mlx.get('bits')} bits", in_order("mlx")
    else:
        method = stored.get("quant_method") if isinstance(stored, dict) else None
        kind = str(method).upper() if method else str(config.get("dtype") or "bfloat16")
        engines = in_order("transformers", "mlx")
    try:
        figures = _figures(config)
    except EngineError as error:
        figures, problem = None, problem or str(error)
    engines = () if problem else engines
    yield InstalledModel(program, name, folder, total, kind, engines, problem, figures)


def _figures(config: dict[str, Any]) -> ModelFigures:
    """Return the sizes of a model, all of which are numbers; raises `EngineError` otherwise."""
    try:
        figures = ModelFigures.of(config)
        sizes = figures._replace(kind="", window=figures.window or 0)._asdict()
        del sizes["kind"]
        if all(isinstance(size, int) and 0 <= size < 2**63 for size in sizes.values()):
            return figures
    except (TypeError, AttributeError, ArithmeticError):
        pass
    raise EngineError("the model's config.json is damaged; download it again")


def in_order(*engines: str) -> tuple[str, ...]:
    """Return the engines for weights that all of them read; on a Mac, MLX first if it is there.

    >>> in_order("mlx")
    ('mlx',)
    """
    if "mlx" in engines and sys.platform == "darwin" and find_spec("mlx_lm") is not None:
        return tuple(dict.fromkeys(("mlx", *engines)))
    return engines


def _missing_weights(folder: Path, sizes: Mapping[Path, int | None]) -> str:
    """Name what is missing; an index lists the files of a model that has several."""
    if any(folder.glob("*.incomplete")):
        return "its download is not complete"
    index = folder / "model.safetensors.index.json"
    try:
        listed = set(map(str, _read_json(index)["weight_map"].values()))
    except FileNotFoundError:
        listed = set()
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{index.name} is damaged; download it again"
    missing = sorted(listed - {file.name for file, size in sizes.items() if size is not None})
    if missing:
        return f"{len(missing)} of its {len(listed)} files are missing, such as {missing[0]}"
    for file, size in sizes.items():
        if size is None:
            return f"the file behind {file.name} is missing, or may not be read by you"
        if size == 0:
            return f"{file.name} is empty; download it again"
    return "" if sizes else "its weights are missing"


def _gguf(program: str, name: str, file: Path) -> Iterator[InstalledModel]:
    """Yield the model of a GGUF file, if it is a gpt-oss; a damaged one by its file's name."""
    later = re.search(r"-(\d{5})-of-\d{5}$", file.stem)
    if later and later[1] != "00001":
        return  # the first part stands for all
    try:
        header = read_gguf_header(file)
    except EngineError as error:
        if _is_gpt_oss(f"{name} {file}"):
            yield InstalledModel(program, name, file, _size(file) or 0, "unknown", (), str(error))
        return
    if header.architecture in (ARCHITECTURE, OLLAMA_ARCHITECTURE):
        yield _of_header(program, name, header)


def _of_header(program: str, name: str, header: GgufHeader) -> InstalledModel:
    file, kind = header.file, header.quantization
    sizes = {part.name: _size(part) for part in header.parts()}
    missing = [part for part, size in sizes.items() if size is None]
    size = sum(filter(None, sizes.values()))
    if missing:
        problem = f"{missing[0]} is missing beside it"
        return InstalledModel(program, name, file, size, kind, (), problem)
    if header.architecture == OLLAMA_ARCHITECTURE:
        converted = converted_file(file)
        if _size(converted) is None:
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
        for manifest, problem in _below(manifests, 4):
            parts = manifest.relative_to(manifests).parts
            if problem is not None and len(parts) < 3:  # above the folder of a model
                yield _closed("ollama", manifest, problem)
                continue
            yield from _listed(
                "ollama",
                _ollama_name(parts),
                manifest,
                _of_manifest(folder, manifest, parts, problem),
            )


def _ollama_name(parts: tuple[str, ...]) -> str:
    """Return the name of a manifest, from the host, the namespace, the model and the tag."""
    defaults = zip(parts, (_OLLAMA_HOST, _OLLAMA_LIBRARY), strict=False)
    shown = [part for part, default in defaults if part != default]
    return "ollama:" + "/".join([*shown, ":".join(parts[2:])])


def _of_manifest(
    folder: Path, manifest: Path, parts: tuple[str, ...], problem: OSError | None
) -> Iterator[InstalledModel]:
    """Yield the model of a manifest, which names the file of its weights by their digest."""
    if problem is not None:
        raise problem
    name = _ollama_name(parts)
    is_named = "gpt-oss" in parts[2]
    try:
        layers = _read_json(manifest)["layers"]
        (layer,) = [layer for layer in layers if layer["mediaType"] == _MODEL_LAYER]
        digest, size = str(layer["digest"]).replace(":", "-"), int(layer["size"])
        # The digest becomes part of a path, so it may be nothing else.
        if not re.fullmatch(r"sha256-[0-9a-f]{64}", digest):
            raise ValueError(digest)
    except (ValueError, KeyError, TypeError, OverflowError):
        if is_named:
            text = f"its manifest {manifest} is damaged; pull it again"
            yield InstalledModel("ollama", name, manifest, 0, "unknown", (), text)
        return
    blob = folder / "blobs" / digest
    have, is_open = _size(blob), _is_open(blob)
    if have == size and is_open:
        yield from _gguf("ollama", name, blob)
        return
    if not is_named:
        return
    if not is_open:
        text = f"its file {blob} may not be read by you"
    elif have is None:
        started = any((folder / "blobs").glob(f"{digest}-partial*"))
        text = "its download is not complete" if started else f"its file {blob} is missing"
        text += f"; ollama pull {name.removeprefix('ollama:')}"
    else:
        text = f"its file {blob} has {have:,} of {size:,} bytes; pull it again"
    yield InstalledModel("ollama", name, blob, have or 0, "unknown", (), text)


# LM Studio and llama.cpp


def _lm_studio_folders(home: Path) -> list[Path]:
    folders = [home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"]
    try:
        settings = _read_json(home / ".lmstudio" / "settings.json")
        folders.insert(0, Path(settings["downloadsFolder"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # the folder was not changed
    return list(dict.fromkeys(folders))


def _of_lm_studio(folders: list[Path]) -> Iterator[InstalledModel]:
    """Yield the models in folders of a publisher and a name; GGUF files, or folders of MLX."""
    for root in folders:
        for folder, problem in _below(root, 2):
            if problem is not None:
                yield _closed("lmstudio", folder, problem)
                continue
            name = "lmstudio:" + "/".join(folder.relative_to(root).parts)
            yield from _listed("lmstudio", name, folder, _of_studio_folder(name, folder))


def _of_studio_folder(name: str, folder: Path) -> Iterator[InstalledModel]:
    paths = _inside(folder)
    if folder / "config.json" in paths:
        yield from _listed("lmstudio", name, folder, _folder("lmstudio", name, folder))
    files = [path for path in paths if path.match("*.gguf")]
    for file in files:
        own = name if len(files) == 1 else f"{name}/{file.stem}"
        yield from _gguf("lmstudio", own, file)
    for file in paths:
        if file.match("*gpt-oss*.part"):
            yield _unfinished("lmstudio", name, file)


def _unfinished(program: str, name: str, file: Path) -> InstalledModel:
    problem = "its download is not complete"
    return InstalledModel(program, name, file, _size(file) or 0, "unknown", (), problem)


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
        found = list(_below(folder))
        yield from (_closed("llama.cpp", path, problem) for path, problem in found if problem)
        paths = [path for path, _ in found]
        for file in paths:
            if file.match("*.gguf"):
                yield from _gguf("llama.cpp", str(file), file)
        for file in paths:
            if file.match("*gpt-oss*.gguf.downloadInProgress"):
                yield _unfinished("llama.cpp", str(file), file)
