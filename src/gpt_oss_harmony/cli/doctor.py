"""``harmony doctor``: what is installed, where a model would run, and what prevents `serve`.

It loads no weights and downloads nothing. The placement is the one that the engine makes, and a
server at a URL is asked for its model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from ..engines import open_engine
from ..engines.batching_memory import PUBLISHED_FIGURES, ModelFigures, gigabytes
from ..engines.engine import EngineError
from ..engines.gguf_header import read_gguf_header
from ..engines.local_memory import machine_memory, plan_local_memory
from ..engines.model_names import ModelSource, adapter_base, find_source, is_url
from ..engines.placement import Machine, Placement, place
from ..errors import did_you_mean
from ..installation import DISTRIBUTION, VERSION, requirement
from ..tokens.encoder import CHOICE
from ..tokens.tokenizer import load_tokenizer
from .command import Command
from .input import InputError
from .listening import bind
from .load_model import described
from .options import add_engine, add_port, given_engine_options, positive
from .output import Output
from .state_folder import default_database, state_folder

_PACKAGES = (
    *("torch", "transformers", "accelerate", "kernels", "triton", "flash-attn", "flash-attn-3"),
    *(
        "numpy",
        "xllamacpp",
        "mlx",
        "mlx-lm",
        "llguidance",
        "fastapi",
        "vllm",
        "gpt-oss-harmony-vllm",
        "sglang",
    ),
)
_TESTED_SERVERS = {"vllm": ((0, 32), (0, 33)), "sglang": ((0, 5), (0, 5))}
"""The releases that the engines and the plugin were written for."""

_REQUIREMENT = re.compile(r'([\w.-]+)(?:\[(\w+)\])?\s*([^;]*?)\s*;\s*extra == [\'"](\w+)[\'"]$')
"""A line of a package's metadata that holds for an extra on every system."""


class Finding(NamedTuple):
    """A line of the report; with the level ``error``, `serve` would fail."""

    level: str
    """``ok``, ``warning`` or ``error``."""
    topic: str
    text: str
    remedy: str = ""


_PUBLISHED = "openai/gpt-oss-20b"
_OF_MODEL = ("devices", "extra transformers", "model")


def _as_hint(finding: Finding) -> Finding:
    """Lower an error of a model that nobody named: `harmony serve demo` works without it."""
    if finding.level != "error" or finding.topic not in _OF_MODEL:
        return finding
    text = f"{finding.text}; {_PUBLISHED} needs it, and demo does not"
    return finding._replace(level="warning", text=text)


class _Doctor(Command):
    name = "doctor"
    purpose = "run a model"
    summary = "show what is installed, what is missing, where a model runs"
    examples = """\
  harmony doctor
  harmony doctor openai/gpt-oss-120b --context-length 32768
  harmony doctor ./my-model --json
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "model",
            metavar="MODEL",
            nargs="?",
            help="a folder, a GGUF file, a name on the Hugging Face hub, ollama:NAME, "
            "lmstudio:NAME, demo, or the URL of a server (default: "
            f"{_PUBLISHED}; what it lacks is then a warning)",
        )
        parser.add_argument("--host", default="127.0.0.1", help="as in serve")
        add_port(parser, "as in serve (default: %(default)s)", 8000)
        parser.add_argument("--context-length", type=positive, metavar="N", help="as in serve")
        parser.add_argument(
            "--max-running", type=positive, metavar="N", default=16, help="as in serve"
        )
        add_engine(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, arguments: argparse.Namespace) -> None:
        model = arguments.model or _PUBLISHED
        options = given_engine_options(arguments, model)
        if arguments.context_length is not None:
            options.setdefault("context_length", arguments.context_length)
        options.setdefault("max_requests", arguments.max_running)
        findings = list(examine(model, options, arguments.host, arguments.port))
        if arguments.model is None:
            findings = list(map(_as_hint, findings))
        failed = any(finding.level == "error" for finding in findings)
        if arguments.json:
            report = [finding._asdict() for finding in findings]
            print(json.dumps({"serves": not failed, "findings": report}, indent=2))
        else:
            for level, topic, text, remedy in findings:
                print(Output.in_a_line(f"{level:7}  {topic}: {text}"))
                if remedy:
                    print(Output.in_a_line(f"{'':7}  → {remedy}"))
        if failed:
            sys.exit(1)


DOCTOR = _Doctor()


def examine(
    model: str,
    options: Mapping[str, Any],
    host: str,
    port: int,
    find_machine: Callable[[], Machine] | None = None,
) -> Iterator[Finding]:
    """Examine this machine; `find_machine` takes the place of that of `engines.devices`."""
    system = f"Python {platform.python_version()} on {platform.platform()}"
    yield Finding("ok", "harmony", f"{VERSION}, {system}")
    versions = {name: version for name in _PACKAGES if (version := _version(name))}
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield Finding("ok", "packages", listed or "none of the optional ones")
    yield _tokenizer()
    source, unknown = None, ""
    if not is_url(model):
        try:
            source = find_source(model, options.get("engine"))
        except EngineError as error:
            unknown = str(error)
    needed = ("serve",) if source is None else ("serve", source.engine)
    problems = {extra: text for extra in needed if (text := "; ".join(_problems(extra)))}
    for extra, text in problems.items():
        remedy = f"pip install {requirement(','.join(problems))}"
        yield Finding("error", f"extra {extra}", text, remedy)
    yield from _serving_engines(versions)
    if is_url(model):
        yield _server(model, options) if not problems else Finding("ok", "model", _PLACES_ITSELF)
    elif source is None:
        yield Finding("error", "model", unknown)
    elif source.engine not in problems:
        if source.engine == "numpy":
            yield Finding("ok", "model", f"{source.place}, float32 in NumPy on one core")
        elif source.engine == "transformers":
            yield from _model(source.place, options, find_machine)
        else:
            yield from _local_model(source, options)
    else:
        yield from _without_engine(source)
    yield from _serving(host, port)


_PLACES_ITSELF = "a server at a URL places the model itself"


def _server(url: str, options: Mapping[str, Any]) -> Finding:
    """Ask a server for its model, as `serve` does first."""
    # A server decides both, so its engine has neither option.
    asked = {name: options[name] for name in options.keys() - {"context_length", "max_requests"}}

    async def ask() -> str:
        engine = await open_engine(url, **asked)
        try:
            return described(engine)
        finally:
            await engine.close()

    try:
        return Finding("ok", "model", f"{asyncio.run(ask())}; {_PLACES_ITSELF}")
    except EngineError as error:
        return Finding("error", "model", str(error))


def _without_engine(source: ModelSource) -> Iterator[Finding]:
    """Say what can be said of a model whose engine is not installed."""
    place = source.place
    free = machine_memory()
    if free is not None:
        yield Finding("ok", "main memory", f"{gigabytes(free)} free")
    is_known = place == "demo" or place in PUBLISHED_FIGURES or Path(place).exists()
    if not is_known:
        text = f"{place} is not on this disk; 'harmony models' lists what is"
        yield Finding(
            "warning", "model", f"{text}, and serve asks the Hugging Face hub", _meant(place)
        )
        return
    try:
        is_gguf = source.engine == "llamacpp"
        figures = read_gguf_header(Path(place)).figures() if is_gguf else _figures(place)
    except EngineError as error:
        yield Finding("error", "model", str(error))
        return
    if figures is not None and figures.kind == "gpt_oss":
        sizes = [figures.weight_bytes(is_mxfp4=is_mxfp4) for is_mxfp4 in (True, False)]
        text = "weights of {} as MXFP4, {} as bfloat16".format(*map(gigabytes, sizes))
        fits = free is None or sizes[0] < free
        remedy = "" if fits else "they need a GPU with as much memory, or several"
        yield Finding("ok" if fits else "warning", "model", f"{place}: {text}", remedy)


def _meant(model: str) -> str:
    return did_you_mean(model.lower(), PUBLISHED_FIGURES, likeness=0.7)


def _tokenizer() -> Finding:
    """Build the encoder, as the first long text does, and name it."""
    encoder = load_tokenizer().encoder
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        # A short ASCII text is encoded without the package that is named here.
        encoder.encode("é")
    name = encoder.name
    if found:
        remedy = f"pip install 'quicktok-v1', or set {CHOICE}=tiktoken"
        return Finding("warning", "tokenizer", str(found[0].message), remedy)
    version = _version("quicktok-v1" if name == "quicktok" else name)
    return Finding("ok", "tokenizer", f"{name} {version}" if version else f"{name} alone")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _problems(extra: str) -> Iterator[str]:
    """Name the packages of an extra that are missing, or have a version that it excludes."""
    if extra == "mlx" and sys.platform == "win32":
        yield "MLX has no build for Windows; use a GGUF file, or --engine transformers"
    elif extra == "mlx" and _version("mlx-lm") is None:  # its requirement names systems
        yield "mlx-lm is missing"
    required = sorted(_required(extra).items())
    missing = [name for name, _ in required if _version(name) is None]
    if missing:
        yield f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    for name, bounds in required:
        version = _version(name)
        if version is not None and not all(map(partial(_fits, version), bounds.split(","))):
            yield f"{name} {version} is installed, but {bounds} is needed"


def _required(extra: str) -> dict[str, str]:
    """Return the packages that an extra requires, and their versions, from our own metadata."""
    required: dict[str, str] = {}
    for line in _requirements():
        match = _REQUIREMENT.match(line)
        if match and match[4] == extra:
            name, other, bounds, _ = match.groups()
            required |= _required(other) if name == DISTRIBUTION else {name: bounds}
    return required


def _requirements() -> Sequence[str]:
    """Return the lines of our metadata; each of them names one extra of ours at most."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a copy of the source
        return ()
    several = re.compile(rf"({DISTRIBUTION})\[([\w,]+)\](.*)")
    return [
        f"{match[1]}[{other}]{match[3]}" if match else line
        for line in lines
        for match in (several.match(line),)
        for other in (match[2].split(",") if match else ("",))
    ]


def _fits(version: str, bound: str) -> bool:
    """Whether a version is within a bound such as ``>=2.12.1`` or ``<6``."""
    comparison, limit = bound[: 2 if "=" in bound else 1], _release(bound)
    return _release(version) >= limit if comparison == ">=" else _release(version) < limit


def _release(version: str) -> tuple[int, ...]:
    match = re.search(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def _serving_engines(versions: Mapping[str, str]) -> Iterator[Finding]:
    for name, (first, last) in _TESTED_SERVERS.items():
        release = re.match(r"(\d+)\.(\d+)", versions.get(name, ""))
        if release and not first <= (int(release[1]), int(release[2])) <= last:
            known = " to ".join(dict.fromkeys(".".join(map(str, end)) for end in (first, last)))
            yield Finding(
                "warning",
                name,
                f"{versions[name]} is not tested ({known} is)"
                + (", and the plugin does nothing with it" if name == "vllm" else ""),
                f"pip install '{name}~={last[0]}.{last[1]}.0'",
            )
    if os.environ.get("VLLM_USE_RUST_FRONTEND", "0").lower() in ("1", "true"):
        yield Finding(
            "warning",
            "vllm",
            "VLLM_USE_RUST_FRONTEND is set: its front end parses outside Python, so the plugin "
            "cannot act there",
            "unset VLLM_USE_RUST_FRONTEND, or use harmony serve URL",
        )


def _model(
    model: str, options: Mapping[str, Any], find_machine: Callable[[], Machine] | None
) -> Iterator[Finding]:
    from ..engines import devices

    try:
        machine = (find_machine or devices.find_machine)()
    except Exception as error:  # noqa: BLE001 - a broken driver raises errors of any kind
        yield Finding("error", "devices", f"PyTorch failed: {error}", "reinstall torch")
        return
    for index, device in enumerate(machine.devices):
        capability = "" if device.capability is None else " {}.{}".format(*device.capability)
        yield Finding(
            "ok",
            f"device {index}",
            f"{device.name} ({device.kind}{capability}), {gigabytes(device.free)} of "
            f"{gigabytes(device.total)} free",
        )
    memory = "unknown" if machine.memory is None else gigabytes(machine.memory)
    yield Finding("ok", "main memory", f"{memory} free")
    try:
        figures = _figures(model)
        if figures is None:
            text = f"the sizes of {model} are not on this disk"
            yield Finding("warning", "model", text, _meant(model))
            return
        context, most = options.get("context_length"), options["max_requests"]
        placement = place(figures, machine, options, context_length=context, max_requests=most)
    except EngineError as error:
        yield Finding("error", "model", str(error))
        return
    yield from _placed(model, figures, placement)


def _local_model(source: ModelSource, options: Mapping[str, Any]) -> Iterator[Finding]:
    """Examine a model for llama.cpp or MLX: its files, and the memory that they need."""
    free, path = machine_memory(), Path(source.place)
    try:
        if source.engine == "mlx":
            yield _metal()
            figures = _figures(source.place)
            size = sum(file.stat().st_size for file in path.glob("model*.safetensors"))
            if figures is None or not size:
                text = f"the weights of {path} are not in a folder on this disk"
                yield Finding("warning", "model", text)
                return
            yield Finding("ok", "model", f"{path}, {gigabytes(size)}")
        else:
            header = read_gguf_header(path)
            figures, size = header.figures(), path.stat().st_size
            yield Finding("ok", "model", f"{path}, {header.quantization}, {gigabytes(size)}")
        plan = plan_local_memory(
            str(path), figures, size, free, options.get("context_length"), options["max_requests"]
        )
    except EngineError as error:
        yield Finding("error", "model", str(error))
        return
    lowered = plan.max_requests < options["max_requests"] or plan.context_length < plan.longest
    yield Finding("warning" if lowered and free else "ok", "memory", str(plan))


def _metal() -> Finding:
    """Say what MLX computes with, as it reports it on a Mac."""
    import mlx.core as mx

    if not mx.metal.is_available():
        return Finding(
            "warning",
            "device",
            "MLX has no GPU here and computes on the CPU, which is for trying it out",
            "use a GGUF file (extra llamacpp), or --engine transformers",
        )
    known = mx.device_info()
    most = known.get("max_recommended_working_set_size", 0)
    return Finding(
        "ok",
        "device",
        f"{known.get('device_name', 'Apple silicon')}, macOS {platform.mac_ver()[0]}, Metal may "
        f"use {gigabytes(most)} of {gigabytes(known.get('memory_size', 0))}",
    )


def _figures(model: str) -> ModelFigures | None:
    """Return the sizes of a model that are on this disk or in this package."""
    if model == "demo":
        from ..engines.demo_model import demo_config

        return ModelFigures.of(demo_config())
    model = adapter_base(Path(model)) or model
    path = Path(model) / "config.json"
    if not path.is_file() and model in PUBLISHED_FIGURES:
        return ModelFigures.of(PUBLISHED_FIGURES[model])
    if not path.is_file():
        if Path(model).exists() or model.startswith((".", "~", "/")):
            raise EngineError(f"the folder {model} has no config.json, so it has no model")
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(model, "config.json")
        # Besides None, it may be a mark: the hub is known to have no such file.
        if not isinstance(cached, str):
            return None
        path = Path(cached)
    try:
        return ModelFigures.of(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise EngineError(f"{path} is not JSON: {error}") from error


def _placed(model: str, figures: ModelFigures, placement: Placement) -> Iterator[Finding]:
    where = placement.device_map or "cpu"
    form = "MXFP4" if placement.is_mxfp4 else "bfloat16"
    if figures.kind != "gpt_oss":
        form = "its stored type"
    attention = placement.attention or ("our own" if where == "cpu" else "that of Transformers")
    yield Finding("ok", "placement", f"{model} as {form} on {where}, attention: {attention}")
    for remark in placement.remarks:
        text, _, remedy = remark.partition(": ")
        yield Finding("warning", "placement", text, remedy)
    plan = placement.plan
    if plan is not None:
        yield Finding(
            "ok",
            "memory",
            f"{gigabytes(plan.weights)} of weights, {gigabytes(plan.cache)} of cache for "
            f"{plan.cached_tokens:,} tokens, at most {gigabytes(plan.step)} for a step of "
            f"{plan.batch_tokens:,} tokens; context {plan.context_length:,}",
        )


def _serving(host: str, port: int) -> Iterator[Finding]:
    try:
        bind(host, port).close()
        yield Finding("ok", "port", f"{host}:{port} is free")
    except InputError as error:
        text, _, remedy = str(error).partition("; ")
        yield Finding("error", "port", text, remedy)
    try:
        folder = state_folder()
        writable = os.access(folder, os.W_OK)
    except InputError as error:
        text, _, remedy = str(error).partition("; ")
        yield Finding("error", "state folder", text, remedy)
        return
    if not writable:
        yield Finding(
            "error", "state folder", f"{folder} cannot be written", "name one in XDG_STATE_HOME"
        )
        return
    yield Finding("ok", "state folder", f"{folder} can be written")
    try:
        from ..server.store.errors import StoreInUseError
        from ..server.store.running_servers import lock_file
    except ImportError:
        return  # without the extra, there is no server
    try:
        if default_database().exists():
            lock_file(default_database()).close()
    except StoreInUseError as error:
        text, _, remedy = str(error).partition("; ")
        yield Finding("error", "database", text, remedy)
