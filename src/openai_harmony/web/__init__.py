"""The checks of every server of this library before its routes: who may ask, and for how long.

::

    origins       the headers Host and Origin: which web pages may use a server without keys
    connections   HTTP/1.1 whose requests must end in time, and have one length

Needs Starlette and uvicorn, which the extra ``inspect`` brings.
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
