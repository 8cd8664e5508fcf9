"""The log of a server: a line of text or of JSON for each record, with the request that wrote it.

No record holds what a request or a model said. Requests are logged by their route, and exceptions
by their type and where they were raised: the message of an exception may quote its input.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

from .http.identifiers import new_id
from .store.errors import StoreError

__all__ = [
    "CURRENT_REQUEST",
    "LoggedRequest",
    "announce",
    "configure_logs",
    "request_id",
    "request_id_of",
]

_GIVEN_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_QUOTING_NOTHING = (StoreError, OSError)  # their messages name databases, files and addresses


class LoggedRequest(NamedTuple):
    """The ids of a request in the log; that of its trace is empty where there is none."""

    id: str
    trace_id: str = ""


CURRENT_REQUEST: ContextVar[LoggedRequest | None] = ContextVar("harmony_request", default=None)
"""The request that is answered; also in tasks that it began, such as a response in background."""


def request_id() -> str:
    """Return the id of the request that is answered, or was in this task; empty for none."""
    request = CURRENT_REQUEST.get()
    return "" if request is None else request.id


def request_id_of(given: str | None) -> str:
    """Return the id that a client or a proxy gave in ``X-Request-Id``, or a new one.

    One that could not stand in a line of the log is replaced, too.

    >>> request_id_of("7c1f-01"), request_id_of("two words").startswith("req_")
    ('7c1f-01', True)
    """
    return given if given is not None and _GIVEN_ID.fullmatch(given) else new_id("req")


def configure_logs(form: Literal["text", "json"], level: str) -> None:
    """Write the log to standard error; `level` is that of this library, for others ``WARNING``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("openai_harmony").setLevel(level.upper())


def announce(text: str) -> None:
    """Write a line about the server itself, whatever the level: as it is, or as JSON."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _JsonFormatter):
            handler.handle(logging.LogRecord(__name__, logging.INFO, __file__, 0, text, None, None))
            return
    print(text, file=sys.stderr, flush=True)


class _Formatter(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return what a record says besides its time, level and message."""
        request = CURRENT_REQUEST.get()
        fields: dict[str, Any] = {}
        if request is not None:
            fields["request_id"] = request.id
            if request.trace_id:
                fields["trace_id"] = request.trace_id
        fields.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = _described(record.exc_info[1])
        return fields

    def time_of(self, record: logging.LogRecord) -> str:
        """Return the time in UTC, as RFC 3339 has it."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self.fields(record),
        }
        return json.dumps(line)


class _TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        exception = fields.pop("exception", "")
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        message = record.getMessage().replace("\n", "\\n")
        line = f"{self.time_of(record)} {record.levelname} {record.name}: {message} {shown}"
        return "\n".join(filter(None, (line.rstrip(), exception)))


def _described(error: BaseException) -> str:
    """Write an exception and its causes, without messages that may quote a request."""
    lines: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        kind = f"{type(cause).__module__}.{type(cause).__qualname__}"
        said = f": {cause}" if isinstance(cause, _QUOTING_NOTHING) else ""
        lines.append(f"{kind}{said}")
        for frame in reversed(traceback.extract_tb(cause.__traceback__)):
            lines.append(f"  {frame.name} ({frame.filename}:{frame.lineno})")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(lines)
