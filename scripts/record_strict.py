"""Record what the reference's strict parser makes of the streams in ``tests/data/strict.json``.

    .venv-reference/bin/python scripts/record_strict.py

It runs in the reference's environment, which ``make parity`` makes, and fills in for each stream
(text with special tokens, or token ids) the errors by position, the state before the end of the
tokens, and the messages after it. The streams themselves are written by hand.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("TIKTOKEN_ENCODINGS_BASE", str(ROOT / ".venv-reference"))

from openai_harmony import (  # noqa: E402 - the vocabulary is named first
    HarmonyError,
    Role,
    StreamableParser,
    load_harmony_encoding,
)

STREAMS = ROOT / "tests" / "data" / "strict.json"
ENCODING = load_harmony_encoding("HarmonyGptOss")


def recorded(case: dict[str, Any]) -> dict[str, Any]:
    stream = case["stream"]
    tokens = ENCODING.encode(stream, allowed_special="all") if isinstance(stream, str) else stream
    parser = StreamableParser(ENCODING, Role(case["role"]) if case["role"] else None)
    errors: list[list[Any]] = []
    for position, token in enumerate(tokens):
        try:
            parser.process(token)
        except HarmonyError as error:
            errors.append([position, str(error)])
    state_data = dict(parser.state_data)
    try:
        parser.process_eos()
    except HarmonyError as error:
        errors.append([len(tokens), str(error)])
    messages = [message.to_dict() for message in parser.messages]
    return {**case, "errors": errors, "state_data": state_data, "messages": messages}


def main() -> None:
    cases = json.loads(STREAMS.read_text(encoding="utf-8"))
    lines = [json.dumps(recorded(case), ensure_ascii=False) for case in cases]
    STREAMS.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
