"""Checks of every request to a server of this library: its origin and its time limits.

::

    origins       the headers Host and Origin: the web pages that may use a server without keys
    connections   HTTP/1.1 with time limits, and requests with one length

Needs Starlette and uvicorn, which the extra ``inspect`` installs.
"""

from .connections import HttpConfig, RequestTimes
from .origins import Refusal, RequestGuard, cors_options, is_loopback, read_host, read_origin

__all__ = [
    "HttpConfig",
    "Refusal",
    "RequestGuard",
    "RequestTimes",
    "cors_options",
    "is_loopback",
    "read_host",
    "read_origin",
]
