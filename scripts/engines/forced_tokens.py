"""A logits processor for vLLM: a request names the tokens that are sampled.

    python -m vllm.entrypoints.openai.api_server --logits-processors forced_tokens:ForcedTokens …

The tokens are those of ``vllm_xargs.forced_tokens``; where they end, the model goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm.v1.sample.logits_processor import AdapterLogitsProcessor  # type: ignore[import-not-found]

__all__ = ["ForcedTokens"]


class ForcedTokens(AdapterLogitsProcessor):  # type: ignore[misc]
    """Leaves one token possible at each place."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[[list[int], Any], Any] | None:
        tokens = (params.extra_args or {}).get("forced_tokens")
        if not tokens:
            return None

        def force(sampled: list[int], logits: Any) -> Any:
            if len(sampled) < len(tokens):
                token = int(tokens[len(sampled)])
                logits[:] = float("-inf")
                logits[token] = 0.0
            return logits

        return force
