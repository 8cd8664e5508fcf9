"""A person at a terminal: questions are edited, and answers laid out as Markdown.

`prompt_toolkit` edits, and `rich` lays out. Control codes of the model never reach the terminal.
"""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Heading, ListItem, Markdown, MarkdownElement
from rich.segment import Segment

from .chat_person import Person, Writer, is_open, without_quotes
from .output import Output, Style
from .slash_commands import SlashCommands

try:
    import termios
except ImportError:  # on Windows
    termios = None  # type: ignore[assignment]


class TerminalPerson(Person):
    """Edits questions of several lines, and reads answers as Markdown.

    Questions are kept in the file `history`.
    """

    keys_help = """
Enter sends, Alt+Enter begins a new line, and pasted lines wait for Enter.
The arrow keys find earlier questions, and Tab completes commands."""

    def __init__(self, output: Output, commands: SlashCommands, history: Path | None) -> None:
        super().__init__(output)
        keys = _key_bindings()
        self._questions: PromptSession[str] = PromptSession(
            history=InMemoryHistory() if history is None else _Questions(str(history)),
            completer=SlashCompleter(commands),
            complete_while_typing=Condition(
                lambda: get_app().current_buffer.document.text_before_cursor.startswith("/")
            ),
            reserve_space_for_menu=len(commands) + 1,
            key_bindings=keys,
            multiline=True,
            prompt_continuation=". ",
        )
        self._results: PromptSession[str] = PromptSession(
            key_bindings=keys, multiline=True, prompt_continuation=". "
        )

    def ask_question(self) -> str | None:
        """Read a question."""
        return self._edit(self._questions, "> ")

    def ask_result(self, function: str) -> str | None:
        """Read the result of a function."""
        return self._edit(self._results, f"result of {function}: ")

    def writer(self, style: Style, *, markdown: bool) -> Writer:
        """Return the writer of a message."""
        if markdown:
            return MarkdownWriter(_console(coloured=self._output.is_coloured))
        return super().writer(style, markdown=False)

    @contextmanager
    def silent_keyboard(self) -> Iterator[None]:
        """Show no keys; what is typed meanwhile is in the next question."""
        if termios is None or not sys.stdin.isatty():
            yield
            return
        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
        silent = [*before]
        # The fourth of its fields has the local modes.
        silent[3] &= ~termios.ECHO
        termios.tcsetattr(keyboard, termios.TCSADRAIN, silent)
        try:
            yield
        finally:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)

    def _edit(self, session: PromptSession[str], prompt: str) -> str | None:
        self._output.flush()
        try:
            return without_quotes(session.prompt(prompt))
        except EOFError:
            return None


class _Questions(FileHistory):
    """Keeps questions for the next chat, and no commands."""

    def store_string(self, string: str) -> None:
        if not re.fullmatch(r"\s*/[a-z]*(\s.*)?", string):
            super().store_string(string)


def _key_bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if is_open(event.current_buffer.text):
            event.current_buffer.insert_text("\n")
        else:
            event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class SlashCompleter(Completer):
    """Completes the commands of a chat, and the values of their arguments."""

    def __init__(self, commands: SlashCommands) -> None:
        self._commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield what the word before the cursor may become."""
        word, space, begun = document.text_before_cursor.partition(" ")
        choices = self._commands.get(word, ()) if space else self._commands
        begun = begun if space else word
        for choice in choices:
            if choice.startswith(begun) and (begun or space):
                yield Completion(choice, start_position=-len(begun))


# Answers as Markdown

_REDRAW_SECONDS = 0.08
_LIST_ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])(\s|$)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_MOST_VISIBLE = 20_000  # characters of an unfinished block; more than any screen has


class MarkdownBlocks:
    r"""Splits Markdown that arrives in pieces into blocks: paragraphs, lists, code, tables.

    The work is linear in the length of the text, whatever the pieces are.

    >>> blocks = MarkdownBlocks()
    >>> list(blocks.add("# Sums\n\n2 + 2\n= 4\n"))
    ['# Sums']
    >>> list(blocks.add("\n```\n1\n\n2\n```\nAnd"))
    ['2 + 2\n= 4', '```\n1\n\n2\n```']
    >>> blocks.unfinished(), blocks.close()
    ('And', 'And')
    """

    def __init__(self) -> None:
        self._lines: list[str] = []  # of the open block
        self._line: deque[str] = deque()  # pieces of the last line
        self._visible = ""
        self._fence = ""  # the marks that close the open code
        self._fence_line = ""
        self._is_list = False
        self._after_blank = False

    def unfinished(self, most: int = _MOST_VISIBLE) -> str:
        """Return the end of the open block, of `most` characters; its code stays code."""
        if len(self._visible) < min(most, _MOST_VISIBLE):
            return self._visible
        end = self._visible[-most:].partition("\n")
        shown = end[2] or end[0]
        return f"{self._fence_line}\n{shown}" if self._fence else shown

    def add(self, text: str) -> Iterator[str]:
        """Add a piece; yield the blocks that it ends."""
        *ended, rest = text.split("\n")
        for part in ended:
            self._line.append(part)
            line = "".join(self._line)
            self._line.clear()
            self._see(f"{part}\n")
            yield from self._take(line)
        if not rest:
            return
        self._line.append(rest)
        self._see(rest)
        line = "".join(self._line) if self._after_blank else ""
        if line.strip() and not (self._fence or self._is_list):
            block = self._end()
            self._see(line)
            if block:
                yield block

    def close(self) -> str:
        """Return the open block, which may be empty."""
        self._lines.append("".join(self._line))
        self._line.clear()
        return self._end()

    def _see(self, text: str) -> None:
        self._visible = (self._visible + text)[-_MOST_VISIBLE:]

    def _take(self, line: str) -> Iterator[str]:
        if self._fence:
            self._lines.append(line)
            mark = line.strip()
            if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
                self._fence = ""
                if not self._is_list:
                    yield self._end()
            return
        if not line.strip():
            self._lines.append(line)
            self._after_blank = True
            return
        is_item, fence = _LIST_ITEM.match(line) is not None, _FENCE.match(line)
        is_heading = _HEADING.match(line) is not None
        goes_on_with_list = self._is_list and (is_item or line.startswith(("  ", "\t")))
        if is_heading or ((self._after_blank or fence) and not goes_on_with_list):
            before = self._end()
            if before:
                yield before
            self._see(f"{line}\n")
        self._lines.append(line)
        self._after_blank = False
        if fence:
            self._fence, self._fence_line = fence[1], line
        elif is_heading:
            yield self._end()
        elif is_item:
            self._is_list = True

    def _end(self) -> str:
        block = "\n".join(self._lines).strip("\n")
        self._lines.clear()
        self._visible = ""
        self._fence = ""
        self._is_list = self._after_blank = False
        return block


class MarkdownWriter(Writer):
    """Shows Markdown: finished blocks once, and the open block below, redrawn as it grows.

    A redraw costs no more than one screen of text.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._blocks = MarkdownBlocks()
        self._drawn = float("-inf")
        self._is_first = True
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def write(self, text: str) -> None:
        """Show more text: blocks that it ends, and the open block if it is time."""
        for block in self._blocks.add(Output.printable(text)):
            self._live.update(self._open_block())
            self._print(block)
            self._drawn = float("-inf")
        if self._clock() - self._drawn >= _REDRAW_SECONDS:
            self._live.update(self._open_block(), refresh=True)
            self._drawn = self._clock()

    def close(self) -> None:
        """Show the open block as the last one."""
        block = self._blocks.close()
        self._live.update("")
        self._live.stop()
        if block:
            self._print(block)

    def _print(self, block: str) -> None:
        self._console.print(_Rendered(block, after_blank=not self._is_first))
        self._is_first = False

    def _open_block(self) -> RenderableType:
        width, height = self._console.size
        text = self._blocks.unfinished(width * height)
        if not text.strip():
            return ""
        return _Rendered(text, after_blank=not self._is_first, most_lines=height - 1)


class _Heading(Heading):
    """Stands at the left, also on the first level."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _ListItem(ListItem):
    """Has a dot after its number."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        width = len(str(last_number)) + 3
        lines = console.render_lines(
            self.elements, options.update(width=options.max_width - width), style=self.style
        )
        style = console.get_style("markdown.item.number", default="none")
        for index, line in enumerate(lines):
            yield Segment(" " * width if index else f"{number}. ".rjust(width), style)
            yield from line
            yield Segment.line()


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "list_item_open": _ListItem,
    }


class _Rendered:
    """A Markdown text as the lines of a terminal; of more than `most_lines`, the last are shown."""

    def __init__(self, text: str, *, after_blank: bool, most_lines: int = sys.maxsize) -> None:
        # A link is shown with its address: hidden addresses would be the model's to choose.
        self._markdown = _Markdown(text, code_theme="ansi_dark", hyperlinks=False)
        self._after_blank = after_blank
        self._most_lines = most_lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._markdown, options.update(height=None), pad=False)
        texts = ["".join(segment.text for segment in line).strip() for line in lines]
        full = [number for number, text in enumerate(texts) if text]
        shown = lines[full[0] : full[-1] + 1] if full else []
        if self._after_blank:
            shown.insert(0, [])
        for line in shown[-self._most_lines :]:
            yield from line
            yield Segment.line()


def _console(*, coloured: bool) -> Console:
    return Console(
        file=sys.stdout,
        force_terminal=True,
        color_system="auto" if coloured else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
