"""A folder of documents, searched and opened without any network."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urldefrag

from ..tool import ToolError
from .backends import SearchResult, document_page
from .page import Page, PlainText
from .page_reading import ReadPage, UnreadableError, read_body

_TYPES = {
    ".htm": "text/html",
    ".html": "text/html",
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
}
_CHARACTERS = 1_000_000  # of a document
_SIZE = 64 << 20  # bytes of a file
_VERSION = 1  # of the tables
_TABLES = """
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL,
        page TEXT, problem TEXT
    );
    CREATE VIRTUAL TABLE words USING fts5 (
        title, text, tokenize = 'porter unicode61 remove_diacritics 2'
    );
"""
# U+001F marks where a snippet was cut: `clean_text` leaves none in a text.
_RANKED = """
    SELECT documents.name, words.title, snippet(words, 1, '', '', '\x1f', 40)
    FROM words JOIN documents ON documents.id = words.rowid
    WHERE words MATCH ? ORDER BY bm25(words, 5.0, 1.0), documents.name LIMIT ?
"""
# The index above reads text in scripts without spaces as one long word.
_LITERAL = """
    SELECT documents.name, words.title,
           substr(words.text, max(1, instr(lower(words.text), ?1) - 60), 240)
    FROM words JOIN documents ON documents.id = words.rowid
    WHERE instr(lower(words.title || ' ' || words.text), ?1) ORDER BY documents.name LIMIT ?2
"""


class IndexChange(NamedTuple):
    """The result of an update; names are paths below the folder."""

    added: list[str]
    removed: list[str]
    unreadable: dict[str, str]
    """The documents without a text, with the reason; also those of earlier updates."""


class LocalIndex:
    """Searches the HTML, Markdown, text and PDF files below a folder, ranked by BM25.

    `database` is the file of the index, which is in memory by default. `name`, by default that of
    the folder, is part of the addresses ``doc://NAME/PATH``. Pages are opened from the index: an
    address cannot reach a document outside of it.
    """

    schemes: Collection[str] = ("doc",)

    def __init__(
        self, folder: Path | str, *, database: Path | str = ":memory:", name: str | None = None
    ) -> None:
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise NotADirectoryError(f"there is no folder {folder} to search in")
        named = self._folder.resolve().name if name is None else name
        self._name = re.sub(r"[^\w-]+", "-", named, flags=re.ASCII).strip("-").lower() or "docs"
        self._lock = threading.Lock()
        # Calls come from the threads of `asyncio.to_thread`; the lock lets one in at a time.
        self._connection = sqlite3.connect(database, check_same_thread=False)
        # Tables of another version can be dropped: `update` makes them again from the folder.
        if self._connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            with self._connection:
                self._connection.executescript(
                    "DROP TABLE IF EXISTS words; DROP TABLE IF EXISTS documents;"
                    f"{_TABLES} PRAGMA user_version = {_VERSION};"
                )

    def update(self) -> IndexChange:
        """Read new and changed files of the folder, and remove deleted ones from the index.

        A file has changed if its size or its time has. Updating may take as long as reading all
        files: in a server, call it by `asyncio.to_thread`.
        """
        with self._lock, self._connection:
            indexed = dict(self._connection.execute("SELECT name, stamp FROM documents"))
            present = dict(self._files())
            removed = sorted(indexed.keys() - present.keys())
            added = sorted(name for name, stamp in present.items() if indexed.get(name) != stamp)
            for name in [*removed, *added]:
                # Words first, because their rows are found by the document's.
                where = "(SELECT id FROM documents WHERE name = ?)"
                self._connection.execute(f"DELETE FROM words WHERE rowid IN {where}", (name,))
                self._connection.execute("DELETE FROM documents WHERE name = ?", (name,))
            for name in added:
                self._add(name, present[name])
            rows = self._connection.execute(
                "SELECT name, problem FROM documents WHERE page IS NULL ORDER BY name"
            )
            return IndexChange(added, removed, dict(rows))

    async def search(
        self, query: str, topn: int, source: str | None = None
    ) -> Sequence[SearchResult]:
        """Return the documents that match best; rare words count more."""
        return await asyncio.to_thread(self._search, query, topn)

    async def open(self, url: str, *, source: bool = False) -> Page:
        """Return a document from the index; its `source` is its text without links."""
        return await asyncio.to_thread(self._open, url, source)

    async def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()

    def _files(self) -> Iterator[tuple[str, str]]:
        """Yield names and stamps, without hidden files and links that lead out of the folder."""
        root = self._folder.resolve()
        for path in sorted(self._folder.rglob("*")):
            below = path.relative_to(self._folder)
            if path.suffix.lower() not in _TYPES or any(part[0] == "." for part in below.parts):
                continue
            if path.is_file() and path.resolve().is_relative_to(root):
                about = path.stat()
                yield below.as_posix(), f"{about.st_size} {about.st_mtime_ns}"

    def _add(self, name: str, stamp: str) -> None:
        page, problem = None, None
        path = self._folder / name
        try:
            if path.stat().st_size > _SIZE:
                raise UnreadableError(f"the file is larger than {_SIZE >> 20} MiB")
            page = read_body(
                path.read_bytes(),
                content_type=_TYPES[path.suffix.lower()],
                address=self._address(name),
                limit=_CHARACTERS,
            )
            page = replace(page, title=page.title or name)
        except (OSError, UnreadableError) as error:
            problem = str(error)
        added = self._connection.execute(
            "INSERT INTO documents (name, stamp, page, problem) VALUES (?, ?, ?, ?)",
            (name, stamp, None if page is None else json.dumps(page.to_json()), problem),
        )
        if page is not None:
            self._connection.execute(
                "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)",
                (added.lastrowid, page.title, PlainText(page.text).text),
            )

    def _address(self, name: str) -> str:
        return f"doc://{self._name}/{quote(name)}"

    def _search(self, query: str, topn: int) -> list[SearchResult]:
        words = re.findall(r"\w+", query)
        rows: list[tuple[str, str, str]] = []
        with self._lock:
            if words:  # quoted, so that nothing in a query is an operator
                match = " OR ".join(f'"{word}"' for word in words)
                rows = self._connection.execute(_RANKED, (match, topn)).fetchall()
            rows = rows or self._connection.execute(_LITERAL, (query.lower(), topn)).fetchall()
        return [
            SearchResult(
                self._address(name),
                title,
                summary=snippet.replace("\x1f", "…"),
                passage=snippet.replace("\x1f", ""),
            )
            for name, title, snippet in rows
        ]

    def _open(self, url: str, source: bool) -> Page:
        try:
            name, _, path = urldefrag(url).url.removeprefix("doc://").partition("/")
        except ValueError as error:  # such as an unfinished IPv6 address
            raise ToolError(f"`{url[:200]}` is not an address: {error}") from error
        with self._lock:
            row = self._connection.execute(
                "SELECT page, problem FROM documents WHERE name = ?", (unquote(path),)
            ).fetchone()
        if row is None or name != self._name:
            raise ToolError(f"there is no document {url[:200]}; find one by `browser.search`")
        if row[0] is None:
            raise ToolError(f"cannot show {url[:200]}: {row[1]}")
        document = ReadPage(**json.loads(row[0]))
        if source:
            document = replace(document, text=PlainText(document.text).text, links=[])
        address = self._address(unquote(path))
        return document_page(address, document, limit=_CHARACTERS, source=source)
