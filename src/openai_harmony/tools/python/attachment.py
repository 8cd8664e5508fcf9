"""A file that belongs to a notebook's output: an image it showed, or a file it wrote."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass, field

__all__ = ["Attachment", "is_plain_path"]

_LONGEST_PATH = 1024  # bytes


@dataclass(frozen=True)
class Attachment:
    """A file: its name (a path below ``/mnt/data``, or one made for an image), bytes and type.

    >>> Attachment.of_file("tables/sales.csv", b"a,b").mime_type
    'text/csv'
    """

    name: str
    data: bytes = field(repr=False)
    mime_type: str

    @classmethod
    def of_file(cls, name: str, data: bytes) -> Attachment:
        """Make an attachment of a file, whose type its name tells."""
        kind, encoding = mimetypes.guess_type(name, strict=True)
        if kind is None or encoding is not None:
            kind = "application/octet-stream"
        return cls(name, data, kind)


def is_plain_path(path: str) -> bool:
    """Whether a path names a file below a folder, for people and on every system.

    >>> [is_plain_path(path) for path in ("a/b.txt", "../a", "/etc/passwd", "a//b", "a\\\\b")]
    [True, False, False, False, False]
    """
    if not path.isprintable() or "\\" in path:  # lone surrogates are not printable either
        return False
    if len(path.encode("utf-8")) > _LONGEST_PATH:
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))
