"""The socket of a server."""

from __future__ import annotations

import os
import socket

from .source import InputError

__all__ = ["listen"]


def listen(host: str, port: int) -> socket.socket:
    """Open a socket; raises `InputError` where the port is occupied or the host unknown.

    Its connections send at once what is written to them.
    """
    if not 0 <= port <= 65535:
        raise InputError(f"there is no port {port}; choose one up to 65535, or 0 for any")
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        number = error.errno or 0  # below 0 for a name that nobody knows
        problem = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise InputError(
            f"cannot listen at {host}:{port}: {problem}; choose another --port"
        ) from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
