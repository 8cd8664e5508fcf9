"""The facts about this machine that `placement` decides with, as PyTorch reports them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib import metadata
from typing import Any

import torch

from .parallel import available_memory
from .placement import Device, Machine

_PACKAGES = ("accelerate", "kernels", "flash-attn", "flash-attn-3", "flash-attn-4", "triton")
_TRITONS = ("triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-triton-xpu", "triton-windows")


def find_machine() -> Machine:
    """Collect the facts; this initializes the GPUs."""
    devices = _cuda() or _xpu() or _mps()
    is_xpu = any(device.kind == "xpu" for device in devices)
    known: Any = importlib.import_module("transformers.utils.import_utils")
    least, most = (getattr(known, f"KERNELS_{end}_VERSION", None) for end in ("MIN", "MAX"))
    limits = [f">={least}"] * bool(least) + [f"<{most}"] * bool(most)
    versions = {}
    for name in _PACKAGES:
        for distribution in _TRITONS if name == "triton" else (name,):
            try:
                versions[name] = metadata.version(distribution)
                break
            except metadata.PackageNotFoundError:
                continue
    return Machine(
        devices=devices,
        memory=available_memory(),
        packages=versions,
        has_kernels=_holds(known.is_kernels_available),
        has_triton=_holds(lambda: known.is_triton_available("3.5.0" if is_xpu else "3.4.0")),
        kernels_range=",".join(limits),
    )


def _holds(check: Callable[[], Any]) -> bool:
    """Return the answer of Transformers; False for a release without the question."""
    try:
        return bool(check())
    except (AttributeError, TypeError):
        return False


def _cuda() -> tuple[Device, ...]:
    if not torch.cuda.is_available():
        return ()
    kind = "rocm" if torch.version.hip else "cuda"
    devices = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        capability = torch.cuda.get_device_capability(index) if kind == "cuda" else None
        name = torch.cuda.get_device_name(index)
        devices.append(Device(kind, name, total, free, capability))
    return tuple(devices)


def _xpu() -> tuple[Device, ...]:
    if not (hasattr(torch, "xpu") and torch.xpu.is_available()):
        return ()
    devices = []
    for index in range(torch.xpu.device_count()):
        properties = torch.xpu.get_device_properties(index)
        used = torch.xpu.memory_reserved(index)
        total = properties.total_memory
        devices.append(Device("xpu", properties.name, total, total - used))
    return tuple(devices)


def _mps() -> tuple[Device, ...]:
    if not torch.backends.mps.is_available():
        return ()
    total = torch.mps.recommended_max_memory()
    free = total - torch.mps.driver_allocated_memory()
    return (Device("mps", "Apple silicon", total, free),)
