"""Names of servers and their tools, as harmony can have them."""

from __future__ import annotations

import re
from collections.abc import Collection
from hashlib import sha256

__all__ = ["harmony_name"]

_LONGEST = 64
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def harmony_name(name: str, taken: Collection[str] = (), *, default: str = "tool") -> str:
    """Return a name of letters, digits and ``_``, at most 64, that is none of those `taken`.

    A name that is one stays as it is. Where another has it, a number follows; a name that is too
    long ends in a part of its hash.

    >>> harmony_name("get-time"), harmony_name("get.time", {"get_time"}), harmony_name("3D plot!")
    ('get_time', 'get_time_2', '_3D_plot')
    """
    clean = name
    if not _PLAIN.fullmatch(name):
        clean = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or default
        if clean[0].isdigit():
            clean = f"_{clean}"
    if len(clean) > _LONGEST:
        end = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        clean = f"{clean[: _LONGEST - 9]}_{end}"
    free, number = clean, 1
    while free in taken:
        number += 1
        end = f"_{number}"
        free = clean[: _LONGEST - len(end)] + end
    return free
