"""What a client is told when something goes wrong, in the shape of the API."""

from __future__ import annotations

from typing import Any

from ..engines.errors import ContextLengthError, EngineError, SamplingError
from ..errors import ConversationError, HarmonyError
from ..grammar.errors import GrammarError
from .store.errors import ItemIdError, NotFoundError

__all__ = ["ApiError"]


class ApiError(HarmonyError):
    """An answer with an HTTP status of 400 or more.

    `kind` is the ``type`` of the error object; `param` the path of the field at fault; `code` a
    word for programs; `retry_after` in seconds.
    """

    def __init__(
        self,
        status: int,
        problem: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(problem)
        self.status = status
        self.problem = problem
        self.kind = kind
        self.param = param
        self.code = code
        self.retry_after = retry_after

    @classmethod
    def of(cls, error: HarmonyError, *, prompt_field: str = "input") -> ApiError:
        """Say whose fault an error of the library is; `prompt_field` is what the prompt was in.

        >>> ApiError.of(ContextLengthError(5000, 4096)).code
        'context_length_exceeded'
        """
        if isinstance(error, ApiError):
            return error
        if isinstance(error, ContextLengthError):
            return cls(400, str(error), param=prompt_field, code="context_length_exceeded")
        if isinstance(error, ConversationError):
            return cls(400, error.problem, param=error.field or None, code="invalid_value")
        if isinstance(error, GrammarError):
            return cls(400, str(error), param=error.pointer or None, code="invalid_json_schema")
        if isinstance(error, NotFoundError):
            return cls(404, str(error), code=f"{error.kind}_not_found")
        if isinstance(error, ItemIdError):
            return cls(400, str(error), code="invalid_value")
        if isinstance(error, SamplingError):
            return cls(400, str(error), code="unsupported_value")
        if isinstance(error, EngineError) and error.retryable:
            return cls(
                503, str(error), kind="server_error", code="engine_unavailable", retry_after=1
            )
        return cls(500, str(error), kind="server_error", code="server_error")

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        return {"error": self.error_object()}

    def error_object(self) -> dict[str, Any]:
        """The error alone, as it stands in events."""
        return {
            "message": self.problem,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
