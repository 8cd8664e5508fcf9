"""The sockets of commands that serve, and the error of a port that is in use."""

from __future__ import annotations

import errno
import os
import socket

from .input import InputError

_BACKLOG = 2048  # connections that wait to be accepted


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens; raises `InputError` as `bind` does."""
    listener = bind(host, port)
    start_listening(listener)
    return listener


def bind(host: str, port: int) -> socket.socket:
    """Open a socket that has its port, and refuses connections until it listens.

    Raises `InputError` if the port is in use or the host unknown.
    """
    if not 0 <= port <= 65535:
        raise InputError(f"there is no port {port}; choose one up to 65535, or 0 for any")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere, it would take the port of another program
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(f"{host}:{port}", error) from error
    return listener


def start_listening(listener: socket.socket) -> None:
    """Accept connections; raises `InputError` if another program has been faster at the port."""
    try:
        listener.listen(_BACKLOG)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _cannot_listen(f"{host}:{port}", error) from error


def _cannot_listen(address: str, error: OSError) -> InputError:
    number = error.errno or 0  # negative for an unknown host
    problem = os.strerror(number) if number > 0 else error.strerror or str(error)
    is_host = not number > 0 or number == errno.EADDRNOTAVAIL
    return InputError(
        f"cannot listen at {address}: {problem}; choose another {'--host' if is_host else '--port'}"
    )
