"""Forced tokens as drafts of vLLM's speculative decoding: several tokens in one step of the model.

    vllm serve … --speculative-config '{"method": "custom_class", "num_speculative_tokens": 8,
        "model": "gpt_oss_harmony_vllm.drafts.ForcedTokens"}'

vLLM gives a proposer of drafts token ids alone: no request, and no grammar, which is in another
process. But the scheduler shows each draft to the grammar of its request. So `ForcedTokens`
proposes only `PLACEHOLDER`, and `TurnEnforcement` puts the tokens that the grammar forces into its
place. The model verifies them like any draft; nothing else is allowed, so it takes them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["PLACEHOLDER", "ForcedTokens"]

PLACEHOLDER = 201_087
"""A token that gpt-oss has a logit for and harmony does not use; no grammar allows it."""


class ForcedTokens:
    """A proposer for vLLM's method ``custom_class``."""

    def __init__(self, vllm_config: Any) -> None:
        """Take vLLM's configuration, which is not used."""

    def propose(
        self, sampled_token_ids: Sequence[Sequence[int]], *_: Any, **__: Any
    ) -> list[list[int]]:
        """Return the placeholder for each row that has sampled a token."""
        return [[PLACEHOLDER] if sampled else [] for sampled in sampled_token_ids]

    def load_model(self, *_: Any, **__: Any) -> None:
        """Load nothing."""
