"""Searching: services in the shapes they document, and a real folder."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gpt_oss_harmony.tools.browser import (
    Brave,
    Exa,
    LocalIndex,
    SearchResult,
    SearXng,
    YouCom,
    search_services,
)
from gpt_oss_harmony.tools.browser.search_services import SearchService
from gpt_oss_harmony.tools.tool import ToolError
from support.hostile_pages import Answer, Site, hostile_site, pdf
from support.served import PATIENCE

# Services

SEARXNG = {
    "query": "fox",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://a.example/fox",
            "title": "The fox",
            "content": "A <b>fox</b> &amp; its den",
            "engine": "one",
            "parsed_url": ["https", "a.example", "/fox", "", "", ""],
        },
        {"url": "https://b.example/", "title": "Another", "content": None},
    ],
    "answers": [],
    "suggestions": [],
}
BRAVE = {
    "type": "search",
    "query": {"original": "fox", "more_results_available": True},
    "web": {
        "results": [
            {
                "title": "The <strong>fox</strong>",
                "url": "https://a.example/fox",
                "description": "A fox &amp; its den",
                "extra_snippets": ["They hunt at night."],
            },
            {"title": "Another", "url": "https://b.example/"},
        ]
    },
}
EXA = {
    "requestId": "b5947044c4b78efa9552a7c89b306d95",
    "results": [
        {
            "id": "https://a.example/fox",
            "title": "The fox",
            "url": "https://a.example/fox",
            "highlights": ["A fox & its den", "They hunt at night."],
            "highlightScores": [0.5, 0.4],
        },
        {"id": "https://b.example/", "title": None, "url": "https://b.example/"},
    ],
}
YOU_COM = {
    "results": {
        "web": [
            {
                "url": "https://a.example/fox",
                "title": "The fox",
                "description": "About foxes",
                "snippets": ["A fox & its den", "They hunt at night."],
            }
        ],
        "news": [{"url": "https://b.example/", "title": "Another", "description": "Fox seen"}],
    },
    "metadata": {"query": "fox", "latency": 0.1},
}
FOX = "https://a.example/fox"
DEN = "A fox & its den"
NIGHT = "A fox & its den … They hunt at night."
SERVICES: dict[str, tuple[Callable[[str], SearchService], str, Any, list[SearchResult]]] = {
    "searxng": (
        SearXng,
        "/search",
        SEARXNG,
        [SearchResult(FOX, "The fox", DEN), SearchResult("https://b.example/", "Another", "")],
    ),
    "brave": (
        lambda url: Brave("secret", url + "/brave"),
        "/brave",
        BRAVE,
        [SearchResult(FOX, "The fox", NIGHT), SearchResult("https://b.example/", "Another", "")],
    ),
    "exa": (
        lambda url: Exa("secret", url + "/exa"),
        "/exa",
        EXA,
        [SearchResult(FOX, "The fox", NIGHT, DEN), SearchResult("https://b.example/", "", "")],
    ),
    "you.com": (
        lambda url: YouCom("secret", url + "/you"),
        "/you",
        YOU_COM,
        [
            SearchResult(FOX, "The fox", NIGHT),
            SearchResult("https://b.example/", "Another", "Fox seen"),
        ],
    ),
}


@pytest.fixture
def site() -> Iterator[Site]:
    with hostile_site() as site:
        yield site


def searched(service: SearchService, query: str, topn: int) -> list[SearchResult]:
    async def search() -> list[SearchResult]:
        try:
            return list(await service.search(query, topn))
        finally:
            await service.close()

    return asyncio.run(search())


def serve(site: Site, path: str, answer: Any, status: int = 200) -> None:
    site.answers[path] = Answer(json.dumps(answer).encode(), "application/json", status)


@pytest.mark.parametrize("name", SERVICES)
def test_results_of_services(site: Site, name: str) -> None:
    make, path, answer, results = SERVICES[name]
    serve(site, path, answer)
    assert searched(make(site.root), "fox", 10) == results
    assert searched(make(site.root), "fox", 1) == results[:1]


def test_services_are_asked_as_they_document_it(site: Site) -> None:
    for make, path, answer, _ in SERVICES.values():
        serve(site, path, answer)
        searched(make(site.root), "fox " * 200, 7)
    asked = [(urlsplit(path), headers) for path, headers in site.requests]
    (searxng, _), (brave, brave_headers), (_, exa_headers), (you, you_headers) = asked
    query = ("fox " * 200).strip()
    assert parse_qs(searxng.query)["format"] == ["json"]
    assert parse_qs(brave.query)["q"] == [("fox " * 50).strip()]
    assert parse_qs(brave.query)["count"] == ["7"]
    assert brave_headers["X-Subscription-Token"] == "secret"
    assert json.loads(site.bodies[2])["numResults"] == 7
    assert json.loads(site.bodies[2])["query"].strip() == query
    assert exa_headers["x-api-key"] == "secret"
    assert parse_qs(you.query)["count"] == ["7"]
    assert you_headers["X-API-Key"] == "secret"


WRONG = [{"url": 5, "title": ["a"], "text": "t", "snippets": ["t"]}]
WRONG_TYPES = json.dumps({"results": WRONG, "web": {"results": WRONG}, "hits": WRONG}).encode()


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(b'{"detail": "no key"}', "application/json", 401), r"refuses the search \(401\)"),
        (Answer(b"<html>", "text/html"), "what are no results"),
        (Answer(b"[1]", "application/json"), "what are no results"),
        (Answer(b'{"results": 3, "web": 3}', "application/json"), "what are no results"),
        (Answer(WRONG_TYPES, "application/json"), "what are no results"),
        (Answer(b"[" * 100_000, "application/json"), "what are no results"),
        (Answer(b" " * 9_000_000, "application/json"), "more than 8,388,608 bytes"),
    ],
)
def test_services_that_fail_say_so(site: Site, name: str, answer: Answer, problem: str) -> None:
    make, path, _, _ = SERVICES[name]
    site.answers[path] = answer
    with pytest.raises(ToolError, match=problem):
        searched(make(site.root), "fox", 3)


def test_a_service_that_drips_has_so_many_seconds_for_all(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dripping(*_: Any) -> tuple[int, bytes]:
        await asyncio.sleep(PATIENCE)
        return 200, b"{}"

    monkeypatch.setattr(SearchService, "_answer", dripping)
    monkeypatch.setattr(search_services, "_SECONDS", 0.05)
    with pytest.raises(ToolError, match=r"it did not answer in 0\.05 seconds"):
        searched(SearXng(site.root), "fox", 3)


def test_a_service_that_is_not_there_says_so() -> None:
    with pytest.raises(ToolError, match="cannot search by SearXNG"):
        searched(SearXng("http://127.0.0.1:1"), "fox", 3)


# The local index


class Library:
    """A folder of documents and its index, in memory unless `database` is a file."""

    def __init__(self, folder: Path, database: Path | str = ":memory:") -> None:
        self.folder = folder
        self.index = LocalIndex(folder, database=database, name="Library!")

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def search(self, query: str, topn: int = 10) -> list[SearchResult]:
        return list(asyncio.run(self.index.search(query, topn)))

    def names(self, query: str) -> list[str]:
        return [result.url.removeprefix("doc://library/") for result in self.search(query)]

    def open(self, url: str, *, source: bool = False) -> str:
        return asyncio.run(self.index.open(url, source=source)).text


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "documents"
    folder.mkdir()
    library = Library(folder)
    library.write("fox.md", "# Foxes\n\nThe fox [hunts](night/owl.html) at night.")
    library.write(
        "night/owl.html", "<title>Owls</title><p>Owls hunt mice.</p><a href=../fox.md>x</a>"
    )
    library.write("notes.txt", "A café. Mice everywhere: mice, mice.")
    library.write("paper.pdf", pdf("The experiment about badgers"))
    library.write("日本.txt", "私は日本語を話します。")
    library.index.update()
    yield library
    asyncio.run(library.index.close())


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("foxes", ["fox.md"]),
        ("hunting", ["fox.md", "night/owl.html"]),
        ("MICE", ["notes.txt", "night/owl.html"]),
        ("cafe", ["notes.txt"]),
        ("badger experiments", ["paper.pdf"]),
        ("日本語", ["%E6%97%A5%E6%9C%AC.txt"]),
        ('fox" OR NEAR(', ["fox.md"]),
        ("title:owls", ["night/owl.html"]),
        ("nothing of it", []),
        ("*", []),
        ("\"'()^-:", []),
    ],
)
def test_documents_are_found_by_their_words(library: Library, query: str, names: list[str]) -> None:
    assert sorted(library.names(query)) == sorted(names)


def test_the_best_documents_come_first_and_no_more_than_wanted(library: Library) -> None:
    assert library.names("mice") == ["notes.txt", "night/owl.html"]
    assert len(library.search("mice", 1)) == 1


def test_results_have_a_title_and_a_passage(library: Library) -> None:
    [result] = library.search("foxes")
    assert result.title == "Foxes"
    assert "The fox hunts at night." in result.summary
    assert result.passage is not None
    assert "The fox hunts at night." in result.passage


def test_documents_open_with_links_to_each_other(library: Library) -> None:
    page = asyncio.run(library.index.open("doc://library/night/owl.html"))
    assert page.text == "\nURL: doc://library/night/owl.html\nOwls hunt mice.\n\n【0†x】"
    [link] = page.links
    assert library.open(link.url).endswith("The fox 【0†hunts】 at night.")
    assert library.open(link.url, source=True).endswith("The fox hunts at night.")


@pytest.mark.parametrize(
    "url",
    [
        "doc://library/missing.md",
        "doc://library/../secret.md",
        "doc://library/%2e%2e/secret.md",
        "doc://library//etc/passwd",
        "doc://library/.hidden.md",
        "doc://library/out.md",
        "doc://library/",
        "doc://library",
        "doc://other/fox.md",
        "doc://",
    ],
)
def test_only_what_is_in_the_index_opens(library: Library, url: str) -> None:
    library.write("../secret.md", "# Secret")
    library.write(".hidden.md", "# Secret")
    os.symlink(library.folder.parent / "secret.md", library.folder / "out.md")
    library.index.update()
    assert library.search("secret") == []
    with pytest.raises(ToolError, match="there is no document"):
        library.open(url)


def test_an_update_reads_what_has_changed(library: Library) -> None:
    assert library.index.update() == ([], [], {})
    library.write("fox.md", "# Wolves")
    library.write("new.txt", "hedgehogs")
    (library.folder / "notes.txt").unlink()
    assert library.index.update() == (["fox.md", "new.txt"], ["notes.txt"], {})
    assert library.names("fox") == []
    assert library.names("wolf wolves hedgehog") == ["fox.md", "new.txt"] or library.names(
        "wolf wolves hedgehog"
    ) == ["new.txt", "fox.md"]
    with pytest.raises(ToolError):
        library.open("doc://library/notes.txt")


def test_documents_that_cannot_be_read_are_named(library: Library) -> None:
    library.write("broken.pdf", b"%PDF-1.4 nothing")
    library.write("binary.txt", b"%PDF-1.4 nothing")
    change = library.index.update()
    assert set(change.unreadable) == {"broken.pdf", "binary.txt"}
    assert "damaged" in change.unreadable["broken.pdf"]
    assert library.index.update()[:2] == ([], [])
    with pytest.raises(ToolError, match="damaged"):
        library.open("doc://library/broken.pdf")


def test_an_index_in_a_file_is_kept(library: Library, tmp_path: Path) -> None:
    database = tmp_path / "index.db"
    for added in (5, 0):
        kept = Library(library.folder, database)
        assert len(kept.index.update().added) == added
        assert kept.names("foxes") == ["fox.md"]
        asyncio.run(kept.index.close())


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="there is no folder"):
        LocalIndex(tmp_path / "missing")
