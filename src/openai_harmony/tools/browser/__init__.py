"""The built-in tool `browser`: pages as the model was trained to read and cite them.

::

    page_reading/                        documents to text, in a process of its own
    line_wrapping, plain_text → page     a page: text, links, lines
    page → session → citations           what was shown, and what an answer cites of it
    page → view, find_in_page            what the model sees
    addresses → pinned_network → web_fetch → robots → web_pages
    search_backend → search_service → searxng, brave, exa, you_com
    search_backend, page_source → local_index
    all of it → browser
"""

from .addresses import AddressRules
from .brave import Brave
from .browser import Browser
from .citations import Citation, find_citations, markdown_link, rewrite_citations
from .exa import Exa
from .local_index import IndexChange, LocalIndex
from .page import Link, Page
from .page_source import PageSource
from .search_backend import SearchBackend, SearchResult
from .searxng import SearXng
from .session import BrowserSession
from .web_pages import WebLimits, WebPages
from .you_com import YouCom

__all__ = [
    "AddressRules",
    "Brave",
    "Browser",
    "BrowserSession",
    "Citation",
    "Exa",
    "IndexChange",
    "Link",
    "LocalIndex",
    "Page",
    "PageSource",
    "SearXng",
    "SearchBackend",
    "SearchResult",
    "WebLimits",
    "WebPages",
    "YouCom",
    "find_citations",
    "markdown_link",
    "rewrite_citations",
]
