"""The log of a server: one line of text or JSON for each record, with the id of its request.

No record contains the text of a request or a model. Requests are logged by their route, and
exceptions by their type and place, because the message of an exception may quote its input.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from .store import StoreError, new_id

_GIVEN_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_QUOTING_NOTHING = (StoreError, OSError)  # their messages name databases, files and addresses
_QUOTING = "mcp"  # a library that logs the data of tool servers


class LoggedRequest(NamedTuple):
    """The ids of a request in the log; the trace's id is empty if there is no trace."""

    id: str
    trace_id: str = ""


CURRENT_REQUEST: ContextVar[LoggedRequest | None] = ContextVar("harmony_request", default=None)
"""The current request; also in tasks that it started, such as a background response."""


ANSWER_IDS: ContextVar[Mapping[str, str]] = ContextVar(
    "harmony_answer_ids", default=MappingProxyType({})
)
"""The ids of the answer that the current task samples, as attributes of its spans."""


def request_id() -> str:
    """Return the id of the current task's request; empty if there is none."""
    request = CURRENT_REQUEST.get()
    return "" if request is None else request.id


def request_id_of(given: str | None) -> str:
    """Return the id that a client or a proxy sent in ``X-Request-Id``, or a new one.

    An id that is not fit for a line of the log is replaced as well.

    >>> request_id_of("7c1f-01"), request_id_of("two words").startswith("req_")
    ('7c1f-01', True)
    """
    return given if given is not None and _GIVEN_ID.fullmatch(given) else new_id("req")


def configure_logs(form: Literal["text", "json"], level: str) -> None:
    """Write the log to standard error; `level` is for this library, others use ``WARNING``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("gpt_oss_harmony").setLevel(level.upper())
    quoting = logging.getLogger(_QUOTING)
    quoting.propagate = False
    quoting.addHandler(logging.NullHandler())  # without one, Python would write them itself


def announce(text: str) -> None:
    """Write a line about the server itself at any level, as plain text or JSON."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _JsonFormatter):
            handler.handle(logging.LogRecord(__name__, logging.INFO, __file__, 0, text, None, None))
            return
    print(text, file=sys.stderr, flush=True)


class _Formatter(logging.Formatter):
    """Writes times in UTC, in the form of RFC 3339."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the fields of a record besides its time, level and message."""
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

    def message_of(self, record: logging.LogRecord) -> str:
        """Return the message; remove the exception from asyncio's, which shows it in full."""
        message = record.getMessage()
        return message.partition("\n")[0] if record.name == "asyncio" else message


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.message_of(record),
            **self.fields(record),
        }
        return json.dumps(line)


class _TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        exception = fields.pop("exception", "")
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        message = self.message_of(record).replace("\n", "\\n")
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {message} {shown}"
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
        # The chain that Python itself would print.
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(lines)
