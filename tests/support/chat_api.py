"""A server of the Chat Completions API over a real socket, which answers from a script."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Script", "ScriptedApi", "called", "said", "serving"]


@dataclass
class Script:
    """One answer: events, or a body with a status. `ending` is what happens after the events."""

    events: list[Any] = field(default_factory=list)
    status: int = 200
    body: bytes | None = None
    kind: str = "application/json"
    ending: str = "done"  # or: end, vanish, hang; interrupt, which is Ctrl-C and then hangs


def said(*deltas: dict[str, Any], finish: str | None = "stop") -> list[Any]:
    """Write deltas as the events of a stream."""
    chunks = [chunk({"role": "assistant", "content": None}), *map(chunk, deltas)]
    return [*chunks, chunk({}, finish)] if finish else chunks


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}


def called(at: int, call_id: str, name: str, *arguments: str) -> list[dict[str, Any]]:
    """Write a call as deltas: the name first, then its arguments piece by piece."""
    first = {"index": at, "id": call_id, "type": "function"}
    return [
        {"tool_calls": [{**first, "function": {"name": name, "arguments": ""}}]},
        *({"tool_calls": [{"index": at, "function": {"arguments": piece}}]} for piece in arguments),
    ]


class ScriptedApi:
    """What the server says and was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.models: list[str] = ["script"]
        self.listing: tuple[int, bytes] | None = None  # in the place of the list of models
        self.key: str | None = None
        self.scripts: list[Script] = []
        self.unknown: list[str] = []
        self.tried: list[str] = []  # models that are not listed
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.gone = threading.Event()  # the client has closed a connection that hung

    def says(self, *deltas: dict[str, Any], finish: str | None = "stop", **more: Any) -> None:
        """Let the next answer be these deltas."""
        self.scripts.append(Script(said(*deltas, finish=finish), **more))

    @property
    def messages(self) -> list[list[dict[str, Any]]]:
        """The messages of all requests."""
        return [body["messages"] for body in self.bodies]


@contextlib.contextmanager
def serving() -> Iterator[ScriptedApi]:
    """Run a server on a free port."""
    api = ScriptedApi()

    class Handler(_Handler):
        script = api

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: ScriptedApi

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self._refuses():
            return
        if self.script.listing is not None:
            self._send(*self.script.listing)
        elif self.path == "/v1/models":
            listed = [{"id": name, "object": "model"} for name in self.script.models]
            self._send(200, json.dumps({"object": "list", "data": listed}).encode())
        else:
            self._send(404, b'{"detail":"Not Found"}')

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.script.keys.append(self.headers["Authorization"])
        if self._refuses():
            return
        assert self.path == "/v1/chat/completions"
        if body.get("max_tokens") == 1:  # is there such a model?
            self.script.tried.append(body["model"])
            has_model = body["model"] not in self.script.unknown
            self._send(200, b"{}") if has_model else self._send(404, b'{"detail": "no such model"}')
            return
        self.script.bodies.append(body)
        script = self.script.scripts.pop(0)
        if script.body is not None:
            self._send(script.status, script.body, script.kind)
        else:
            with contextlib.suppress(ConnectionError):
                self._stream(script)

    def _refuses(self) -> bool:
        if self.script.key and self.headers["Authorization"] != f"Bearer {self.script.key}":
            self._send(401, b'{"error": {"message": "no such key", "code": "invalid_api_key"}}')
            return True
        return False

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, script: Script) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in script.events:
            data = event if isinstance(event, bytes) else json.dumps(event).encode()
            self._chunk(b"data: " + data + b"\n\n")
        if script.ending == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        if script.ending in ("interrupt", "hang"):
            assert self.rfile.read(1) == b""
            self.script.gone.set()
        elif script.ending != "vanish":
            if script.ending == "done":
                self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()
