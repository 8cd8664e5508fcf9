"""The answers of the Completions API, which have the same form as a whole and as chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict  # of Python 3.12, which tells pydantic more

from ..chat.answer import ChatUsage, chat_usage
from ..turns.events import Usage
from .body import CompletionBody
from .choices import ChoicePlan
from .text import CompletionPiece, joined_logprobs

__all__ = ["CompletionAnswer", "completion_choice", "completions_usage"]


class LogprobLists(TypedDict):
    """Lists of the same length: an entry for each token."""

    text_offset: list[int]
    token_logprobs: list[float]
    tokens: list[str]
    top_logprobs: list[dict[str, float]]


class CompletionChoice(TypedDict):
    """A choice, or what a chunk adds to it; `finish_reason` is null in chunks but the last."""

    index: int
    text: str
    logprobs: LogprobLists | None
    finish_reason: Literal["stop", "length"] | None
    prompt_token_ids: NotRequired[list[int]]
    token_ids: NotRequired[list[int]]


class CompletionAnswer(TypedDict):
    """An answer."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: NotRequired[ChatUsage | None]


def completion_choice(
    body: CompletionBody, plan: ChoicePlan, pieces: Sequence[CompletionPiece], *, is_start: bool
) -> dict[str, Any]:
    """Write a choice of these pieces; what belongs to the prompt comes at its start."""
    finish = pieces[-1].finish
    choice: dict[str, Any] = {
        "index": plan.at,
        "text": (plan.echo if is_start else "") + "".join(piece.text for piece in pieces),
        "logprobs": joined_logprobs(pieces),
        "finish_reason": None if finish is None else finish.value,
    }
    if body.return_token_ids:
        if is_start:
            choice["prompt_token_ids"] = plan.prompt
        choice["token_ids"] = [piece.token for piece in pieces]
    return choice


def completions_usage(prompts: Sequence[Sequence[Usage]]) -> ChatUsage:
    """Count the choices of each prompt, and their prompt once.

    >>> completions_usage([[Usage(5, 0, 2), Usage(5, 5, 3)], [Usage(7, 0, 1)]])["total_tokens"]
    18
    """
    total = Usage()
    for choices in prompts:
        total = total.plus(
            Usage(
                input_tokens=max((usage.input_tokens for usage in choices), default=0),
                cached_tokens=min((usage.cached_tokens for usage in choices), default=0),
                output_tokens=sum(usage.output_tokens for usage in choices),
            )
        )
    return chat_usage([total])
