"""Errors for clients: every failure becomes JSON in the shape of the API."""

from __future__ import annotations

import logging
import re
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.requests import HTTPConnection
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ...apis.request_body import validation_problem
from ...engines.engine import ContextLengthError, EngineError, SamplingError
from ...errors import ConversationError, HarmonyError
from ...grammar.errors import GrammarError
from ..logs import request_id
from ..store.errors import ItemIdError, NotFoundError

__all__ = [
    "ERROR_RESPONSES",
    "ApiError",
    "ErrorAnswer",
    "add_error_handlers",
    "api_error_of",
    "error_response",
    "shutting_down",
    "without_addresses",
]

_LOG = logging.getLogger(__name__)


class ErrorObject(TypedDict):
    """An error; `param` is the path of the wrong field, `code` a word for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(TypedDict):
    """The body of every response with a status of 400 or more."""

    error: ErrorObject


ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "The request is wrong, or was sent too early."},
    "5XX": {"model": ErrorAnswer, "description": "The server or the engine cannot answer."},
}
"""The errors in the OpenAPI document."""


class ApiError(HarmonyError):
    """A response with an HTTP status of 400 or more.

    `kind` is the ``type`` of the error object, `param` the path of the wrong field, and `code` a
    word for programs. `retry_after` is in seconds.
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
        """Map an error of the library to a status; `prompt_field` is the field of the prompt.

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
            _LOG.warning("the engine failed: %s", error)
            problem = without_addresses(str(error))
            return cls(503, problem, kind="server_error", code="engine_unavailable", retry_after=1)
        if isinstance(error, EngineError):
            _LOG.error("the engine failed: %s", error)
            problem = without_addresses(str(error))
            return cls(500, problem, kind="server_error", code="server_error")
        return cls(500, str(error), kind="server_error", code="server_error")

    def body(self) -> ErrorAnswer:
        """Return the JSON of the response."""
        return {"error": self.error_object()}

    def error_object(self) -> ErrorObject:
        """Return only the error object, as in events."""
        return {
            "message": self.problem,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }


_ADDRESS = re.compile(
    r"""https?://[^\s,;'")]*[^\s,;'").:]|\(?'?\b\d{1,3}(?:\.\d{1,3}){3}\b'?(?:[:,]\ ?\d+)?\)?"""
)


def without_addresses(problem: str) -> str:
    """Remove the URLs and IP addresses of an engine's server; only the log and operators need them.

    >>> without_addresses("cannot connect to http://10.0.0.7:8000/v1/models: refused")
    'cannot connect to its server: refused'
    """
    return _ADDRESS.sub("its server", problem)


def api_error_of(error: BaseException, task: str) -> ApiError:
    """Map any exception to an API error; log exceptions that are not the library's as bugs.

    `task` names the failed task in the log, such as ``a stream``.
    """
    if isinstance(error, HarmonyError):
        return ApiError.of(error)
    _LOG.error("%s failed", task, exc_info=error)
    return ApiError(500, "the server failed; see its log", kind="server_error", code="server_error")


def shutting_down() -> ApiError:
    """Make the error of a request that cannot run or continue because the server is ending."""
    return ApiError(
        503,
        "the server is shutting down; try again later",
        kind="server_error",
        code="server_shutting_down",
        retry_after=10,
    )


def error_response(error: ApiError) -> JSONResponse:
    """Write an error as a response."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.body(), error.status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Replace the error responses of the framework."""

    @app.exception_handler(HarmonyError)
    async def of_library(request: HTTPConnection, error: HarmonyError) -> JSONResponse | None:
        response = error_response(ApiError.of(error))
        if isinstance(request, WebSocket):  # whose handshake is refused
            await request.send_denial_response(response)
            return None
        return response

    @app.exception_handler(Exception)
    async def of_bug(request: Request, error: Exception) -> JSONResponse:
        # The path may contain a client's text; the log has the route instead.
        route = getattr(request.scope.get("route"), "path", "other")
        response = error_response(api_error_of(error, f"{request.method} {route}"))
        # The middleware that adds it to other responses does not handle this one.
        response.headers["X-Request-Id"] = request_id()
        return response

    @app.exception_handler(RequestValidationError)
    async def of_validation(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            problem = f"the body is not JSON: {first['ctx']['error']}"
            return error_response(ApiError(400, problem, code="invalid_json"))
        path = first["loc"][1:]  # after the part of the request: ``body``, ``query`` or ``path``
        field, problem = validation_problem([{**first, "loc": path}])
        code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
        problem = f"{field}: {problem}" if field else problem
        return error_response(ApiError(400, problem, param=field or None, code=code))

    @app.exception_handler(HTTPException)
    async def of_framework(request: Request, error: HTTPException) -> JSONResponse:
        route = f"{request.method} {request.url.path}"
        problem, code, allowed = f"{route}: {error.detail}", "http_error", ""
        if error.status_code == 404:
            problem = f"there is no {route}; /openapi.json lists all endpoints"
            code = "not_found"
        elif error.status_code == 405:
            code = "method_not_allowed"
            allowed = _allowed_methods(request)
            problem = f"{route} is not allowed here, but {allowed or 'nothing'}"
        response = error_response(ApiError(error.status_code, problem, code=code))
        if allowed:
            response.headers["Allow"] = allowed
        return response


def _allowed_methods(request: Request) -> str:
    """List the methods that a path has, of all its routes."""
    return ", ".join(
        method
        for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    )
