"""Citations in an answer: pages of the browser, and files that code has written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..store import ContainerFile

if TYPE_CHECKING:
    from ...tools.browser import BrowserSession

_FILE = re.compile(r"(?:sandbox:)?/mnt/data/([^\s()<>\"'`\]]+)")
_PUNCTUATION = ".,;:!?*"  # at the end of a path, it belongs to the sentence


class FileCiter(Protocol):
    """Lists the citations of files in a text; an answer also cites new files without a mention."""

    def __call__(self, text: str, *, is_answer: bool) -> list[dict[str, Any]]:
        """Return the annotations of a whole text."""
        ...


class CitedAnswer:
    """A text of the model in the form for clients: citations become links with annotations.

    - `pages`: the session of the browser, if there is one.
    - `cite_files`: see `FileCiter`.
    - `keeps_marks`: keep the marks of citations and only annotate them, because JSON must follow
      its schema.
    """

    def __init__(
        self, pages: BrowserSession | None, cite_files: FileCiter, *, keeps_marks: bool = False
    ) -> None:
        self._pages = pages
        self._cite_files = cite_files
        self._emitted: list[str] = []
        self._links = None
        if pages is not None and not keeps_marks:
            from ...tools.browser import CitedText

            self._links = CitedText(pages)

    def feed(self, text: str) -> str:
        """Take text; return the text for clients that is safe to emit."""
        return self._emit(text if self._links is None else self._links.feed(text))

    def rest(self) -> str:
        """Return the rest of the text for clients."""
        return self._emit("" if self._links is None else self._links.rest())

    def annotations(self, *, is_answer: bool) -> list[dict[str, Any]]:
        """List the citations of the finished text, in order."""
        text = "".join(self._emitted)
        citations: list[dict[str, Any]] = []
        if self._links is not None:
            citations += [citation.to_annotation() for citation in self._links.citations]
        elif self._pages is not None and "【" in text:
            from ...tools.browser import find_citations

            pages = find_citations(text, self._pages)
            citations += [citation.to_annotation() for citation in pages]
        citations += self._cite_files(text, is_answer=is_answer)
        return sorted(citations, key=lambda citation: int(citation["start_index"]))

    def _emit(self, text: str) -> str:
        self._emitted.append(text)
        return text


def file_citations(text: str, files: Mapping[str, ContainerFile]) -> Iterator[dict[str, Any]]:
    """List the mentions of files in ``/mnt/data``; `files` are the existing files, by path."""
    for mention in _FILE.finditer(text):
        path = mention[1]
        file = files.get(path) or files.get(path.rstrip(_PUNCTUATION))
        if file is not None:
            end = mention.start(1) + len(file.path)
            yield _file_citation(file, mention.start(), end)


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
