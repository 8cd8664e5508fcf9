"""Files that are there wholly or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["whole_file"]


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give another name to write a file under; it gets its own once that went well."""
    under_way = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield under_way
        os.replace(under_way, path)
    finally:
        under_way.unlink(missing_ok=True)
