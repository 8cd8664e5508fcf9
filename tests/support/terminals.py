"""Standard streams as a person has them, in this process."""

from __future__ import annotations

import io
import signal

__all__ = ["Terminal", "Watched"]


class Terminal(io.StringIO):
    """A terminal to type on, or to look at."""

    def isatty(self) -> bool:
        return True


class Watched(io.StringIO):
    """What a person looks at, who presses Ctrl-C on seeing a text."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self._texts = texts

    def write(self, text: str) -> int:
        written = super().write(text)
        if text in self._texts:
            signal.raise_signal(signal.SIGINT)
        return written
