"""An MCP server without a library, so that it can send what no library would: each tool an attack.

`python raw_mcp_server.py` speaks by standard input and output; `serve_http` by HTTP.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MIB = 1 << 20


def _result(content: str, rest: str = "") -> str:
    return f'{{"content":[{content}]{rest}}}'


def _text(text: str) -> str:
    return f'{{"type":"text","text":"{text}"}}'


ATTACKS: dict[str, str] = {
    "parts": _result(",".join([_text("x")] * 300_000)),
    "numbers": _result("", ',"structuredContent":{"a":[' + "1," * 300_000 + "1]}"),
    "images": _result(
        ",".join([f'{{"type":"image","mimeType":"image/png","data":"{"A" * 4 * MIB}"}}'] * 8)
    ),
    "text": _result(_text("x" * 30 * MIB)),
    "deep": _result("", ',"structuredContent":' + '{"a":' * 400 + "1" + "}" * 400),
    "half": _result(_text(r"a\ud83d b \\ud83d \ud83d\ude00")),
    "pair": _result(_text("fine")),
    "odd": _result('{"type":"video"}'),
    "late": _result(_text(f"late, by {os.getpid()}")),
    # By HTTP alone, with a head that is wrong:
    "short": _result(_text("it breaks off")),
    "packed": _result(_text("it says that it is compressed")),
}


def reply(line: bytes) -> bytes | None:
    """Answer one message; the id of a reply comes last, where it is hard to find."""
    request = json.loads(line)
    if "id" not in request:
        return None
    method, name = request["method"], request.get("params", {}).get("name")
    known: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        },
        "tools/list": {
            "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ATTACKS]
        },
    }
    end = f',"jsonrpc":"2.0","id":{json.dumps(request["id"])}}}'
    if name == "late":
        time.sleep(0.2)
    if method == "tools/call":
        return f'{{"result":{ATTACKS[name]}{end}'.encode()
    if method in known:
        return f'{{"result":{json.dumps(known[method])}{end}'.encode()
    return f'{{"error":{{"code":-32601,"message":"unknown"}}{end}'.encode()


@contextmanager
def serve_http(kind: str) -> Iterator[str]:
    """Serve in a thread, with replies of a content type; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = self.rfile.read(int(self.headers["content-length"]))
            text = reply(request)
            if text is not None and kind == "text/event-stream":
                text = b"event: message\r\nid: 1\r\ndata: " + text + b"\r\n\r\n"
            self.send_response(202 if text is None else 200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text or b"")))
            is_short = b'"short"' in request
            if b'"packed"' in request:
                self.send_header("content-encoding", "gzip")
            self.close_connection = is_short
            self.end_headers()
            try:
                self.wfile.write((text or b"")[: -20 if is_short else None])
            except ConnectionError:
                self.close_connection = True

        def do_GET(self) -> None:
            self.send_error(405)

        def do_DELETE(self) -> None:
            self.send_error(405)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    for message in sys.stdin.buffer:
        answer = reply(message)
        if answer is not None:
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()
