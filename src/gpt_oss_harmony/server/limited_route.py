"""Routes that check a request before they read it, and that read it without blocking others.

A request to such a route has a valid key. A request with a body counts against the limits of the
key while it runs. A large body is read and validated in a thread. The bodies of one key together
also have a limit, and those that were compressed a lower one. So have the large answers that the
clients of a key have not read yet.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from fastapi import Request, params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from ..apis.request_body import MANY_ERRORS, RequestBody
from ..errors import HarmonyError
from .auth.api_keys import Caller, authenticate, counted
from .auth.limits import Quota
from .fair_turns import FairPool
from .http.errors import ApiError, error_response
from .http.json import large_json_response, read_json
from .http.requests import DECODED, while_connected
from .unknown_fields import IGNORED_FIELDS, UnknownFields

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_SMALL_BODY = 64 * 1024
"""Bodies up to this many bytes are read directly: starting a thread would take longer."""

_PIECE = 256 * 1024  # bytes of an answer that are sent before its client has read those before


async def in_pool(
    request: Request,
    pool: FairPool,
    owner: str,
    function: Callable[_Arguments, _Result],
    *arguments: _Arguments.args,
    **keywords: _Arguments.kwargs,
) -> _Result:
    """Return the result of a call in a pool; drop it if the client disconnects before."""
    work = pool.run(owner, function, *arguments, **keywords)
    return await while_connected(request.receive, work)


async def written(request: Request, owner: str, content: Any) -> Response:
    """Write content that may be large as JSON, in a thread."""
    pool = request.app.state.services.pools.encoding
    return await in_pool(request, pool, owner, large_json_response, content)


@asynccontextmanager
async def counted_body(request: Request) -> AsyncGenerator[tuple[Caller, Receive], None]:
    """Count a request, and the bytes of its body as they come, against the limits of its key."""
    services = request.app.state.services
    async with counted(request) as caller:
        with ExitStack() as held:
            quotas = [services.request_bytes]
            if DECODED in request.scope:
                quotas.append(services.decoded_bytes)
            takes = [held.enter_context(quota.held_by(caller.owner)) for quota in quotas]

            async def receive() -> Message:
                message = await request.receive()
                for take in takes:
                    take(len(message.get("body", b"")))
                return message

            yield caller, receive


def _sent_in_pieces(
    scope: Scope, receive: Receive, send: Send, take: Callable[[int], None], most: int
) -> Send:
    """Send a large body as its client reads it, and count it until then, or answer 429 instead.

    At once, it would wait in the memory of the connection, uncounted, for a client that may read
    nothing. An answer of more than `most` bytes counts as that many.
    """
    is_refused = False

    async def send_pieces(message: Message) -> None:
        nonlocal is_refused
        if message["type"] == "http.response.start":
            length = int(Headers(raw=message["headers"]).get("content-length", 0))
            try:
                if length > _PIECE:
                    take(min(length, most))
            except ApiError as error:
                is_refused = True
                await error_response(error, scope)(scope, receive, send)
        body = message.get("body", b"")
        if is_refused:
            return
        if len(body) <= _PIECE:
            await send(message)
            return
        for start in range(0, len(body), _PIECE):
            more = message.get("more_body", False) or start + _PIECE < len(body)
            await send({**message, "body": body[start : start + _PIECE], "more_body": more})

    return send_pieces


class PlainRoute(APIRoute):
    """A route that answers HEAD as GET, and no path with a slash at its end.

    FastAPI would list HEAD in the schema as an operation of its own. The HTTP server leaves out the
    body. For a slash, the router looks for the path without it, and redirects there.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return how far the route fits; a name of a model could have the slash."""
        if scope["type"] == "http" and scope["path"].endswith("/"):
            return Match.NONE, {}
        return super().matches(self._as_get(scope))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        await super().handle(self._as_get(scope), receive, send)

    def _as_get(self, scope: Scope) -> Scope:
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        return {**scope, "method": "GET"} if is_head and "GET" in (self.methods or ()) else scope


class LimitedRoute(PlainRoute):
    """A route for callers with a key; a request with a body counts against its limits."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the caller and the limits, then answer the request."""
        scope = self._as_get(scope)
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        request = Request(scope, receive)
        async with AsyncExitStack() as running:
            if self.body_field is None:
                caller = await authenticate(request)
            else:
                caller, receive = await running.enter_async_context(counted_body(request))
            answers: Quota = scope["app"].state.services.answer_bytes
            take = running.enter_context(answers.held_by(caller.owner))
            send = _sent_in_pieces(scope, receive, send, take, answers.limit)
            for name, value in scope["path_params"].items():
                if "\0" in value:
                    problem = "an id has no NUL; send the one that the server gave"
                    raise ApiError(400, problem, param=name, code="invalid_value")
            await super().handle(scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that reads bodies with `_Request` and raises its errors."""
        handler = super().get_route_handler()
        field = None if self.body_field is None else self.body_field.field_info
        is_form = isinstance(field, params.Form)
        body = None if field is None or is_form else field.annotation

        async def handle(request: Request) -> Response:
            if self.body_field is not None:
                _check_content_type(request, is_form=is_form)
            try:
                return await handler(_Request(request.scope, request.receive, body))
            except HTTPException as error:  # the framework's, for any error of a body
                cause = error.__cause__
                if isinstance(cause, (HarmonyError, RecursionError, RequestValidationError)):
                    raise cause from None
                raise

        return handle


def _check_content_type(request: Request, *, is_form: bool) -> None:
    """Raise `ApiError` unless the content type is JSON, or for routes with a form, a form.

    The fields of a form may also be sent as JSON.
    """
    headers = request.headers
    content_type = headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    is_json = kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
    is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if not is_json and not is_empty and not (is_form and kind == "multipart/form-data"):
        said = (
            f"has the content type {content_type!r:.80}" if content_type else "has no content type"
        )
        raise ApiError(
            415,
            f"the body {said}; send it as "
            + ("multipart/form-data" if is_form else "JSON, with 'Content-Type: application/json'"),
            code="unsupported_content_type",
        )


class _Request(Request):
    """A request whose body is read as `model`, if that is the class of one."""

    def __init__(self, scope: Scope, receive: Receive, model: Any) -> None:
        super().__init__(scope, receive)
        self._model = model

    async def json(self) -> Any:
        """Read and validate the body, a large one in a thread until the client disconnects."""
        body = await self.body()
        caller = await authenticate(self)
        if len(body) <= _SMALL_BODY:
            return self._read(body, caller.owner)
        pool = self.app.state.services.pools.encoding
        return await in_pool(self, pool, caller.owner, self._read, body, caller.owner)

    def form(self, **limits: Any) -> Any:
        """Read a form, or JSON with its fields; the framework awaits the result."""
        if self.headers.get("content-type", "").lower().startswith("multipart/"):
            return super().form(**limits)
        return self._json_form()

    async def _json_form(self) -> FormData:
        raw = await self.json() if await self.body() else {}
        if not isinstance(raw, dict) or not all(isinstance(value, str) for value in raw.values()):
            problem = "send the fields of a form as an object of texts"
            raise ApiError(400, problem, code="invalid_value")
        return FormData(raw)

    def _read(self, body: bytes, owner: str) -> Any:
        raw = read_json(body)
        if not isinstance(self._model, type) or not issubclass(self._model, BaseModel):
            return raw
        if issubclass(self._model, RequestBody):
            unknown: UnknownFields = self.app.state.services.unknown_fields
            self.scope[IGNORED_FIELDS] += unknown.check(self._model, raw, owner)
        try:
            return self._model.model_validate(raw)
        except ValidationError as error:
            if error.error_count() > MANY_ERRORS:
                problem = f"{error.error_count():,} values of the request are not valid"
                raise ApiError(400, problem, code="invalid_value") from None
            errors = error.errors(include_url=False)[:1]
            raise RequestValidationError(
                [{**problem, "loc": ("body", *problem["loc"])} for problem in errors]
            ) from None
