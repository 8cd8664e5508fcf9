"""What an answer cites: pages of the browser, and files that code has written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...tools.tool import ToolSession
from ..store import ContainerFile

__all__ = ["file_citations", "unnamed_files", "url_citations"]

_FILE = re.compile(r"(?:sandbox:)?/mnt/data/([^\s()<>\"'`\]]+)")
_POINTS = ".,;:!?*"  # at the end of a path they are rather the sentence's


def url_citations(text: str, session: ToolSession | None) -> list[dict[str, Any]]:
    """List the pages that the marks of a text cite; a mark that means no page is none."""
    if session is None or "【" not in text:
        return []
    from ...tools.browser import BrowserSession, find_citations  # there is one, and so its extra

    if not isinstance(session, BrowserSession):
        return []
    return [citation.to_annotation() for citation in find_citations(text, session)]


def file_citations(text: str, files: Mapping[str, ContainerFile]) -> Iterator[dict[str, Any]]:
    """List the mentions of files in ``/mnt/data``; `files` are those there are, by path."""
    for mention in _FILE.finditer(text):
        path = mention[1]
        found = files.get(path) or files.get(path.rstrip(_POINTS))
        if found is not None:
            end = mention.start(1) + len(found.path)
            yield _file_citation(found, mention.start(), end)


def unnamed_files(text: str, files: Iterable[ContainerFile]) -> list[dict[str, Any]]:
    """Cite files that no text mentions, at the end of a text."""
    return [_file_citation(file, len(text), len(text)) for file in files]


def _file_citation(file: ContainerFile, start: int, end: int) -> dict[str, Any]:
    return {
        "type": "container_file_citation",
        "container_id": file.container_id,
        "file_id": file.id,
        "filename": file.path,
        "start_index": start,
        "end_index": end,
    }
