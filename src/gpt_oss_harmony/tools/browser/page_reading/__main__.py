"""The process that reads one page: a line of JSON and the body come in, a line of JSON goes out.

The process limits itself first: a page made to be slow or large ends it, and not the server.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from . import UnreadableError, read_body


def main() -> None:
    """Read standard input, write standard output."""
    header, _, body = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(header)
    _limit(request.pop("seconds"), request.pop("memory"))
    response: dict[str, Any]
    try:
        response = {"page": read_body(body, **request).to_json()}
    except UnreadableError as error:
        response = {"error": str(error)}
    except MemoryError:
        response = {"error": "reading the document takes too much memory"}
    sys.stdout.buffer.write(json.dumps(response).encode())


def _limit(seconds: int, memory: int) -> None:
    """Limit the time and the memory of this process, and prevent it from writing files."""
    try:
        import resource
    except ImportError:  # Windows: only the parent's clock limits it
        return
    for kind, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    main()
