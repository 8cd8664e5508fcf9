"""Which messages go into which sequence, so that each is learned once, after its own prompt.

The prompt for a message leaves out the reasoning of earlier turns. So a sequence goes on as long as
the next prompt is what is there already; where the next prompt is another, a new sequence begins
with it, and nothing in it is learned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..conversation.content import DeveloperContent
from ..conversation.messages import Message, Role
from ..rendering.history import without_past_reasoning
from .options import TrainingOptions

__all__ = ["Entry", "Plan", "declares_functions", "is_answer", "kept_in_prompt", "plan_sequences"]


class Entry(NamedTuple):
    """A message of a sequence, by its index, and whether it is learned there."""

    message: int
    learned: bool


Plan: TypeAlias = list[Entry]


def plan_sequences(
    messages: Sequence[Message],
    options: TrainingOptions,
    weights: Mapping[int, float] | None = None,
) -> list[Plan]:
    """Plan the sequences of a conversation that have something to learn, each up to its end."""
    learned = _learned(messages, options, weights or {})
    plans: list[Plan] = []
    entries: Plan = []
    begun = declared = False  # the assistant has spoken; functions are declared
    changed = answered = False  # since the assistant last spoke
    for at, message in enumerate(messages):
        if message.author.role is Role.ASSISTANT:
            if changed or answered:
                kept = kept_in_prompt(messages, (entry.message for entry in entries), options)
                if changed or len(kept) < len(entries):
                    plans.append(entries)
                    entries = [Entry(index, False) for index in kept]
            begun, changed, answered = True, False, is_answer(message)
        elif not declared and declares_functions(message):
            # The system message says so, too: what was a prompt is no beginning of the next one.
            declared, changed = True, begun
        entries.append(Entry(at, learned[at]))
    plans.append(entries)
    return list(filter(None, map(_up_to_last_learned, plans)))


def kept_in_prompt(
    messages: Sequence[Message], indices: Iterable[int], options: TrainingOptions
) -> list[int]:
    """Choose those of the messages that the next prompt holds, by index."""
    chosen = list(indices)
    if options.keep_past_reasoning:
        return chosen
    kept = {id(message) for message in without_past_reasoning([messages[at] for at in chosen])}
    return [at for at in chosen if id(messages[at]) in kept]


def is_answer(message: Message) -> bool:
    """Whether a turn ends with this message, and sampling with ``<|return|>``."""
    return message.author.role is Role.ASSISTANT and message.channel == "final"


def declares_functions(message: Message) -> bool:
    """Whether a message declares functions, which the system message mentions."""
    return message.author.role is Role.DEVELOPER and any(
        bool((namespace := (item.tools or {}).get("functions")) and namespace.tools)
        for item in message.content
        if isinstance(item, DeveloperContent)
    )


def _learned(
    messages: Sequence[Message], options: TrainingOptions, weights: Mapping[int, float]
) -> list[bool]:
    first = _last_turn(messages) if options.turns == "last" else 0
    channels = options.channels
    return [
        message.author.role is Role.ASSISTANT
        and at >= first
        and (channels is None or message.channel in channels)
        and weights.get(at, 1.0) != 0
        for at, message in enumerate(messages)
    ]


def _last_turn(messages: Sequence[Message]) -> int:
    """Find the first message after the last one that is neither the assistant's nor a tool's."""
    others = (
        at
        for at, message in enumerate(messages)
        if message.author.role not in (Role.ASSISTANT, Role.TOOL)
    )
    return max(others, default=-1) + 1


def _up_to_last_learned(plan: Plan) -> Plan:
    for end in range(len(plan), 0, -1):
        if plan[end - 1].learned:
            return plan[:end]
    return []
