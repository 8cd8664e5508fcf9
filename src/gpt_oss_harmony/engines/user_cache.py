"""The folder for what can be made again: the demo model, and copies of other programs' weights."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache(cache: Path | None = None) -> Path:
    """Return our folder below `cache`, by default ``XDG_CACHE_HOME`` or the user's cache."""
    if cache is None:
        windows = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None
        below_home = "Library/Caches" if sys.platform == "darwin" else ".cache"
        cache = Path(os.environ.get("XDG_CACHE_HOME") or windows or Path.home() / below_home)
    return cache / "gpt-oss-harmony"
