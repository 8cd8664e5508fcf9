"""What the page is told when something goes wrong."""

from __future__ import annotations

from typing import Any

from ..errors import ConversationError, HarmonyError

__all__ = ["InspectorError"]


class InspectorError(HarmonyError):
    """An answer with an HTTP status of 400 or more; `param` is the path of the field at fault."""

    def __init__(self, status: int, problem: str, *, param: str | None = None) -> None:
        super().__init__(problem)
        self.status = status
        self.problem = problem
        self.param = param

    @classmethod
    def of(cls, error: HarmonyError) -> InspectorError:
        """Make an answer of an error of the library: it was about what the page has sent.

        >>> InspectorError.of(ConversationError("expected text", field="messages[0]")).param
        'messages[0]'
        """
        if isinstance(error, InspectorError):
            return error
        if isinstance(error, ConversationError):
            return cls(422, error.problem, param=error.field or None)
        return cls(422, str(error), param=getattr(error, "pointer", "") or None)

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        return {"error": {"message": self.problem, "param": self.param}}
