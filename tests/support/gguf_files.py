"""Small GGUF files, written by the package ``gguf``: a gpt-oss without its weights' meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

SIZES = {
    "context_length": 4096,
    "embedding_length": 32,
    "block_count": 2,
    "feed_forward_length": 32,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 8,
    "attention.value_length": 8,
    "attention.sliding_window": 128,
    "expert_count": 4,
    "expert_used_count": 2,
}
TOKENS = ["a", "b", "ü", "<|end|>"]


def write_model(
    file: Path,
    architecture: str = "gpt-oss",
    *,
    values: dict[str, Any] | None = None,
    of_ollama: bool = False,
) -> Path:
    """Write a file; `of_ollama` gives it the names and gaps of Ollama's published one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(file, architecture)
    for name, size in SIZES.items():
        writer.add_uint32(f"{architecture}.{name}", size)
    if not of_ollama:
        writer.add_uint32(f"{architecture}.expert_feed_forward_length", 32)
        writer.add_string(f"{architecture}.rope.scaling.type", "yarn")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default" if of_ollama else "gpt-4o")
    writer.add_token_list(TOKENS)
    writer.add_token_types([1, 1, 1, 3])
    for key, value in (values or {}).items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    noise = np.random.default_rng(0)
    out, sinks = (
        (".attn_out", ".attn_sinks") if of_ollama else (".attn_output", ".attn_sinks.weight")
    )
    norm = ".ffn_norm.weight" if of_ollama else ".post_attention_norm.weight"
    for block in range(SIZES["block_count"]):
        writer.add_tensor(f"blk.{block}{out}.weight", noise.random((32, 32), np.float32))
        writer.add_tensor(f"blk.{block}{sinks}", noise.random(4, np.float32))
        writer.add_tensor(f"blk.{block}{norm}", noise.random(32, np.float32))
        experts = noise.integers(0, 255, (4, 32, 17), np.uint8)
        writer.add_tensor(
            f"blk.{block}.ffn_gate_exps.weight",
            experts,
            raw_dtype=gguf.GGMLQuantizationType.MXFP4,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
