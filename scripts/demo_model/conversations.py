"""Synthetic conversations: a seed comes in, examples of every kind come out.

They come in groups that share an opening. An example becomes the tokens of its prompt, as any
user of the library would render it, and those that the assistant samples after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from gpt_oss_harmony import Conversation, RenderConversationConfig, Role
from gpt_oss_harmony.config import HeaderStyle

from .example import Example, Opening
from .openings import opening
from .several_turns import makers, several_turns
from .words import ENCODING, Part

__all__ = ["KINDS", "Rendered", "examples_after", "groups", "render"]

KINDS = (
    "arithmetic",
    "browser answer",
    "browser call",
    "greeting",
    "python answer",
    "python call",
    "several turns",
    "shopping",
    "unknown",
    "weather answer",
    "weather call",
)

_SAMPLED = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
_ROLE_IN_THE_PROMPT = 2  # <|start|> and "assistant"


@dataclass(frozen=True)
class Rendered:
    """An example as tokens: those of the opening, the rest of the prompt, and the completion."""

    opening: list[int]
    turns: list[int]
    completion: list[int]


def groups(seed: int, part: Part, size: int) -> Iterator[list[Example]]:
    """Yield groups of `size` examples without end."""
    rng = Random(f"{seed} {part}")
    while True:
        yield examples_after(rng, part, opening(rng, part), size)


def examples_after(rng: Random, part: Part, start: Opening, size: int) -> list[Example]:
    """Examples that share an opening."""
    found = []
    for _ in range(size):
        make = several_turns if rng.random() < 0.2 else rng.choice(makers(start))
        found.append(make(rng, part, start))
    return found


def render(example: Example, style: HeaderStyle = "guide") -> Rendered:
    """Render a prompt and what follows it; `style` is that of the prompt."""
    config = RenderConversationConfig(header_style=style)
    first = Conversation.from_messages(example.opening.messages)
    whole = Conversation.from_messages([*example.opening.messages, *example.turns])
    start = ENCODING.render_conversation(first, config)
    prompt = ENCODING.render_conversation_for_completion(whole, Role.ASSISTANT, config)
    sampled = ENCODING.segments_for_training(
        Conversation.from_messages(example.completion), _SAMPLED
    )
    completion = [token for segment in sampled for token in segment.tokens]
    return Rendered(start, prompt[len(start) :], completion[_ROLE_IN_THE_PROMPT:])
