"""Names for what the server makes, and for the server itself."""

from __future__ import annotations

import hashlib
import secrets

from .. import __version__
from ..engines.engine import Engine

__all__ = ["new_id", "system_fingerprint"]


def new_id(prefix: str) -> str:
    """Make an id that nobody can guess, such as ``chatcmpl-...`` or ``call_...``."""
    return f"{prefix}{'' if prefix.endswith('-') else '_'}{secrets.token_hex(16)}"


def system_fingerprint(engine: Engine) -> str:
    """Tell apart what may answer the same request differently: the model, and this library."""
    known = f"{engine.model}\n{engine.origin}\n{__version__}"
    return f"fp_{hashlib.sha256(known.encode()).hexdigest()[:10]}"
