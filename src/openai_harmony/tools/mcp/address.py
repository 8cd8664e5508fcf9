"""Where a server is: a command that starts it, or its URL."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import urlsplit

__all__ = ["McpAddress"]

_NAMED = re.compile(r"([A-Za-z_]\w*)=(.+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class McpAddress:
    """A server, by either its `url` or the `command` that starts it; `name` is for its namespace.

    Without a `name`, the namespace is called what the server calls itself.
    """

    url: str | None = None
    command: tuple[str, ...] = ()
    name: str | None = None

    @classmethod
    def parse(cls, text: str) -> McpAddress:
        """Read a URL, or a command as a shell splits it, with ``NAME=`` before it or not.

        Raises `ValueError` for what is neither.

        >>> McpAddress.parse("weather=uvx mcp-weather --units 'SI base'")
        McpAddress(url=None, command=('uvx', 'mcp-weather', '--units', 'SI base'), name='weather')
        >>> McpAddress.parse("https://example.com/mcp").url
        'https://example.com/mcp'
        """
        named = _NAMED.fullmatch(text.strip())
        name, place = (named[1], named[2]) if named else (None, text.strip())
        if place.startswith(("http://", "https://")):
            if not urlsplit(place).hostname:
                raise ValueError(f"the URL {place!r} has no host")
            return cls(url=place, name=name)
        try:
            command = tuple(shlex.split(place))
        except ValueError as error:
            raise ValueError(f"the command {place!r} cannot be split: {error}") from error
        if not command:
            raise ValueError("name a command that starts an MCP server, or its URL")
        return cls(command=command, name=name)

    def __str__(self) -> str:
        return self.url or shlex.join(self.command)

    @property
    def short_name(self) -> str:
        """What a server is called that does not say it: its host or its program."""
        if self.url is not None:
            return urlsplit(self.url).hostname or ""
        return PurePath(self.command[0]).stem
