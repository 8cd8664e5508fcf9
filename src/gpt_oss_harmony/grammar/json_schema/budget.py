"""The work of compiling one schema, counted in steps, with a limit.

A step is at most about a microsecond of processor time. Steps are counted, not measured: a schema
that is compiled on one machine is compiled on all, however busy they are. The functions that do the
work call `spend`, which raises `GrammarError` when the budget is spent. A schema pays for each
result once, also if the result was cached for another schema.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache, wraps
from math import inf
from typing import TypeVar

from ..errors import GrammarError

STEP_LIMIT = 1_500_000
"""The most steps of a schema, unless the caller sets another number: about a second."""

_R = TypeVar("_R")


class Budget:
    """The steps that are spent for a schema, and the most that may be."""

    def __init__(self, limit: int | None, pointer: str) -> None:
        self.spent = 0
        self._limit = limit
        self._ceiling = limit
        self._pointer = pointer
        self.paid: set[Hashable] = set()
        """The cached results that the schema has paid."""

    def spend(self, steps: int) -> None:
        """Count steps; raise `GrammarError` beyond the limit, and at each further call."""
        self.spent += steps
        if self._ceiling is not None and self.spent > self._ceiling:
            raise GrammarError(
                f"compiling it takes more than {self._limit:,} steps",
                remedy="use a smaller schema, fewer alternatives side by side or fewer patterns",
                pointer=self._pointer,
            )

    @contextmanager
    def share(self, part: float) -> Iterator[None]:
        """Allow only a part of the steps that are left; the rest stays for later work."""
        ceiling = self._ceiling
        if ceiling is not None:
            self._ceiling = self.spent + int(max(0, ceiling - self.spent) * part)
        try:
            yield
        finally:
            self._ceiling = ceiling

    @property
    def left(self) -> float:
        """The steps that may still be spent."""
        return inf if self._ceiling is None else self._ceiling - self.spent


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget_of(limit: int | None, pointer: str) -> Iterator[Budget]:
    """Open a budget, which the functions called inside spend.

    At the end, an outer budget is charged with the steps, beyond its limit if need be.
    """
    outer = _current.get()
    opened = _current.set(budget := Budget(limit, pointer))
    try:
        yield budget
    finally:
        _current.reset(opened)
        if outer is not None:
            outer.spent += budget.spent


def spend(steps: int) -> None:
    """Spend steps of the open budget, if there is one."""
    budget = _current.get()
    if budget is not None:
        budget.spend(steps)


def cached(maxsize: int) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Cache the results of a function together with their price in steps."""

    def decorate(function: Callable[..., _R]) -> Callable[..., _R]:
        @lru_cache(maxsize=maxsize)
        def priced(*arguments: Hashable) -> tuple[_R, int]:
            with _open_budget() as budget:
                before = budget.spent
                return function(*arguments), budget.spent - before

        @wraps(function)
        def paid(*arguments: Hashable) -> _R:
            with _open_budget() as budget:
                before = budget.spent
                result, price = priced(*arguments)
                key = function, arguments
                if key not in budget.paid:
                    budget.paid.add(key)
                    budget.spend(price - (budget.spent - before))  # nothing if it was not cached
                return result

        return paid

    return decorate


def _open_budget() -> AbstractContextManager[Budget]:
    budget = _current.get()
    return budget_of(None, "") if budget is None else nullcontext(budget)
