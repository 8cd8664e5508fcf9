"""The way of one streamed request with a declared tool: how many files and functions it meets.

    python scripts/request_walk.py [responses | chat | messages] [--list]

It counts the library's own functions and their calls in all threads, with `sys.setprofile`, for the
third of three equal requests, so that nothing is counted that happens once. The engine is scripted.
A function that goes on after a wait is called again.
"""

from __future__ import annotations

import argparse
import concurrent.futures.thread
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = f"{ROOT / 'src' / 'gpt_oss_harmony'}/"
SAID = (
    "<|channel|>analysis<|message|>Hm, hm.<|end|><|start|>assistant<|channel|>commentary "
    "to=functions.now <|constrain|>json<|message|>{}<|call|>"
)
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
TOOL = {"name": "now", "description": "Tells the time."}
MESSAGES = [{"role": "user", "content": "What time is it?"}]
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "responses": (
        "/v1/responses",
        {
            "input": "What time is it?",
            "tools": [{"type": "function", **TOOL, "parameters": SCHEMA}],
        },
    ),
    "chat": (
        "/v1/chat/completions",
        {
            "messages": MESSAGES,
            "tools": [{"type": "function", "function": {**TOOL, "parameters": SCHEMA}}],
        },
    ),
    "messages": (
        "/v1/messages",
        {"messages": MESSAGES, "tools": [{**TOOL, "input_schema": SCHEMA}], "max_tokens": 100},
    ),
}


def walk(api: str) -> Counter[tuple[str, str]]:
    """Return the files and functions that a request meets, with the number of calls of each."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.responses_server import serving

    met: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            place = code.co_filename.removeprefix(PACKAGE)
            met[place, f"{code.co_name} (line {code.co_firstlineno})"] += 1

    work: Any = concurrent.futures.thread._WorkItem
    run: Callable[[Any], None] = work.run

    def noted_run(item: Any) -> None:
        sys.setprofile(note)
        run(item)

    path, body = REQUESTS[api]
    with serving(*[SAID] * 3) as client:
        for _ in range(2):
            client.post(path, json={**body, "stream": True})
        assert client.portal is not None
        client.portal.call(sys.setprofile, note)
        work.run = noted_run
        text = client.post(path, json={**body, "stream": True}).text
        client.portal.call(sys.setprofile, None)
        work.run = run
    assert "now" in text
    return met


def main() -> None:
    """Print the numbers, and with ``--list`` the functions of each file."""
    parser = argparse.ArgumentParser(description="Count what one streamed request meets")
    parser.add_argument("api", nargs="?", default="responses", choices=REQUESTS)
    parser.add_argument("--list", action="store_true", help="list the functions")
    arguments = parser.parse_args()
    calls = walk(arguments.api)
    for place in ("", "server/"):
        inside = [(file, function) for file, function in calls if file.startswith(place)]
        files, named = {file for file, _ in inside}, [one for one in inside if "<" not in one[1]]
        print(
            f"{arguments.api}, {place or 'all'}: {len(files)} files, {len(inside)} functions, "
            f"{len(named)} without lambdas and comprehensions, "
            f"{sum(calls[one] for one in inside):,} calls"
        )
    for one in sorted(calls) if arguments.list else ():
        file, function = one
        print(f"{calls[one]:4} {file}  {function}")


if __name__ == "__main__":
    main()
