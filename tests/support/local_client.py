"""A client of an application in this process, which it asks as a program on this machine does."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

from fastapi.testclient import TestClient
from starlette.testclient import WebSocketTestSession
from starlette.types import ASGIApp

__all__ = ["HOST", "LocalClient"]

HOST = "127.0.0.1:8000"


class LocalClient(TestClient):
    """Asks for loopback addresses; the framework's client asks for a host that does not exist."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        super().__init__(app, base_url=f"http://{HOST}", **options)

    def websocket_connect(self, url: str, *args: Any, **options: Any) -> WebSocketTestSession:
        """Open a WebSocket at a path, or at a URL."""
        return super().websocket_connect(urljoin(f"ws://{HOST}", url), *args, **options)
