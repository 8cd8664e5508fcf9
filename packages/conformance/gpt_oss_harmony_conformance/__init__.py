"""Test vectors for the harmony format: ``rules.json``, ``cases/*.json`` and their ``schema.json``.

The files stand in `FOLDER`; README.md there describes them.
"""

from pathlib import Path

__all__ = ["FOLDER"]

FOLDER = Path(__file__).parent
