"""The built-in tool `browser`: pages as the model was trained to read and cite them.

::

    page_reading/                        documents to text, in a process of its own
    line_wrapping, plain_text → page     a page: text, links, lines
    page → session → citations           what was shown, and what an answer cites of it
    citations → cited_text               an answer with links, while it is written
    page → view, find_in_page            what the model sees
    addresses → pinned_network, content_coding → web_fetch → robots → web_pages
    page → search_backend → search_service → searxng, brave, exa, you_com
    search_backend, page_source → local_index
    all of it → browser

Everything here needs the extra ``tools``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...installation import missing_package

if TYPE_CHECKING:
    from .addresses import AddressRules as AddressRules
    from .brave import Brave as Brave
    from .browser import Browser as Browser
    from .citations import Citation as Citation
    from .citations import find_citations as find_citations
    from .citations import markdown_link as markdown_link
    from .citations import rewrite_citations as rewrite_citations
    from .cited_text import CitedText as CitedText
    from .exa import Exa as Exa
    from .local_index import IndexChange as IndexChange
    from .local_index import LocalIndex as LocalIndex
    from .page import Link as Link
    from .page import Page as Page
    from .page_source import PageSource as PageSource
    from .search_backend import SearchBackend as SearchBackend
    from .search_backend import SearchResult as SearchResult
    from .searxng import SearXng as SearXng
    from .session import BrowserSession as BrowserSession
    from .web_pages import WebLimits as WebLimits
    from .web_pages import WebPages as WebPages
    from .you_com import YouCom as YouCom

_PLACES = {
    "AddressRules": "addresses",
    "Brave": "brave",
    "Browser": "browser",
    "BrowserSession": "session",
    "Citation": "citations",
    "CitedText": "cited_text",
    "Exa": "exa",
    "IndexChange": "local_index",
    "Link": "page",
    "LocalIndex": "local_index",
    "Page": "page",
    "PageSource": "page_source",
    "SearXng": "searxng",
    "SearchBackend": "search_backend",
    "SearchResult": "search_backend",
    "WebLimits": "web_pages",
    "WebPages": "web_pages",
    "YouCom": "you_com",
    "find_citations": "citations",
    "markdown_link": "citations",
    "rewrite_citations": "citations",
}


def __getattr__(name: str) -> Any:
    """Import a part of the browser when it is asked for: the service of a search needs no PDF."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_PLACES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            missing_package("the browser needs", error, "tools"), name=error.name
        ) from error
