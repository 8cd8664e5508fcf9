"""Searching by a service on the web: one request, one JSON answer, one clear error."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any

import httpx2

from ..tool_error import ToolError
from .search_backend import SearchResult

__all__ = ["SearchService", "tagless"]

_SECONDS = 20
_EXCERPT = 200  # characters of an answer that an error shows


class SearchService(ABC):
    """A service at `url`, asked with `headers`, which may hold a key.

    The address is the operator's, not the model's: it may well be in a private network.
    """

    name: str
    """What errors call it."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._client = httpx2.AsyncClient(headers=dict(headers or {}), timeout=_SECONDS)

    @abstractmethod
    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Return how to ask: the arguments of a request by `httpx2`, with its ``method``."""

    @abstractmethod
    def results(self, answer: Any) -> Sequence[SearchResult]:
        """Read an answer.

        Raises `LookupError`, `TypeError` or `AttributeError` where it has another shape.
        """

    async def search(
        self, query: str, topn: int, source: str | None = None
    ) -> Sequence[SearchResult]:
        """Ask for at most `topn` results; raises `ToolError` where the service fails."""
        try:
            response = await self._client.request(url=self._url, **self.request(query, topn))
            if not response.is_success:
                raise ToolError(
                    f"{self.name} refuses the search ({response.status_code}): "
                    f"{response.text[:_EXCERPT].strip() or 'it gives no reason'}"
                )
            return [found for found in self.results(response.json()) if found.url][:topn]
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise ToolError(f"cannot search by {self.name}: {why}") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ToolError(f"{self.name} answers with what are no results: {error!r}") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def tagless(text: str | None) -> str:
    """Return a summary without the tags by which services mark the words they found.

    >>> tagless("a <strong>b</strong> &amp; c")
    'a b & c'
    """
    return unescape(re.sub(r"</?\w[^<>]{0,100}>", "", text or ""))
