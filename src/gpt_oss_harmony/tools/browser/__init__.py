"""The built-in tool `browser`: pages as the model was trained to read and cite them.

::

    page_reading     documents to text, in a process of its own
    page             a page: text, links, numbered lines, and the view that the model gets
    citations        the pages and lines that an answer cites
    backends         interfaces: what searches, and what opens pages
    search_services  searching by services of the web
    robots           the rules of a robots.txt
    addresses → web_fetch → web_pages    opening pages of the web
    local_index      searching and opening a folder of documents
    browser          the tool: search, open, find

Everything here needs the extra ``tools``.
"""

from ...installation import needing_extra

with needing_extra("the browser needs", "tools"):
    from .addresses import AddressRules
    from .backends import PageSource, SearchBackend, SearchResult
    from .browser import Browser, BrowserSession
    from .citations import (
        Citation,
        CitedText,
        find_citations,
        markdown_link,
        rewrite_citations,
    )
    from .local_index import IndexChange, LocalIndex
    from .page import Link, Page
    from .search_services import Brave, Exa, SearXng, YouCom
    from .web_pages import WebLimits, WebPages

__all__ = [
    "AddressRules",
    "Brave",
    "Browser",
    "BrowserSession",
    "Citation",
    "CitedText",
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
