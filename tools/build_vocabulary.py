"""Build `src/openai_harmony/data/o200k_base.vocab` from the official `o200k_base.tiktoken`.

    python tools/build_vocabulary.py PATH/TO/o200k_base.tiktoken

The official file is checked by its published SHA-256. The result is one zlib stream of the
token lengths (one byte each, in id order) followed by the tokens' bytes; its own SHA-256 is
printed, to be pinned in `openai_harmony/vocabulary.py`.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zlib
from pathlib import Path

OFFICIAL_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
TARGET = Path(__file__).parent.parent / "src/openai_harmony/data/o200k_base.vocab"


def pack(official: bytes) -> bytes:
    """Turn the official file (``base64 rank`` lines) into lengths followed by token bytes."""
    found = hashlib.sha256(official).hexdigest()
    if found != OFFICIAL_SHA256:
        raise SystemExit(f"not the official o200k_base.tiktoken: its SHA-256 is {found}")
    rows = [line.split() for line in official.splitlines()]
    if [int(rank) for _, rank in rows] != list(range(len(rows))):
        raise SystemExit("the ranks do not run from 0 without a gap")
    tokens = [base64.b64decode(text) for text, _ in rows]
    return bytes(map(len, tokens)) + b"".join(tokens)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    payload = pack(Path(sys.argv[1]).read_bytes())
    packed = zlib.compress(payload, 9)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(packed)
    print(f"{TARGET}: {len(packed):,} bytes")
    print(f"payload SHA-256: {hashlib.sha256(payload).hexdigest()}")


if __name__ == "__main__":
    main()
