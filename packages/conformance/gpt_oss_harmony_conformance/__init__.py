"""Test vectors for the harmony format: ``rules.json``, ``cases/*.json`` and their ``schema.json``.

The files stand in `FOLDER`, and README.md there describes them. `runner` tests an implementation
with them; nothing here imports more than Python's own library.
"""

from pathlib import Path

__all__ = ["FOLDER"]

FOLDER = Path(__file__).parent
