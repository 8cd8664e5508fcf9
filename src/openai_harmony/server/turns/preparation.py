"""One turn of the model before it is sampled: a request in, its prompt and its grammar out."""

from __future__ import annotations

from dataclasses import replace

from ...apis.turn_request import TurnRequest
from ...config import RenderConversationConfig
from ...encoding import load_harmony_encoding
from ...engines.sampling import Sampling
from ...sampled_messages import prompt_tokens
from .constraint import turn_constraint

__all__ = ["RENDERING", "prepare_turn"]

RENDERING = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
"""How the server renders: a request has left past reasoning out; calls keep their tokens."""


def prepare_turn(request: TurnRequest, *, constrain: bool) -> tuple[list[int], Sampling]:
    """Render the prompt, and write the grammar where the request asks for something.

    It may take a while: call it off the event loop. Raises `ConversationError`, `GrammarError`.
    """
    encoding = load_harmony_encoding("HarmonyGptOss")
    prompt = prompt_tokens(encoding, request.conversation, RENDERING)
    if not (constrain and request.is_constrained):
        return prompt, request.sampling
    return prompt, replace(request.sampling, grammar=turn_constraint(request).grammar)
