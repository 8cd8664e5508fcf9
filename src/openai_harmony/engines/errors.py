"""What can go wrong with an engine, and what the caller may do about it."""

from __future__ import annotations

from ..errors import HarmonyError

__all__ = ["ContextLengthError", "EngineError", "SamplingError"]


class EngineError(HarmonyError):
    """The engine failed or cannot be reached; `retryable` where the same request may succeed."""

    def __init__(self, problem: str, *, retryable: bool = False) -> None:
        super().__init__(problem)
        self.retryable = retryable


class ContextLengthError(EngineError, ValueError):
    """The prompt leaves no room in the context; lengths are in tokens."""

    def __init__(self, prompt_length: int, context_length: int) -> None:
        super().__init__(
            f"the prompt has {prompt_length:,} tokens, and the context of the model "
            f"{context_length:,}, of which the completion needs one at least; "
            "shorten the conversation"
        )
        self.prompt_length = prompt_length
        self.context_length = context_length

    @classmethod
    def check(cls, prompt_length: int, context_length: int) -> int:
        """Return the room that a prompt leaves, in tokens; raise the error where there is none.

        >>> ContextLengthError.check(90, 100)
        10
        """
        if prompt_length >= context_length:
            raise cls(prompt_length, context_length)
        return context_length - prompt_length


class SamplingError(EngineError, ValueError):
    """A sampling setting is wrong, or this engine does not have it."""
