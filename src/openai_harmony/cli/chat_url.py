"""Telling the URL of a server from the other names that a model can have."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["server_url"]

_HOST = re.compile(r"(localhost|[\w.-]+:\d+|\[[\da-fA-F:.]+\](:\d+)?)(/.*)?", re.ASCII)


def server_url(name: str) -> str | None:
    """Return the URL that a name stands for, or None; a host with a port needs no scheme.

    >>> server_url("localhost:8000"), server_url("https://a.example/v1")
    ('http://localhost:8000', 'https://a.example/v1')
    >>> server_url("demo"), server_url("openai/gpt-oss-20b")
    (None, None)
    """
    if name.startswith(("http://", "https://")):
        return name
    if _HOST.fullmatch(name) is None or Path(name).is_dir():
        return None
    return f"http://{name}"
