"""A trained network goes in; the file of weights that travels with the package comes out."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save

from .network import Network

__all__ = ["pack"]


def pack(network: Network, folder: Path) -> None:
    """Write `weights.safetensors`: the learned rows, what makes the others, and the layers.

    The sizes stand in `config.json` beside it, which is written by hand.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.to(torch.bfloat16).contiguous()
        for name, weight in network.state_dict().items()
        if name != "own"
    }
    with torch.no_grad():
        weights["used_rows"] = network.rows(network.used).to(torch.bfloat16)
    weights["used_tokens"] = network.used.to(torch.int32)
    (folder / "weights.safetensors").write_bytes(save(weights))
