"""The demo model as one file for llama.cpp: ``make demo-gguf``.

    python scripts/demo_model/gguf_file.py FOLDER FILE

A checkpoint of `GptOssForCausalLM` in bfloat16 goes in, and a GGUF file comes out. The embedding
and the head are float16, the layers float32. It needs the packages gguf and numpy, and no others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import gguf  # type: ignore[import-not-found,unused-ignore]
import numpy as np
import numpy.typing as npt

__all__ = ["write_gguf"]

_Weight: TypeAlias = npt.NDArray[np.float32]

_ARCHITECTURE = "gpt-oss"

_NAMES = {
    "model.embed_tokens.": "token_embd.",
    "model.norm.": "output_norm.",
    "lm_head.": "output.",
    "model.layers.": "blk.",
    "input_layernorm.": "attn_norm.",
    "post_attention_layernorm.": "post_attention_norm.",
    "self_attn.sinks": "attn_sinks.weight",
    "self_attn.o_proj.": "attn_output.",
    "self_attn.q_proj.": "attn_q.",
    "self_attn.k_proj.": "attn_k.",
    "self_attn.v_proj.": "attn_v.",
    "mlp.router.": "ffn_gate_inp.",
    "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
}
"""Parts of names in Transformers, and in llama.cpp."""


def write_gguf(folder: Path, file: Path) -> None:
    """Convert the checkpoint in `folder`."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    writer = gguf.GGUFWriter(file, _ARCHITECTURE)
    _write_sizes(writer, config)
    _write_tokenizer(writer, folder, config)
    for name, weight in _weights(folder / "model.safetensors"):
        kind = np.float16 if len(weight) == config["vocab_size"] else np.float32
        for new_name, part in _converted(name, weight):
            writer.add_tensor(new_name, np.ascontiguousarray(part, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(file: Path) -> Iterator[tuple[str, _Weight]]:
    """Yield the names and tensors of a file of safetensors, which numpy has no bfloat16 for."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            sys.exit(f"{name} is {entry['dtype']}; only checkpoints in bfloat16 can be converted")
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        upper_half = np.frombuffer(data[start:end], np.uint16).astype(np.uint32)
        yield name, (upper_half << 16).view(np.float32).reshape(entry["shape"])


def _converted(name: str, weight: _Weight) -> Iterator[tuple[str, _Weight]]:
    """Yield the tensors of llama.cpp for one of Transformers.

    Transformers stores experts as (expert, in, out), with gate and up projection in turns.
    """
    is_expert_matrix = ".mlp.experts." in name and not name.endswith("_bias")
    weight = weight.swapaxes(1, 2) if is_expert_matrix else weight
    for old, new in _NAMES.items():
        name = name.replace(old, new)
    if "gate_up_proj" not in name:
        yield name, weight
        return
    kind = "weight" if is_expert_matrix else "bias"
    layer = name.partition(".mlp.")[0]
    yield f"{layer}.ffn_gate_exps.{kind}", weight[:, ::2]
    yield f"{layer}.ffn_up_exps.{kind}", weight[:, 1::2]


def _write_sizes(writer: Any, config: dict[str, Any]) -> None:
    writer.add_name("demo model of gpt-oss-harmony")
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_rope_freq_base(config["rope_theta"])
    scaling = config["rope_scaling"]
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def _write_tokenizer(writer: Any, folder: Path, config: dict[str, Any]) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    special = {added["id"]: added["content"] for added in tokenizer["added_tokens"]}
    texts = {token: text for text, token in tokenizer["model"]["vocab"].items()} | special
    ids = range(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-4o")
    writer.add_token_list([texts[token] for token in ids])
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_token_types([control if token in special else normal for token in ids])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_chat_template((folder / "chat_template.jinja").read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a checkpoint")
    parser.add_argument("file", type=Path, help="the file to write")
    arguments = parser.parse_args()
    write_gguf(arguments.folder, arguments.file)
    print(f"{arguments.file}, {arguments.file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
