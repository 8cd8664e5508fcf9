"""A trained network goes in; the file of weights that travels with the package comes out."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file

from .network import Network

__all__ = ["pack"]


def pack(network: Network, folder: Path) -> None:
    """Write `weights.safetensors`: the learned rows, what makes the others, and the layers."""
    folder.mkdir(parents=True, exist_ok=True)
    state = network.state_dict()
    weights = {
        name: weight.to(torch.bfloat16).contiguous()
        for name, weight in state.items()
        if name != "own"
    }
    with torch.no_grad():
        weights["used_rows"] = network.rows(network.used).to(torch.bfloat16)
    weights["used_tokens"] = network.used.to(torch.int32)
    save_file(weights, folder / "weights.safetensors")
    (folder / "shape.json").write_text(json.dumps(asdict(network.shape), indent=2) + "\n")
