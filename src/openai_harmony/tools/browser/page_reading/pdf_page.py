"""PDF: a document's title and the text of its pages."""

from __future__ import annotations

import io
import logging

from .clean_text import clean_line, clean_text

__all__ = ["read_pdf"]

_TITLE_LIMIT = 300  # characters


def read_pdf(body: bytes, limit: int) -> tuple[str, str, bool]:
    """Return the title, the text, and whether it was cut after `limit` characters.

    Raises `ValueError` where there is no text to be had.
    """
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(body))
        title = clean_line((reader.metadata and reader.metadata.title) or "", _TITLE_LIMIT)
        pages, length = list[str](), 0
        for page in reader.pages:
            pages.append(clean_text(page.extract_text()).strip())
            length += len(pages[-1])
            if length > limit:
                break
    except PyPdfError as error:
        raise ValueError(f"the PDF is damaged or encrypted: {error}") from error
    text = "\n\n".join(page for page in pages if page)
    if not text:
        raise ValueError("the PDF has no text; its pages may be pictures")
    return title, text[:limit], length > limit
