"""The Responses API over a WebSocket, as a client speaks it."""

from __future__ import annotations

from typing import Any

from starlette.testclient import WebSocketTestSession

from support.responses_server import checked_response

PATH = "/v1/responses"
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


def answer(socket: WebSocketTestSession, **body: Any) -> dict[str, Any]:
    """Send a request, and return its response."""
    socket.send_json({"type": "response.create", **body})
    while True:
        event = socket.receive_json()
        if event["type"] in ENDS:
            return checked_response(event["response"])
