"""The classes of errors: one for each of the conversation, the tokens and the vocabulary.

Every error that this library raises on purpose is a `HarmonyError`, which is a `RuntimeError`, as
in openai-harmony. Errors about an argument are also a `ValueError`.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable

__all__ = [
    "ConversationError",
    "HarmonyError",
    "PromptLengthError",
    "SchemaError",
    "TokenError",
    "VocabularyError",
    "wrong_type",
]


class HarmonyError(RuntimeError):
    """Rendering, parsing or decoding failed; the base class of all errors of this library."""


class ConversationError(HarmonyError, ValueError):
    """The caller's conversation cannot be read or rendered.

    `field` is the path of the wrong field, such as ``messages[2].role``; it may be empty.
    """

    def __init__(self, problem: str, *, field: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}" if self.field else self.problem


class PromptLengthError(ConversationError):
    """A prompt has `length` tokens; the caller allows `most_tokens`."""

    def __init__(self, length: int, most_tokens: int) -> None:
        super().__init__(f"the prompt has {length:,} tokens, and {most_tokens:,} are allowed")
        self.length = length
        self.most_tokens = most_tokens


class SchemaError(ConversationError):
    """A JSON Schema cannot be written as TypeScript: nested too deeply, or not a JSON value."""


class TokenError(HarmonyError):
    """The model's tokens do not follow the format.

    `token` is the wrong token id (None at the end of the input), `position` its index in the token
    stream, and `state` the name of the parser's state before it. `problem` has the words of
    openai-harmony, which name tokens by their ids; `detail` names them by their texts.
    """

    def __init__(
        self,
        problem: str,
        *,
        token: int | None = None,
        position: int | None = None,
        state: str | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.token = token
        self.position = position
        self.state = state
        self.detail = detail
        if sys.version_info >= (3, 11):  # at the end of a traceback, not in the words
            self.add_note("With strict=False, the parser repairs this, and lists its repairs.")

    def __str__(self) -> str:
        words = f"{self.problem}: {self.detail}" if self.detail else self.problem
        if self.position is None:
            return words
        return f"{words} (token {self.position}, state {self.state})"


class VocabularyError(HarmonyError, ValueError):
    """A text or a token id is not in the vocabulary, or the vocabulary's file is damaged."""


def wrong_type(name: str, expected: str, value: object, remedy: str) -> TypeError:
    """Make the error for an argument of another type; `remedy` is what to write instead.

    >>> print(wrong_type("config", "a RenderOptions", {}, "write RenderOptions()"))
    config must be a RenderOptions, not dict; write RenderOptions()
    """
    return TypeError(f"{name} must be {expected}, not {type(value).__name__}; {remedy}")


def require(
    name: str, value: object, kind: type | tuple[type, ...], expected: str, remedy: str
) -> None:
    """Raise `wrong_type` for an argument that is not of a type."""
    if not isinstance(value, kind):
        raise wrong_type(name, expected, value, remedy)


def closest(word: str, names: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the name that is most like a word; None if none is.

    >>> closest("rendr", ["render", "parse"])
    'render'
    """
    return next(iter(difflib.get_close_matches(word, list(names), 1, likeness)), None)


MASK = "***"
# A password may have a slash, and a space where nothing is quoted.
_CREDENTIALS = r"(?<=://)(?:\S*|[^/@\s]*:[^@]*)(?=@)"
_NAMED_SECRET = (
    r"""((?:key|token|secret|password|bearer|authorization)["']?[=:\s]\s*)"""
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|(?:(?:basic|bearer)\s+)?[^\s&]+)"""
)


def without_secrets(text: str) -> str:
    """Mask the passwords and keys of URLs, commands and headers in a text that is shown.

    >>> without_secrets("https://me:hush@a.example/mcp?api_key=hush&x=1")
    'https://***@a.example/mcp?api_key=***&x=1'
    """
    # Compiled here, because every program imports this module and few show such a text.
    text = re.sub(_CREDENTIALS, MASK, text)
    return re.sub(_NAMED_SECRET, rf"\1{MASK}", text, flags=re.IGNORECASE)


def did_you_mean(
    word: str, names: Iterable[str], otherwise: str = "", *, likeness: float = 0.6
) -> str:
    """Ask for the name that is most like a word; return `otherwise` if none is.

    >>> did_you_mean("rendr", ["render", "parse"]), did_you_mean("x", ["render"], "leave it out")
    ('did you mean render?', 'leave it out')
    """
    name = closest(word, names, likeness)
    return otherwise if name is None else f"did you mean {name}?"
