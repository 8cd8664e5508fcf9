"""Documents to pages: bytes of any kind go in, text with numbered links comes out.

::

    characters       bytes to text, without characters that a page must not contain
    links            links and their numbers
    html_layout → html_page     HTML
    body             the kinds of documents: text, JSON, Markdown, PDF, HTML

This package imports nothing of its parents. ``__main__`` runs it in a separate process, which
starts several times faster without them. A hostile document can crash only that process.
"""

from .body import ReadPage, UnreadableError, read_body

__all__ = ["ReadPage", "UnreadableError", "read_body"]
