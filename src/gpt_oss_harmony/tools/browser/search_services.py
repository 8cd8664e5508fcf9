"""Searching by services of the web: Brave Search, Exa, SearXNG and You.com."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any

import anyio
import httpx2

from ..tool import ToolError
from .backends import SearchResult

_SECONDS = 20  # for a whole search
_MOST_BYTES = 8 * 1024 * 1024  # of a response
_EXCERPT = 200  # characters of a response that an error shows
_BRAVE_RESULTS, _BRAVE_CHARACTERS, _BRAVE_WORDS = 20, 400, 50  # the limits of its API
_EXA_HIGHLIGHTS = 600  # characters for each result
_YOU_COM_SNIPPETS = 2  # of each result


class SearchService(ABC):
    """A service at `url`; requests have `headers`, which may contain a key.

    The operator chooses the address, not the model, so it may be in a private network.
    """

    name: str
    """The name of the service in errors."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._client = httpx2.AsyncClient(headers=dict(headers or {}), timeout=_SECONDS)

    @abstractmethod
    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Return the arguments of the request for `httpx2`, with its ``method``."""

    @abstractmethod
    def results(self, response: Any) -> Sequence[SearchResult]:
        """Read a response.

        Raises `LookupError`, `TypeError` or `AttributeError` if it has another shape.
        """

    async def search(
        self, query: str, topn: int, source: str | None = None
    ) -> Sequence[SearchResult]:
        """Return at most `topn` results; raises `ToolError` if the service fails."""
        try:
            with anyio.fail_after(_SECONDS):
                status, body = await self._answer(self.request(query, topn))
            if not 200 <= status < 300:
                reason = body.decode("utf-8", "replace")[:_EXCERPT].strip()
                raise ToolError(
                    f"{self.name} refuses the search ({status}): {reason or 'it gives no reason'}"
                )
            results = self.results(json.loads(body))
            if any(
                not isinstance(value, str)
                for each in results
                for value in vars(each).values()
                if value is not None
            ):
                raise TypeError("not all of a result is text")
            # Services may return more: not all of them take the number of results.
            return [result for result in results if result.url][:topn]
        except TimeoutError as error:
            raise ToolError(
                f"cannot search by {self.name}: it did not answer in {_SECONDS} seconds"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise ToolError(f"cannot search by {self.name}: {why}") from error
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ToolError(f"{self.name} answers with what are no results: {error!r}") from error

    async def _answer(self, request: Mapping[str, Any]) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        body = bytearray()
        async with self._client.stream(url=self._url, **request) as response:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _MOST_BYTES:
                    raise ToolError(f"{self.name} answers with more than {_MOST_BYTES:,} bytes")
        return response.status_code, bytes(body)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def tagless(text: str | None) -> str:
    """Return a summary without the tags by which services mark the words of the query.

    >>> tagless("a <strong>b</strong> &amp; c")
    'a b & c'
    """
    return unescape(re.sub(r"</?\w[^<>]{0,100}>", "", text or ""))


class Brave(SearchService):
    """Brave Search, by its Web Search API with a subscription token."""

    name = "Brave Search"

    def __init__(
        self, api_key: str, url: str = "https://api.search.brave.com/res/v1/web/search"
    ) -> None:
        super().__init__(url, {"X-Subscription-Token": api_key, "Accept": "application/json"})

    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Stay within the limits of the API: 400 characters and 50 words, 20 results."""
        words = " ".join(query.split()[:_BRAVE_WORDS])[:_BRAVE_CHARACTERS]
        params = {"q": words, "count": min(topn, _BRAVE_RESULTS), "text_decorations": "false"}
        return {"method": "GET", "params": params}

    def results(self, response: Any) -> Sequence[SearchResult]:
        """Read the results of the web; a response without them is valid."""
        return [
            SearchResult(
                item["url"],
                tagless(item.get("title")),
                " … ".join(
                    tagless(text)
                    for text in (item.get("description"), *(item.get("extra_snippets") or ())[:2])
                    if text
                ),
            )
            for item in (response.get("web") or {}).get("results") or ()
        ]


class Exa(SearchService):
    """Exa, by its search API with a key; the highlights of a page are its summary."""

    name = "Exa"

    def __init__(self, api_key: str, url: str = "https://api.exa.ai/search") -> None:
        super().__init__(url, {"x-api-key": api_key})

    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Request results with highlights."""
        contents = {"highlights": {"maxCharacters": _EXA_HIGHLIGHTS}}
        return {
            "method": "POST",
            "json": {"query": query, "numResults": topn, "contents": contents},
        }

    def results(self, response: Any) -> Sequence[SearchResult]:
        """Read the results; the first view of a page begins at its first highlight."""
        return [
            SearchResult(
                item["url"],
                item.get("title") or "",
                " … ".join(highlights) or item.get("summary") or "",
                highlights[0] if highlights else None,
            )
            for item in response["results"]
            for highlights in [item.get("highlights") or []]
        ]


class SearXng(SearchService):
    """SearXNG at `url`; its settings must list ``json`` under ``search: formats``."""

    name = "SearXNG"

    def __init__(self, url: str) -> None:
        super().__init__(url.rstrip("/") + "/search")

    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Request JSON; the number of results cannot be chosen."""
        return {"method": "GET", "params": {"q": query, "format": "json"}}

    def results(self, response: Any) -> Sequence[SearchResult]:
        """Read the results of all engines."""
        return [
            SearchResult(item["url"], tagless(item.get("title")), tagless(item.get("content")))
            for item in response["results"]
        ]


class YouCom(SearchService):
    """You.com, by its Search API with a key."""

    name = "You.com"

    def __init__(self, api_key: str, url: str = "https://ydc-index.io/v1/search") -> None:
        super().__init__(url, {"X-API-Key": api_key})

    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Request `topn` results of each kind."""
        return {"method": "GET", "params": {"query": query, "count": topn}}

    def results(self, response: Any) -> Sequence[SearchResult]:
        """Read the results of the web, then those of the news."""
        kinds = response["results"]
        return [
            SearchResult(
                item["url"],
                item.get("title") or "",
                " … ".join((item.get("snippets") or ())[:_YOU_COM_SNIPPETS])
                or item.get("description")
                or "",
            )
            for kind in ("web", "news")
            for item in kinds.get(kind) or ()
        ]
