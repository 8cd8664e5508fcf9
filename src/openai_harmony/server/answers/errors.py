"""Every failure as JSON in the shape of the API, whoever raised it."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict  # that of Python 3.10 and 3.11 is not enough for pydantic

from ...apis.request_body import validation_problem
from ...errors import HarmonyError
from ..api_error import ApiError

__all__ = ["ERROR_ANSWERS", "ErrorAnswer", "add_error_answers", "error_answer"]

_LOG = logging.getLogger(__name__)


class ErrorObject(TypedDict):
    """What went wrong; `param` is the path of the field at fault, `code` a word for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(TypedDict):
    """The body of every answer with a status of 400 or more."""

    error: ErrorObject


ERROR_ANSWERS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "The request is wrong, or comes too early."},
    "5XX": {"model": ErrorAnswer, "description": "The server, or the engine, cannot answer."},
}
"""What the OpenAPI document says of errors."""


def error_answer(error: HarmonyError) -> JSONResponse:
    """Write an error of the library as an answer."""
    known = ApiError.of(error)
    headers = {}
    if known.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(known.retry_after)))
    if known.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(known.body(), known.status, headers)


def add_error_answers(app: FastAPI) -> None:
    """Take the place of the answers that the framework gives by itself."""

    @app.exception_handler(HarmonyError)
    async def of_library(_: Request, error: HarmonyError) -> JSONResponse:
        return error_answer(error)

    @app.exception_handler(RequestValidationError)
    async def of_validation(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_answer(_of_field(error))

    @app.exception_handler(HTTPException)
    async def of_framework(request: Request, error: HTTPException) -> JSONResponse:
        return error_answer(_of_status(request, error))

    @app.exception_handler(Exception)
    async def of_bug(request: Request, error: Exception) -> JSONResponse:
        _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
        problem = "the server failed; its log says where"
        return error_answer(ApiError(500, problem, kind="server_error", code="server_error"))


def _of_field(error: RequestValidationError) -> ApiError:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is no JSON: {first['ctx']['error']}", code="invalid_json")
    place = first["loc"][1:]  # behind the part of the request: ``body``, ``query`` or ``path``
    field, problem = validation_problem([{**first, "loc": place}])
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
    return ApiError(
        400, f"{field}: {problem}" if field else problem, param=field or None, code=code
    )


def _of_status(request: Request, error: HTTPException) -> ApiError:
    where = f"{request.method} {request.url.path}"
    if error.status_code == 404:
        return ApiError(
            404, f"there is no {where}; /openapi.json lists what there is", code="not_found"
        )
    if error.status_code == 405:
        return ApiError(405, f"{where} is not allowed here", code="method_not_allowed")
    return ApiError(error.status_code, f"{where}: {error.detail}", code="http_error")
