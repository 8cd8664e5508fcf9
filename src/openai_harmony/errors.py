"""The one tree of errors: whose fault it is, where, and what to do about it.

Everything this library raises on purpose is a `HarmonyError`, a `RuntimeError` as the API
reference documents; errors about an argument are a `ValueError` as well.
"""

from __future__ import annotations

from os.path import dirname, exists, join

__all__ = [
    "ConversationError",
    "HarmonyError",
    "SchemaError",
    "TokenError",
    "VocabularyError",
]

# OpenAI's library and its fork install a compiled module into this folder, too (.pyd on Windows).
# Every package imports this module, so the check runs even where their `__init__.py` replaced ours.
for _name in ("openai_harmony.abi3.so", "openai_harmony.pyd"):
    _file = join(dirname(__file__), _name)
    if exists(_file):
        from .installation import mixed_installation

        raise mixed_installation(_file)


class HarmonyError(RuntimeError):
    """Rendering, parsing or decoding failed."""


class ConversationError(HarmonyError, ValueError):
    """The caller's conversation cannot be read or rendered.

    `field` names the offending place, such as ``messages[2].role``; empty when there is none.
    """

    def __init__(self, problem: str, *, field: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}" if self.field else self.problem


class SchemaError(ConversationError):
    """A JSON Schema cannot be written as TypeScript (nested too deeply, or no JSON value)."""


class TokenError(HarmonyError):
    """The model's tokens do not follow the format.

    `token` is the offending id (None at the end of the input), `position` its index in the
    token stream, `state` the parser's state when it arrived.
    """

    def __init__(
        self,
        problem: str,
        *,
        token: int | None = None,
        position: int | None = None,
        state: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.token = token
        self.position = position
        self.state = state

    def __str__(self) -> str:
        if self.position is None:
            return self.problem
        return f"{self.problem} (token {self.position}, state {self.state})"


class VocabularyError(HarmonyError, ValueError):
    """A text or a token id does not belong to the vocabulary, or its file is damaged."""
