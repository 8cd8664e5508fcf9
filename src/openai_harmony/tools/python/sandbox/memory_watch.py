"""How much memory the processes of a sandbox use together, from what Linux tells of them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["process_tree", "used_memory"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


def process_tree(process: int) -> list[int]:
    """Return a process and all that come from it; in a namespace, orphans do, too.

    >>> process_tree(os.getpid())[0] == os.getpid()
    True
    """
    found = [process]
    for parent in found:  # which grows
        for task in _names(f"/proc/{parent}/task"):
            children = _text(f"/proc/{parent}/task/{task}/children")
            found += map(int, children.split())
    return found


def used_memory(process: int, enough: int) -> int:
    """Return the bytes that a process and all that come from it use.

    Pages that several share are counted for each, unless that gives more than `enough` bytes: then
    it is worth the time to count them once.
    """
    tree = process_tree(process)
    used = sum(_resident(member) for member in tree)
    return used if used <= enough else sum(_proportional(member) for member in tree)


def _resident(process: int) -> int:
    fields = _text(f"/proc/{process}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _proportional(process: int) -> int:
    for line in _text(f"/proc/{process}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(process)  # another user's


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # it has ended
        return []


def _text(file: str) -> str:
    try:
        return Path(file).read_text("ascii")
    except (OSError, ValueError):
        return ""
