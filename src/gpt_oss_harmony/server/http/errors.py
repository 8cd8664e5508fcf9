"""Errors for clients: every failure becomes JSON in the shape of the API."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from json import JSONDecodeError
from typing import Any, Literal

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.requests import HTTPConnection
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope
from typing_extensions import NotRequired, TypedDict  # pydantic needs that of Python 3.12

from ...apis.request_body import validation_problem
from ...apis.wire_events import json_text
from ...conversation.json_field import json_problem
from ...engines.engine import ContextLengthError, EngineError, SamplingError
from ...errors import ConversationError, HarmonyError, did_you_mean
from ...grammar.errors import GrammarError
from ..logs import request_id
from ..store.errors import (
    ClaimedError,
    ItemIdError,
    NotFoundError,
    StorageFullError,
    StoreError,
    UploadError,
)

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


class MessagesError(TypedDict):
    """An error in Anthropic's form; `details` has words for programs."""

    type: str
    message: str
    details: NotRequired[dict[str, Any]]


class MessagesErrorAnswer(TypedDict):
    """The body of errors for clients of Anthropic's API."""

    type: Literal["error"]
    error: MessagesError
    request_id: str


class OllamaErrorAnswer(TypedDict):
    """The body of errors for clients of Ollama's API."""

    error: str


def _documented(body: type) -> dict[int | str, dict[str, Any]]:
    return {
        "4XX": {"model": body, "description": "The request is wrong, or was sent too early."},
        "5XX": {"model": body, "description": "The server or the engine cannot answer."},
    }


ERROR_RESPONSES = _documented(ErrorAnswer)
"""The errors in the OpenAPI document."""

MESSAGES_ERRORS = _documented(MessagesErrorAnswer)
"""The same for the Messages API."""

OLLAMA_ERRORS = _documented(OllamaErrorAnswer)
"""The same for Ollama's API."""


class ApiError(HarmonyError):
    """A response with an HTTP status of 400 or more.

    `kind` is the ``type`` of the error object, `param` the path of the wrong field, and `code` a
    word for programs. `retry_after` is in seconds. `details` are those of Anthropic's form.
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
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(problem)
        self.details = details
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
        if isinstance(error, StoreError):
            return _of_store(error)
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

    @property
    def text(self) -> str:
        """The problem, after the path of the field."""
        # A schema's error has the path of the keyword within it.
        is_named = not self.param or self.code == "invalid_json_schema"
        is_named = is_named or self.problem.startswith(str(self.param))
        return self.problem if is_named else f"{self.param}: {self.problem}"

    def error_object(self) -> ErrorObject:
        """Return only the error object, as in events."""
        return {
            "message": self.text,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }

    def messages_body(self) -> dict[str, Any]:
        """Return the JSON of the response in Anthropic's form, whose errors have no field.

        >>> ApiError(404, "there is no such model").messages_body()["error"]["type"]
        'not_found_error'
        """
        kinds = _MESSAGES_KINDS if self.status < 500 else _MESSAGES_FAILURES
        kind = kinds.get(self.status, kinds[0])
        error: dict[str, Any] = {"type": kind, "message": self.text}
        if self.details is not None:
            error["details"] = self.details
        return {"type": "error", "error": error, "request_id": request_id()}


_MESSAGES_KINDS = {
    0: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
_MESSAGES_FAILURES = {0: "api_error", 503: "overloaded_error", 504: "timeout_error"}
"""The types of errors in Anthropic's form, by status; 0 is for the others."""


def speaks_messages(scope: Scope) -> bool:
    """Return whether the client speaks Anthropic's API, by its header or by the path.

    >>> speaks_messages({"path": "/v1/messages", "headers": []})
    True
    """
    names = (name for name, _ in scope.get("headers", ()))
    path = scope.get("path", "")
    return path == "/v1/messages" or path.startswith("/v1/messages/") or _VERSION in names


_VERSION = b"anthropic-version"


def _of_store(error: StoreError) -> ApiError:
    if isinstance(error, NotFoundError):
        return ApiError(404, str(error), code=f"{error.kind}_not_found")
    if isinstance(error, StorageFullError):
        return ApiError(413, str(error), code="storage_full")
    if isinstance(error, ItemIdError):
        return ApiError(400, str(error), param=error.field, code="invalid_value")
    if isinstance(error, UploadError):
        return ApiError(400, str(error), code="invalid_value")
    if isinstance(error, ClaimedError):
        used = error.name.partition(" ")[0]
        problem = f"this {used} was used by an earlier request, and what that made is not stored"
        return ApiError(409, problem, code=f"{used}_already_used")
    return database_unavailable()


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
    if isinstance(error, RecursionError):  # only what a client sent is nested that deeply
        _LOG.warning("%s is refused: it is nested too deeply", task)
        problem = "the request, or a grammar or schema in it, is nested too deeply; flatten it"
        return ApiError(400, problem, code="nested_too_deeply")
    _LOG.error("%s failed", task, exc_info=error)
    return ApiError(500, "the server failed; see its log", kind="server_error", code="server_error")


def database_unavailable() -> ApiError:
    """Make the error of a request without its database; only the log has the cause, with paths."""
    return ApiError(
        503,
        "the server's database does not work at the moment; try again later",
        kind="server_error",
        code="database_unavailable",
        retry_after=5,
    )


def too_many(problem: str, retry_after: float = 1, code: str = "server_busy") -> ApiError:
    """Make the error of a request that has to wait for others: 429, and after how many seconds."""
    return ApiError(429, problem, kind="rate_limit_error", code=code, retry_after=retry_after)


def shutting_down() -> ApiError:
    """Make the error of a request that cannot run or continue because the server is ending."""
    return ApiError(
        503,
        "the server is shutting down; try again later",
        kind="server_error",
        code="server_shutting_down",
        retry_after=10,
    )


def error_response(error: ApiError, scope: Scope) -> Response:
    """Write an error as a response, in the form of the client's API."""
    headers = {}
    if error.retry_after is not None:
        # In whole seconds; with 0, clients would come again at once.
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if error.status == 401:
        # RFC 9110 requires it beside a 401.
        headers["WWW-Authenticate"] = "Bearer"
    body: Mapping[str, Any] = error.body()
    if speaks_messages(scope):
        body = error.messages_body()
    elif scope.get("path", "").startswith("/api/"):  # Ollama's, whose errors are texts
        body = {"error": error.text}
    # A name in it may have half a surrogate pair, which no other writer can encode.
    return Response(json_text(body).encode(), error.status, headers, "application/json")


def add_error_handlers(app: FastAPI) -> None:
    """Replace the error responses of the framework."""

    @app.exception_handler(HarmonyError)
    @app.exception_handler(RecursionError)
    async def of_request(request: HTTPConnection, error: Exception) -> Response | None:
        route = getattr(request.scope.get("route"), "path", "other")
        response = error_response(api_error_of(error, f"a request to {route}"), request.scope)
        if isinstance(request, WebSocket):  # whose handshake is refused
            await request.send_denial_response(response)
            return None
        return response

    @app.exception_handler(Exception)
    async def of_bug(request: Request, error: Exception) -> Response:
        # The path may contain a client's text; the log has the route instead.
        route = getattr(request.scope.get("route"), "path", "other")
        failure = api_error_of(error, f"{request.method} {route}")
        response = error_response(failure, request.scope)
        # The middleware that adds it to other responses does not handle this one.
        response.headers["X-Request-Id"] = request_id()
        # The error is raised again, to be logged, and the server then closes the connection.
        response.headers["Connection"] = "close"
        return response

    @app.exception_handler(RequestValidationError)
    async def of_validation(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            broken = JSONDecodeError(first["ctx"]["error"], error.body, first["loc"][-1])
            problem = f"the body is {json_problem(broken)}"
            return error_response(ApiError(400, problem, code="invalid_json"), request.scope)
        path = first["loc"][1:]  # after the part of the request: ``body``, ``query`` or ``path``
        field, problem = validation_problem([{**first, "loc": path}])
        code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
        problem = f"{field}: {problem}" if field else problem
        invalid = ApiError(400, problem, param=field or None, code=code)
        return error_response(invalid, request.scope)

    @app.exception_handler(HTTPException)
    async def of_framework(request: Request, error: HTTPException) -> Response:
        route = f"{request.method} {request.url.path}"
        problem, code, allowed = f"{route}: {error.detail}", "http_error", ""
        if error.status_code == 404:
            absent = (
                why for path, why in _ABSENT.items() if f"{request.url.path}/".startswith(path)
            )
            path, paths = request.url.path, request.app.state.paths
            listed = "/openapi.json lists all endpoints"
            remedy = next(absent, "") or did_you_mean(path, paths, listed, likeness=0.8)
            problem = f"there is no {route}; {remedy}"
            code = "not_found"
        elif error.status_code == 405:
            code = "method_not_allowed"
            allowed = _allowed_methods(request)
            problem = f"{route} is not allowed here, but {allowed or 'nothing'}"
        response = error_response(ApiError(error.status_code, problem, code=code), request.scope)
        if allowed:
            response.headers["Allow"] = allowed
        return response


_ABSENT = {
    "/v1/embeddings/": "gpt-oss makes no embeddings: serve an embedding model beside it",
    "/v1/moderations/": "gpt-oss-safeguard judges texts by a policy of yours: send both to "
    "/v1/responses, with the policy as instructions",
    "/v1/images/": "gpt-oss writes text only",
    "/v1/audio/": "gpt-oss reads and writes text only",
    "/v1/fine_tuning/": "train on your own machine: docs/guides/training-data.md",
    "/v1/vector_stores/": "start the server with --browser FOLDER, which is searched",
    "/v1/assistants/": "use /v1/responses and /v1/conversations",
    "/v1/threads/": "use /v1/responses and /v1/conversations",
}
"""Endpoints that clients know and this server does not have, with what helps."""


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
