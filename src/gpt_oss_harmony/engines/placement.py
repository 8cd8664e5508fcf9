"""Decide where and how a model runs in this process, from facts and without PyTorch.

The facts, which `devices` collects, are the devices, the installed packages, the sizes of the model
and the caller's options. The decision is a `Placement`: the device map, whether the experts stay
MXFP4, the attention, and remarks for people. Transformers alone would load a model on the CPU
beside an idle GPU, and request a kernel of a package that is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .batching_memory import MemoryPlan, ModelFigures, gigabytes, plan_memory
from .engine import EngineError

HOPPER_ATTENTION = "kernels-community/vllm-flash-attn3"
"""The attention with sinks that gpt-oss names for CUDA; its sinks need the Hopper generation."""

_HOPPER = 9
_MXFP4_CAPABILITY = (7, 5)
_KERNELS_HINT = "pip install 'kernels{range}'"
_EAGER = "eager"
DIVIDING = {"distributed_config", "tp_plan", "tp_size", "device_mesh", "device_map"}
"""Options that place a model in another way."""


class Device(NamedTuple):
    """A GPU; sizes are in bytes."""

    kind: str
    """``cuda``, ``rocm``, ``xpu`` or ``mps``."""
    name: str
    total: int
    free: int
    capability: tuple[int, int] | None = None
    """The compute capability, of CUDA only."""


class Machine(NamedTuple):
    """The devices of a machine, its free main memory, and the packages that matter."""

    devices: tuple[Device, ...] = ()
    memory: int | None = None
    """Free main memory in bytes; None if the system does not report it."""
    packages: Mapping[str, str] = {}
    """The versions of installed packages by name."""
    has_kernels: bool = False
    """Whether Transformers accepts the installed release of `kernels`."""
    has_triton: bool = False
    """Whether Transformers accepts the installed release of Triton for MXFP4."""
    kernels_range: str = ""
    """The releases of `kernels` that Transformers accepts, for pip."""

    def torch_name(self, device: Device) -> str:
        """Return PyTorch's name of a device; with ROCm, its devices are ``cuda``, too.

        >>> one, other = (Device("rocm", name, 0, 0) for name in ("MI300X", "MI325X"))
        >>> Machine((one, other)).torch_name(other)
        'cuda:1'
        """
        if device.kind == "mps":
            return "mps"
        kind = "cuda" if device.kind == "rocm" else device.kind
        return f"{kind}:{self.devices.index(device)}"


class Placement(NamedTuple):
    """The decision; `device_map` is None on the CPU."""

    device_map: str | None
    is_mxfp4: bool
    attention: str | None
    """The attention for ``from_pretrained``; None leaves it to Transformers."""
    dequantize: bool = False
    """Whether MXFP4 must be switched off, because Transformers would not do so itself."""
    is_batched: bool = True
    """Whether the continuous batching can run: its cache is on one device."""
    max_memory: Mapping[Any, int] | None = None
    remarks: tuple[str, ...] = ()
    plan: MemoryPlan | None = None
    """The memory of the one device; None if there are several, or if the sizes are unknown."""

    @property
    def streams(self) -> bool:
        """Whether attention needs no matrix of all scores."""
        return self.attention not in (_EAGER, "paged|eager")


def place(
    figures: ModelFigures,
    machine: Machine,
    options: Mapping[str, Any],
    *,
    context_length: int | None = None,
    max_requests: int = 16,
    processes: int = 1,
) -> Placement:
    """Decide where a model runs.

    The options of the caller win: with a `device_map`, only the attention is decided. Sizes are
    known for gpt-oss. Another model gets the first device, or, without one, the CPU.

    Raises `EngineError` if the model fits nowhere or a package is missing; it names the remedy.
    """
    is_given = bool(DIVIDING & options.keys()) or processes > 1
    # The device with the most free memory; the first of equal ones.
    device = max(machine.devices, key=lambda device: device.free, default=None)
    if device is None:
        return _on_cpu(figures, machine, options, is_given)
    if options.get("device_map") == "cpu":
        return Placement("cpu", False, options.get("attn_implementation"))
    if "accelerate" not in machine.packages:
        raise EngineError(
            f"a model on the GPU ({device.name}) needs the package accelerate: "
            "pip install accelerate"
        )
    attention, remarks = _attention(figures, device, machine, options)
    is_mxfp4, why_not = _form(figures, device, machine, options)
    if why_not and not is_mxfp4:
        remarks += (why_not,)
    where = machine.torch_name(device)
    if is_given or figures.kind != "gpt_oss":
        return Placement(None if is_given else where, is_mxfp4, attention, remarks=tuple(remarks))
    streams = attention not in (_EAGER, "paged|eager")

    def fits(free: int, *, form: bool) -> MemoryPlan | EngineError:
        try:
            return plan_memory(
                figures,
                figures.weight_bytes(is_mxfp4=form),
                free,
                streams=streams,
                max_requests=max_requests,
                context_length=context_length,
            )
        except EngineError as error:
            return error

    plan = fits(device.free, form=is_mxfp4)
    if isinstance(plan, MemoryPlan):
        return Placement(where, is_mxfp4, attention, remarks=tuple(remarks), plan=plan)
    return _spread(figures, machine, device, is_mxfp4, attention, tuple(remarks), plan, fits)


def _on_cpu(
    figures: ModelFigures, machine: Machine, options: Mapping[str, Any], is_given: bool
) -> Placement:
    attention = options.get("attn_implementation")
    if attention is not None and "flash" in str(attention) and figures.kind == "gpt_oss":
        raise EngineError(
            f"the attention {attention!r} needs a GPU, and PyTorch finds none; leave out "
            "attn_implementation"
        )
    if figures.kind == "gpt_oss" and not is_given:
        weights = figures.weight_bytes(is_mxfp4=False)
        if machine.memory is not None and weights > machine.memory:
            raise EngineError(
                f"no GPU is found, and on the CPU the weights need {gigabytes(weights)} as "
                f"bfloat16, but {gigabytes(machine.memory)} are free; run a GGUF file of the model "
                "with llama-server, which keeps MXFP4, and use its URL"
            )
    return Placement(None, False, attention)


def _attention(
    figures: ModelFigures, device: Device, machine: Machine, options: Mapping[str, Any]
) -> tuple[str | None, tuple[str, ...]]:
    """Choose the attention of gpt-oss; raise `EngineError` for one that cannot be loaded."""
    given = options.get("attn_implementation")
    if figures.kind != "gpt_oss":
        return given, ()
    if given is not None:
        # Transformers replaces other flash kernels by one that knows sinks, from the hub.
        if "flash" in str(given) and given != "flash_attention_4" and not machine.has_kernels:
            raise EngineError(
                f"the attention {given!r} of gpt-oss comes from the hub and needs the package "
                f"kernels: {_install_kernels(machine)}"
            )
        return str(given), ()
    is_hopper = device.kind == "cuda" and (device.capability or (0,))[0] == _HOPPER
    if is_hopper and machine.has_kernels:
        return HOPPER_ATTENTION, ()
    if is_hopper:
        return _EAGER, (
            f"attention is eager, which is slow for long prompts: {_install_kernels(machine)}",
        )
    return _EAGER, ()


def attention_advice(name: str) -> str:
    """Return the remedy for an attention that computes wrong results or cannot be loaded."""
    if name in (_EAGER, "paged|eager"):
        return "another release of PyTorch or Transformers, or a vLLM server"
    return "--engine-option attn_implementation=eager"


def _install_kernels(machine: Machine) -> str:
    installed = machine.packages.get("kernels")
    hint = _KERNELS_HINT.format(range=machine.kernels_range)
    return f"{hint} (installed is {installed})" if installed else hint


def _form(
    figures: ModelFigures, device: Device, machine: Machine, options: Mapping[str, Any]
) -> tuple[bool, str]:
    """Return whether the experts stay MXFP4, and otherwise the reason; as Transformers decides."""
    if not figures.is_mxfp4 or "quantization_config" in options:
        return False, ""
    if device.kind == "mps":
        return False, "Transformers has no MXFP4 on Apple silicon, so the weights become bfloat16"
    if device.capability is not None and device.capability < _MXFP4_CAPABILITY:
        capability = ".".join(map(str, device.capability))
        return False, (
            f"MXFP4 needs the compute capability 7.5, and {device.name} has {capability}, so the "
            "weights become bfloat16"
        )
    if not machine.has_triton:
        least = "3.5" if device.kind == "xpu" else "3.4"
        missing = f"pip install 'triton>={least}'"
    elif not machine.has_kernels:
        missing = _install_kernels(machine)
    else:
        return True, ""
    return False, f"the weights become bfloat16, three times as large; to keep MXFP4: {missing}"


def _spread(
    figures: ModelFigures,
    machine: Machine,
    device: Device,
    is_mxfp4: bool,
    attention: str | None,
    remarks: tuple[str, ...],
    problem: EngineError,
    fits: Callable[..., MemoryPlan | EngineError],
) -> Placement:
    """Divide a model that fits on no device among all of them, and then the main memory."""
    complete = machine._replace(has_triton=True, has_kernels=True)
    could_keep = not is_mxfp4 and _form(figures, device, complete, {})[0]
    if could_keep and isinstance(fits(device.free, form=True), MemoryPlan):
        raise EngineError(f"{problem}. With MXFP4 it fits: {remarks[-1]}")
    alike = [other for other in machine.devices if other.kind == device.kind]
    free = sum(other.free for other in alike)
    if len(alike) > 1 and isinstance(fits(free, form=is_mxfp4), MemoryPlan):
        remarks += (
            f"the model needs {len(alike)} GPUs, so requests run one after the other; vLLM, or "
            "torchrun --nproc-per-node, runs them at once",
        )
        return Placement("auto", is_mxfp4, attention, is_batched=False, remarks=remarks)
    weights = figures.weight_bytes(is_mxfp4=False)
    if machine.memory is not None and device.kind != "mps" and weights < free + machine.memory:
        remarks += (
            f"the GPU memory ({gigabytes(free)} free) is too small, so some layers run on the CPU "
            "in bfloat16, which is slow; llama-server with a GGUF file of the model is faster",
        )
        return Placement(
            "auto",
            False,
            attention,
            dequantize=figures.is_mxfp4,
            is_batched=False,
            remarks=remarks,
        )
    raise EngineError(
        f"{problem}. On {device.name} and in the main memory"
        f"{'' if machine.memory is None else f' ({gigabytes(machine.memory)} free)'} the model "
        "does not fit either; use a smaller model, or a server with more GPU memory by its URL"
    )
