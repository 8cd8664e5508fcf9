"""Connections to addresses that were checked: each name is resolved once, and then not again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence

import httpcore2

from ..tool_error import ToolError
from .addresses import AddressRules

__all__ = ["PinnedNetwork", "Resolve", "resolve"]

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host and a port to its addresses; raises `OSError` where there are none."""

_TRIES = 4  # addresses of a host that are tried


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of a host."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class PinnedNetwork(httpcore2.AsyncNetworkBackend):
    """Resolves each host once, checks every address it has, and connects to one of these.

    One belongs to one fetch, with all its redirects: a host cannot have other addresses later.
    What comes above, TLS with the host's name among it, sees the name alone.
    """

    def __init__(self, rules: AddressRules, resolve: Resolve = resolve) -> None:
        self._rules = rules
        self._resolve = resolve
        self._sockets = httpcore2.AnyIOBackend()
        self._found: dict[str, Sequence[str]] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a host; raises `ToolError` where none of its addresses may be reached."""
        failure: Exception | None = None
        for address in (await self._checked(host, port))[:_TRIES]:
            try:
                return await self._sockets.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise ToolError(f"cannot connect to {host}: {failure or 'it has no address'}")

    async def _checked(self, host: str, port: int) -> Sequence[str]:
        if not self._rules.allows_port(port):
            raise ToolError(f"port {port} of {host} may not be opened")
        if host not in self._found:
            try:
                self._found[host] = await self._resolve(host, port)
            except (OSError, UnicodeError) as error:
                raise ToolError(f"there is no host {host}: {error}") from error
        if not all(map(self._rules.allows, self._found[host])):
            raise ToolError(f"{host} is not on the public Internet, and may not be opened")
        return self._found[host]
