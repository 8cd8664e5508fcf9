"""Build `src/gpt_oss_harmony/data/o200k_base.vocab` from the official `o200k_base.tiktoken`.

    python scripts/build_vocabulary.py PATH/TO/o200k_base.tiktoken

The official file is checked by its published SHA-256. The result has the sizes of its blocks (four
bytes each, the lowest first) and the blocks, each a zlib stream for 8,192 tokens in the order of
their ids: their lengths (one byte each), then their bytes. The SHA-256 of the file is printed, to
be pinned in `gpt_oss_harmony/tokens/vocabulary.py`.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zlib
from pathlib import Path

OFFICIAL_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
BLOCK = 8192
TARGET = Path(__file__).parent.parent / "src/gpt_oss_harmony/data/o200k_base.vocab"


def pack(official: bytes) -> bytes:
    """Turn the official file (``base64 rank`` lines) into ours."""
    found = hashlib.sha256(official).hexdigest()
    if found != OFFICIAL_SHA256:
        raise SystemExit(f"not the official o200k_base.tiktoken: its SHA-256 is {found}")
    rows = [line.split() for line in official.splitlines()]
    if [int(rank) for _, rank in rows] != list(range(len(rows))):
        raise SystemExit("the ranks do not run from 0 without a gap")
    tokens = [base64.b64decode(text) for text, _ in rows]
    blocks = [_pack_block(tokens[at : at + BLOCK]) for at in range(0, len(tokens), BLOCK)]
    return b"".join([*(len(block).to_bytes(4, "little") for block in blocks), *blocks])


def _pack_block(tokens: list[bytes]) -> bytes:
    packer = zlib.compressobj(9)
    lengths = packer.compress(bytes(map(len, tokens)))
    # Lengths and text get a code of their own each: 20 kB less.
    return (
        lengths
        + packer.flush(zlib.Z_SYNC_FLUSH)
        + packer.compress(b"".join(tokens))
        + packer.flush()
    )


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    packed = pack(Path(sys.argv[1]).read_bytes())
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(packed)
    print(f"{TARGET}: {len(packed):,} bytes, SHA-256 {hashlib.sha256(packed).hexdigest()}")


if __name__ == "__main__":
    main()
