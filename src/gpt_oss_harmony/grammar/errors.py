"""The error of grammars, with the keyword that cannot be enforced, the reason and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..errors import HarmonyError


class GrammarError(ValueError, HarmonyError):
    """A schema, tool choice or option cannot be enforced token by token.

    `pointer` is the JSON pointer of the keyword, such as ``#/properties/tags/uniqueItems``; it may
    be empty. `remedy` says what to do instead. With `narrows`, the keyword is enforced, but some of
    the values that it allows cannot be written.
    """

    def __init__(
        self, problem: str, *, remedy: str = "", pointer: str = "", narrows: bool = False
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.pointer = pointer
        self.narrows = narrows

    def inside(self, pointer: str) -> GrammarError:
        """Return the same error for a schema at `pointer`, such as ``tools/functions.f#``."""
        whole = pointer + self.pointer[1:] if self.pointer.startswith("#") else self.pointer
        return type(self)(self.problem, remedy=self.remedy, pointer=whole, narrows=self.narrows)

    def __str__(self) -> str:
        text = self.problem
        if self.pointer:
            _, slash, keyword = self.pointer.rpartition("/")
            what = f'"{keyword}"' if slash and not keyword.endswith("#") else "the schema"
            verb = "cannot allow all of" if self.narrows else "cannot enforce"
            text = f"{verb} {what} at {self.pointer}: {text}"
        return f"{text}; {self.remedy}" if self.remedy else text


class StepLimitError(GrammarError):
    """The schemas of a turn need more work together than `TurnOptions.schema_steps` allows."""


Report: TypeAlias = Callable[[GrammarError], object]
"""A function that takes the error of an unenforceable keyword; if it returns, the keyword is left
out. It also gets the errors of keywords that allow fewer values than they should."""


def raise_error(error: GrammarError) -> None:
    """Raise the error; the `Report` for schemas that must be enforced in full."""
    if not error.narrows:
        raise error
