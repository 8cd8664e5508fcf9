"""The prompts of inference beside what is learned after them: the two must be the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..conversation.messages import Conversation, Message
from ..encoding import HarmonyEncoding, load_harmony_encoding
from ..sampled_messages import prompt_tokens
from .example import TrainingExample
from .options import TrainingOptions
from .turn_plan import kept_in_prompt

__all__ = ["PromptDifference", "find_prompt_difference", "inference_prompt"]


class PromptDifference(NamedTuple):
    """Where the prompt for a message and the example part: at the token with the index `at`."""

    message: int
    at: int


def inference_prompt(
    messages: Sequence[Message],
    options: TrainingOptions | None = None,
    *,
    encoding: HarmonyEncoding | None = None,
) -> list[int]:
    """Render the prompt for the assistant's next message after `messages`, as the server does."""
    options = options or TrainingOptions()
    encoding = encoding or load_harmony_encoding("HarmonyGptOss")
    kept = [messages[at] for at in kept_in_prompt(messages, range(len(messages)), options)]
    return prompt_tokens(encoding, Conversation(messages=kept), options.rendering())


def find_prompt_difference(
    conversation: Conversation,
    example: TrainingExample,
    options: TrainingOptions | None = None,
    *,
    encoding: HarmonyEncoding | None = None,
) -> PromptDifference | None:
    """Compare an example with the prompt for each message that it teaches.

    Returns the first difference, and None where every prompt is a beginning of the example. What
    an example left out for the context's length is left out of the prompts, too.
    """
    options = options or TrainingOptions()
    messages = conversation.messages
    held = {message[0] for message in example.messages}
    if options.context_length is None:
        held.update(range(len(messages)))
    for at, *_ in filter(example.learns, example.messages):
        before = [messages[index] for index in range(at) if index in held]
        prompt = inference_prompt(before, options, encoding=encoding)
        for place, token in enumerate(prompt):
            if example.input_ids[place : place + 1] != [token]:
                return PromptDifference(at, place)
    return None
