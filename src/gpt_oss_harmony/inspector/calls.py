"""The calls of the page: JSON in, JSON out. The routes and a browser without a server make them.

This module needs neither a server nor the extra ``inspect``. Without llguidance there is no call
``allowed``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple, TypedDict

from ..apis.request_body import RequestBody, read_body
from ..conversation.built_in_tools import BUILT_IN_TOOLS
from ..conversation.json_field import strict_json
from ..errors import HarmonyError
from ..installation import VERSION
from .export import exported
from .parse import parsing
from .rendering import comparison, rendering
from .source import appended
from .wire import AllowedBody, AppendBody, ExportBody, InspectorError, ParseBody, RenderBody

MAX_BYTES = 16 * 1024 * 1024
MAX_VALUES = 500_000


class Call(NamedTuple):
    """The body that a call takes, and the function that answers or raises `HarmonyError`."""

    body: type[RequestBody]
    work: Callable[[Any], Mapping[str, Any]]


def _allowed(body: AllowedBody) -> Mapping[str, Any]:
    if not _has_grammar():
        raise InspectorError(501, "grammars need llguidance, which is not installed here")
    from .allowed import allowed

    return allowed(body)


CALLS: Mapping[str, Call] = {
    "render": Call(RenderBody, rendering),
    "append": Call(AppendBody, appended),
    "compare": Call(RenderBody, comparison),
    "parse": Call(ParseBody, parsing),
    "allowed": Call(AllowedBody, _allowed),
    "export": Call(ExportBody, exported),
}


def _built_in_tools() -> str:
    namespaces = {key: tool.namespace.model_dump() for key, tool in BUILT_IN_TOOLS.items()}
    return f"export const BUILT_IN_TOOLS = {json.dumps(namespaces)};\n"


MADE_FILES: Mapping[str, Callable[[], str]] = {"built-in-tools.js": _built_in_tools}
"""The scripts of the page that are made from the library, by name."""


class Answer(NamedTuple):
    """An answer as JSON, with the status of HTTP."""

    status: int
    text: str


def answer(name: str, raw: bytes) -> Answer:
    """Answer a call; its errors are answers, too.

    >>> answer("parse", b'{"input": "hi", "role": 1}').status
    422
    """
    try:
        return Answer(200, json_text(CALLS[name].work(read_body(CALLS[name].body, _parsed(raw)))))
    except HarmonyError as error:
        problem = InspectorError.of(error)
        return Answer(problem.status, json_text(problem.body()))


class Settings(TypedDict):
    """The abilities of the page: with a grammar, and with a model, which may need a key."""

    version: str
    grammar: bool
    live: bool
    needs_key: bool
    model: str | None


def settings(model: str | None = None, *, needs_key: bool = False) -> Settings:
    """Describe this installation, and the model of the same server."""
    return {
        "version": VERSION,
        "grammar": _has_grammar(),
        "live": model is not None,
        "needs_key": needs_key,
        "model": model,
    }


def json_text(content: Mapping[str, Any]) -> str:
    r"""Write JSON in ASCII, because texts may contain lone surrogates.

    >>> json_text({"text": chr(0xD83D)})
    '{"text":"\\ud83d"}'
    """
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def _has_grammar() -> bool:
    return find_spec("llguidance") is not None


def _parsed(raw: bytes) -> Any:
    if len(raw) > MAX_BYTES:
        raise InspectorError(413, f"the request is larger than {MAX_BYTES:,} bytes; send less")
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MAX_VALUES:
        # No other thread runs while Python reads them: not in a second, where there are millions.
        raise InspectorError(413, f"the request holds more than {MAX_VALUES:,} values; send less")
    try:
        return strict_json(raw.decode())
    except RecursionError:
        raise InspectorError(400, "the JSON is nested too deeply to be read; flatten it") from None
    except ValueError as error:  # not UTF-8, not JSON, or a number of too many digits
        raise InspectorError(400, f"the body is no JSON: {error}") from error
