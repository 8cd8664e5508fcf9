"""The person in a chat: what they type, and how they see an answer.

`chat_terminal` has the person at a terminal. It needs the extra ``terminal``, and is not imported
for a pipe.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from shutil import get_terminal_size
from unicodedata import east_asian_width

from .input import UnreadableError
from .output import Output, Style

_QUOTES = '"""'
_WORD_ENDS = re.compile(r"(?<=\s)")
_LONGEST_WORD = 30


class Writer(ABC):
    """Shows one message while it arrives."""

    @abstractmethod
    def write(self, text: str) -> None:
        """Show more text."""

    @abstractmethod
    def close(self) -> None:
        """Show the rest, and end the line."""


class _PlainWriter(Writer):
    """Shows text as it comes; a terminal's lines break between words.

    So the last word waits until it has ended, unless it is as long as texts without spaces are.
    """

    def __init__(self, output: Output, style: Style) -> None:
        self._output = output
        self._style = style
        self._word = ""
        self._column = 0
        self._width = get_terminal_size().columns if output.is_terminal else 0

    def write(self, text: str) -> None:
        if self._width:
            *ended, self._word = _WORD_ENDS.split(self._word + text)
            if len(self._word) > _LONGEST_WORD:
                ended.append(self._word)
                self._word = ""
            text = "".join(map(self._placed, ended))
        self._output.write(text, self._style)
        self._output.flush()

    def _placed(self, word: str) -> str:
        """Return a word and the space after it, on a new line if this one has no room."""
        begins_line = self._column > 0 and self._column + _columns(word.rstrip()) > self._width
        end = (0 if begins_line else self._column) + _columns(word)
        if end - 1 == self._width and word.endswith(" "):  # no line begins with this space
            word = f"{word[:-1]}\n"
        self._column = 0 if word.endswith("\n") else end % self._width
        return f"\n{word}" if begins_line else word

    def close(self) -> None:
        if self._word:
            self._output.write(self._placed(self._word), self._style)
        self._output.line()
        self._output.flush()


def _columns(text: str) -> int:
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text)


class Person:
    """Types lines, and reads plain text: a pipe, or a terminal without the extra ``terminal``.

    `has_keyboard` is true if Ctrl-C stops an answer and not the program.
    """

    keys_help = ""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.has_keyboard = sys.stdin.isatty()
        self._sees_prompts = self.has_keyboard and output.is_terminal

    def ask_question(self) -> str | None:
        '''Read a question: a line, or lines between ``"""``. None is the end of input.'''
        return self._ask("> ")

    def ask_result(self, function: str) -> str | None:
        """Read the result of a function in the same way."""
        return self._ask(f"result of {function}: ")

    def _ask(self, prompt: str) -> str | None:
        text = self._read(prompt)
        while text is not None and is_open(text):
            line = self._read(". ")
            if line is None:
                break
            text += f"\n{line}"
        return None if text is None else without_quotes(text)

    def writer(self, style: Style, *, markdown: bool) -> Writer:
        """Return the writer of a message; plain text ignores `markdown`."""
        return _PlainWriter(self._output, style)

    def silent_keyboard(self) -> AbstractContextManager[None]:
        """Return a context in which keys are not shown: they would stand inside of an answer."""
        return nullcontext()

    def _read(self, prompt: str) -> str | None:
        try:
            line = input(prompt if self._sees_prompts else "")
            # With another locale than UTF-8, Python represents bytes as surrogates.
            return line.encode("utf-8", "surrogateescape").decode("utf-8")
        except EOFError:
            if self._sees_prompts:
                self._output.line()
            return None
        except (UnicodeDecodeError, UnicodeEncodeError) as error:
            raise UnreadableError(
                f"not UTF-8 (at byte {error.start}); type or pipe UTF-8"
            ) from error


def is_open(text: str) -> bool:
    """Return whether a text has begun with quotes and has no closing ones yet."""
    text = text.strip()
    return text.startswith(_QUOTES) and (len(text) < 2 * len(_QUOTES) or not text.endswith(_QUOTES))


def without_quotes(text: str) -> str:
    """Return a text without its quotes and the line breaks at them; any other text as it is."""
    quoted = text.strip()
    if not quoted.startswith(_QUOTES):
        return text
    return quoted.removeprefix(_QUOTES).removesuffix(_QUOTES).strip("\n")
