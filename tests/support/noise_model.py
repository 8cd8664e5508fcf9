"""A gpt-oss model with random weights: what it writes is noise, as any token is about as likely."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from transformers import GptOssConfig, GptOssForCausalLM, LogitsProcessor

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.grammar.token_table import MODEL_VOCABULARY_SIZE
from gpt_oss_harmony.tokens.special_tokens import CALL, END, END_OF_TEXT, RETURN

__all__ = ["PAD", "GumbelNoise", "noise_model", "padded"]

PAD = END_OF_TEXT

_CLOSING = ['"', '",', '"}', '":', '"]', '"},', "}", "]", "]}", "}}", "},", "],", '"\n']


@functools.cache
def noise_model() -> Any:
    """Build the model. It leans to what ends a text, which noise would not within any patience."""
    torch.manual_seed(0)
    # Others are slow without an accelerator.
    eager: dict[str, Any] = {"attn_implementation": "eager", "experts_implementation": "eager"}
    config = GptOssConfig(
        vocab_size=MODEL_VOCABULARY_SIZE,
        num_hidden_layers=2,
        hidden_size=64,
        intermediate_size=64,
        num_local_experts=4,
        num_experts_per_tok=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        pad_token_id=PAD,
        eos_token_id=[RETURN, CALL],
        **eager,
    )
    model: Any = GptOssForCausalLM(config)
    model.eval()
    lean = torch.zeros(MODEL_VOCABULARY_SIZE)
    lean[[END, RETURN, CALL]] = math.log(MODEL_VOCABULARY_SIZE / 10)
    encoding = load_harmony_encoding("HarmonyGptOss")
    closing = [token for text in _CLOSING for token in encoding.encode(text)]
    lean[closing] = math.log(MODEL_VOCABULARY_SIZE / 100)
    model.lm_head.bias = torch.nn.Parameter(lean)
    return model


class GumbelNoise(LogitsProcessor):
    """Samples by the Gumbel-max trick: the largest of the noisy logits is a draw from the softmax.

    It comes last, with ``do_sample=False``. Over 200,000 tokens a draw of PyTorch's multinomial
    takes ten times as long on a CPU.
    """

    def __init__(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed)

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> Any:
        """Add noise to logits of the shape ``(rows, vocabulary)``."""
        waits = torch.empty_like(scores).exponential_(generator=self._random)
        return scores - waits.log_()


def padded(prompts: list[list[int]]) -> dict[str, torch.Tensor]:
    """Put prompts side by side as `generate` wants them: they end at the same column."""
    width = max(map(len, prompts))
    return {
        "input_ids": torch.tensor([[PAD] * (width - len(one)) + one for one in prompts]),
        "attention_mask": torch.tensor(
            [[0] * (width - len(one)) + [1] * len(one) for one in prompts]
        ),
    }
