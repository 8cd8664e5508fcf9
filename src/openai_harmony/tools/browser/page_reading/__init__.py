"""Pages as the model reads them: bytes of any kind in, text with numbered links out.

::

    clean_text           characters that may stand in a page
    charset → decoding   bytes to text
    link_list            links and their numbers
    inline_text → html_layout → html_page     HTML
    text_page, pdf_page                        everything else
    body                 which of them it is

This package imports nothing of its parents: ``__main__`` runs it in a process of its own, which
starts several times faster without them, and which hostile pages can only take down alone.
"""

from .body import ReadPage, UnreadableError, read_body

__all__ = ["ReadPage", "UnreadableError", "read_body"]
