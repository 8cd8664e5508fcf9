"""Count the kit's damaged turns that mlx-openai-server reads, with its own parser and with ours.

    python scripts/users/replaced_parser.py CHECKOUT

It needs `openai-harmony` in the environment, and its vocabulary (TIKTOKEN_ENCODINGS_BASE). The
class that takes the place of the checkout's is the last block of docs/guides/any-server.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpt_oss_harmony import HarmonyError, load_harmony_encoding

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "packages" / "conformance" / "gpt_oss_harmony_conformance" / "cases" / "recovery.json"
GUIDE = ROOT / "docs" / "guides" / "any-server.md"
ENCODING = load_harmony_encoding("HarmonyGptOss")

Read = tuple[str, str, list[tuple[str, str]]]
"""The reasoning, the answer, and the calls of a turn."""


def meant(messages: list[dict[str, Any]]) -> Read:
    """Return what a client is to get of a case's messages."""
    own = [message for message in messages if message["role"] == "assistant"]
    calls = [m for m in own if m.get("recipient") not in (None, "user", "all", "assistant")]
    texts = [message for message in own if message not in calls]
    return (
        "".join(m["content"] for m in texts if m.get("channel") == "analysis"),
        "".join(m["content"] for m in texts if m.get("channel") != "analysis"),
        [(m["recipient"].removeprefix("functions."), m["content"]) for m in calls],
    )


def at_once(parser: Any, text: str) -> Read:
    """Read a whole turn."""
    return _joined([parser.parse(text)])


def by_token(parser: Any, text: str) -> Read:
    """Read a turn as a server's engine yields it."""
    parts = []
    for token in ENCODING.encode(text, allowed_special="all"):
        part, is_over = parser.parse_streaming(ENCODING.decode([token]))
        parts.append(part)
        if is_over:
            break
    parts.append(parser.handle_parse_streaming_end()[0])
    return _joined(parts)


def _joined(parts: list[dict[str, Any] | None]) -> Read:
    known = [part for part in parts if part]
    calls = [call for part in known for call in part["tool_calls"] or ()]
    return (
        "".join(part["reasoning_content"] or "" for part in known),
        "".join(part["content"] or "" for part in known),
        [(call["name"], call["arguments"]) for call in calls],
    )


def score(parser: Callable[[], Any], read: Callable[[Any, str], Read]) -> str:
    """Count the turns that are read as meant, and those that raise."""
    right = failed = 0
    cases = json.loads(KIT.read_text(encoding="utf-8"))["cases"]
    for case in cases:
        try:
            right += read(parser(), case["input"]["text"]) == meant(case["expected"]["messages"])
        except (HarmonyError, RuntimeError, AttributeError, ValueError):
            failed += 1
    return f"{right} of {len(cases)} as meant, {failed} errors"


def main() -> None:
    """Print the four figures."""
    sys.path.insert(0, sys.argv[1])
    from app.parsers.harmony import HarmonyParser  # type: ignore[import-not-found]

    block = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[-1]
    names: dict[str, Any] = {}
    exec(block, names)
    for name, parser in (("theirs", HarmonyParser), ("ours", names["HarmonyParser"])):
        print(f"{name}: at once {score(parser, at_once)}; by token {score(parser, by_token)}")


if __name__ == "__main__":
    main()
