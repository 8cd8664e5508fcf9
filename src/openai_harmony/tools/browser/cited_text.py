"""An answer while the model writes it, with links in the place of its marks."""

from __future__ import annotations

import re
from dataclasses import replace

from .citations import Citation, rewrite_citations
from .session import BrowserSession

__all__ = ["CitedText"]

_BEGUN = re.compile(r"【(?:\d{1,9}(?:†[^【】]{0,200})?)?")


class CitedText:
    """Text piece by piece as `rewrite_citations` would write it as a whole.

    What may be the beginning of a mark is held back, with the spaces before it.

    >>> session = BrowserSession()
    >>> from openai_harmony.tools.browser import Page
    >>> session.show(Page(url="https://example.com/", title="Example", text="One"))
    0
    >>> text = CitedText(session)
    >>> [text.feed(piece) for piece in ("One【0†", "L0", "】.")] + [text.rest()]
    ['One', '', '([example.com](https://example.com/)).', '']
    """

    def __init__(self, session: BrowserSession) -> None:
        self._session = session
        self._held = ""
        self._length = 0
        self.citations: list[Citation] = []
        """Those so far, with the places of their links in the text that was returned."""

    def feed(self, text: str) -> str:
        """Take text; return what the written text grows by."""
        held = self._held + text
        begun = held.rfind("【")
        is_open = begun >= 0 and _BEGUN.fullmatch(held, begun) is not None
        ready = held[: begun if is_open else len(held)].rstrip(" ")
        self._held = held[len(ready) :]
        return self._written(ready)

    def rest(self) -> str:
        """Return what the written text grows by at the end."""
        held, self._held = self._held, ""
        return self._written(held)

    def _written(self, text: str) -> str:
        written, citations = rewrite_citations(text, self._session)
        self.citations += [
            replace(
                citation,
                start_index=citation.start_index + self._length,
                end_index=citation.end_index + self._length,
            )
            for citation in citations
        ]
        self._length += len(written)
        return written
