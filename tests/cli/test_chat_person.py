"""The person in a chat: keys become questions, Markdown becomes the lines of a terminal."""

from __future__ import annotations

import io
import itertools
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from gpt_oss_harmony.cli import chat, main
from gpt_oss_harmony.cli.chat import find_person
from gpt_oss_harmony.cli.chat_person import Person
from gpt_oss_harmony.cli.chat_terminal import (
    MarkdownBlocks,
    MarkdownWriter,
    SlashCompleter,
    TerminalPerson,
)
from gpt_oss_harmony.cli.command import command_line
from gpt_oss_harmony.cli.input import UsageError
from gpt_oss_harmony.cli.output import Output
from gpt_oss_harmony.cli.slash_commands import SLASH_COMMANDS
from gpt_oss_harmony.installation import requirement
from support.terminals import Terminal

ENTER, ALT_ENTER, LEFT = "\r", "\x1b\r", "\x1b[D"
PASTED = "\x1b[200~one\r\ntwo\nthree\x1b[201~"


@given(
    st.lists(st.text("ab1.,", min_size=1, max_size=9), max_size=30),
    st.lists(st.sampled_from([" ", "  ", "\n", "\n\n"]), min_size=30, max_size=30),
    st.lists(st.integers(0, 300), max_size=40),
    st.integers(12, 40),
)
def test_a_terminal_shows_each_word_whole(
    words: list[str], spaces: list[str], cuts: list[int], width: int
) -> None:
    text = "".join(map("".join, zip(words, spaces, strict=False)))
    screen = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", screen)
        patch.setenv("TERM", "dumb")
        patch.setenv("COLUMNS", str(width))
        writer = Person(Output()).writer("", markdown=False)
        for begin, end in itertools.pairwise([0, *sorted(cuts), len(text)]):
            writer.write(text[begin:end])
        writer.close()
    shown = [
        line[start : start + width]
        for line in screen.getvalue().split("\n")
        for start in range(0, max(len(line), 1), width)
    ]
    assert " ".join(shown).split() == text.split()
    assert screen.getvalue().count("\n") >= text.count("\n") + 1


def test_a_text_without_spaces_does_not_wait() -> None:
    screen = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", screen)
        patch.setenv("TERM", "dumb")
        writer = Person(Output()).writer("", markdown=False)
        writer.write("天気" * 20)
        assert screen.getvalue() == "天気" * 20


@pytest.fixture(scope="module")
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=DummyOutput()):
        yield keyboard


@pytest.mark.parametrize(
    ("keys", "question"),
    [
        (f"hi{ENTER}", "hi"),
        ("hi\n", "hi"),  # Ctrl-J, which other programs send for Enter
        (f"one{ALT_ENTER}two{ENTER}", "one\ntwo"),
        (f"{PASTED}{ENTER}", "one\ntwo\nthree"),
        (f"{PASTED} and more{ENTER}", "one\ntwo\nthree and more"),
        (f'"""one{ENTER}two{ENTER}"""{ENTER}', "one\ntwo"),
        (f'"""{ENTER}one{ENTER}{ENTER}two"""{ENTER}', "one\n\ntwo"),
        (f'"""one"""{ENTER}', "one"),
        (f'""""""{ENTER}', ""),
        (f'say """hi{ENTER}', 'say """hi'),
        (f"hs{LEFT}i{ENTER}", "his"),
        ("\x04", None),
    ],
)
def test_keys(keyboard: PipeInput, keys: str, question: str | None) -> None:
    person = TerminalPerson(Output(), SLASH_COMMANDS, None)
    keyboard.send_text(keys)
    assert person.ask_question() == question


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        ("", []),
        ("/", [*SLASH_COMMANDS]),
        ("/h", ["/history", "/help"]),
        ("/effort ", ["low", "medium", "high"]),
        ("/effort h", ["high"]),
        ("/new ", []),
        ("say /ef", []),
        ("/x", []),
    ],
)
def test_commands_are_completed(text: str, completions: list[str]) -> None:
    made = SlashCompleter(SLASH_COMMANDS).get_completions(Document(text), CompleteEvent())
    assert [completion.text for completion in made] == completions


def test_questions_are_kept_for_the_next_chat(keyboard: PipeInput, tmp_path: Path) -> None:
    history = tmp_path / "chat_history"
    person = TerminalPerson(Output(), SLASH_COMMANDS, history)
    keyboard.send_text(f"one{ALT_ENTER}two{ENTER}three{ENTER}")
    person.ask_question()
    person.ask_question()
    assert list(FileHistory(str(history)).load_history_strings()) == ["three", "one\ntwo"]


def test_commands_are_not_kept_for_the_next_chat(keyboard: PipeInput, tmp_path: Path) -> None:
    history = tmp_path / "chat_history"
    person = TerminalPerson(Output(), SLASH_COMMANDS, history)
    for text in ("/help", "/efort high", "/etc/hosts has what?"):
        keyboard.send_text(f"{text}{ENTER}")
        person.ask_question()
    assert list(FileHistory(str(history)).load_history_strings()) == ["/etc/hosts has what?"]


def test_results_of_functions_are_no_questions(keyboard: PipeInput, tmp_path: Path) -> None:
    history = tmp_path / "chat_history"
    person = TerminalPerson(Output(), SLASH_COMMANDS, history)
    keyboard.send_text(f'12:00{ENTER}"""{ENTER}1{ENTER}2{ENTER}"""{ENTER}')
    assert person.ask_result("functions.now") == "12:00"
    assert person.ask_result("functions.now") == "1\n2"
    assert not history.exists()


def test_ctrl_c_at_a_prompt_raises(keyboard: PipeInput) -> None:
    keyboard.send_text("some\x03")
    with pytest.raises(KeyboardInterrupt):
        TerminalPerson(Output(), SLASH_COMMANDS, None).ask_question()


def at_terminal(monkeypatch: pytest.MonkeyPatch, typed: str = "") -> Terminal:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stdout", screen)
    return screen


def test_only_the_user_can_read_the_history(
    keyboard: PipeInput, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    at_terminal(monkeypatch)
    file = tmp_path / "gpt-oss-harmony" / "chat_history"
    find_person(Output(), SLASH_COMMANDS, keeps_history=False)
    assert not file.exists()
    person = find_person(Output(), SLASH_COMMANDS, keeps_history=True)
    assert isinstance(person, TerminalPerson)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_history_that_cannot_be_kept_is_one_line(
    keyboard: PipeInput,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "gpt-oss-harmony").write_text("a file where the folder would be")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    at_terminal(monkeypatch)
    assert isinstance(find_person(Output(), SLASH_COMMANDS, keeps_history=True), TerminalPerson)
    error = capsys.readouterr().err
    assert error.startswith("questions are not remembered: ")
    assert error.count("\n") == 1


def test_keys_are_not_shown_while_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = []

    class Quiet(Person):
        @contextmanager
        def silent_keyboard(self) -> Iterator[None]:
            silent.append("now")
            yield

    async def load(*_: object) -> None:
        raise UsageError(f"silent {silent[-1]}")

    monkeypatch.setattr(chat, "find_person", lambda output, *_, **__: Quiet(output))
    monkeypatch.setattr(chat, "_backend", load)
    arguments = command_line([chat.CHAT]).parse_args(["chat", "demo"])
    with pytest.raises(UsageError, match="silent now"):
        chat.CHAT.run(arguments)


@pytest.mark.parametrize("missing", ["prompt_toolkit", "rich"])
def test_a_terminal_without_the_extra_has_a_plain_prompt_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    monkeypatch.delitem(sys.modules, "gpt_oss_harmony.cli.chat_terminal")
    for module in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, module, None)
    at_terminal(monkeypatch, 'hi\n"""one\ntwo\n"""\n')
    person = find_person(Output(), SLASH_COMMANDS, keeps_history=False)
    assert type(person) is Person
    error = capsys.readouterr().err
    assert error.endswith(f"pip install {requirement('terminal')}\n")
    assert error.count("\n") == 1
    assert [person.ask_question() for _ in range(3)] == ["hi", "one\ntwo", None]


@pytest.mark.parametrize(
    ("lines", "questions"),
    [
        ("one\ntwo\n", ["one", "two"]),
        ('"""one\n\ntwo"""\nthree\n', ["one\n\ntwo", "three"]),
        ('"""one\ntwo\n', ["one\ntwo"]),
        ('"""\n', [""]),
    ],
)
def test_lines_of_a_pipe(monkeypatch: pytest.MonkeyPatch, lines: str, questions: list[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    person = find_person(Output(), SLASH_COMMANDS, keeps_history=True)
    assert type(person) is Person
    assert [*iter(person.ask_question, None)] == questions


# Answers

ANSWER = """# Sums

Two **terms**
and `a` sum:

- one

  more of it
- two
3 is no item

1) a

2) b
| a | b |
|---|---|
| 1 | 2 |

```python
x = 1

# no heading
```
~~~
a
```
~~~
    indented

> quoted

The end"""

BLOCKS = [
    "# Sums",
    "Two **terms**\nand `a` sum:",
    "- one\n\n  more of it\n- two\n3 is no item\n\n1) a\n\n2) b\n| a | b |\n|---|---|\n| 1 | 2 |",
    "```python\nx = 1\n\n# no heading\n```",
    "~~~\na\n```\n~~~",
    "    indented",
    "> quoted",
    "The end",
]


def pieces(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(ends)]


@given(st.lists(st.integers(0, len(ANSWER))))
def test_blocks_do_not_depend_on_the_pieces(cuts: list[int]) -> None:
    blocks = MarkdownBlocks()
    ended = [block for piece in pieces(ANSWER, cuts) for block in blocks.add(piece)]
    assert [*ended, blocks.close()] == BLOCKS


@given(st.text("#`~-1.) \n>a|*", max_size=60), st.lists(st.integers(0, 60)))
def test_no_line_is_lost(text: str, cuts: list[int]) -> None:
    blocks = MarkdownBlocks()
    ended = [block for piece in pieces(text, cuts) for block in blocks.add(piece)]
    lines = "\n".join([*ended, blocks.close()]).split("\n")
    assert [line for line in lines if line.strip()] == [
        line for line in text.split("\n") if line.strip()
    ]


def shown(text: str, *, coloured: bool = False, height: int = 24, size: int = 4) -> str:
    """Write an answer piece by piece; return the bytes for the terminal."""
    screen = io.StringIO()
    console = Console(
        file=screen,
        force_terminal=True,
        color_system="truecolor" if coloured else None,
        width=40,
        height=height,
        legacy_windows=False,
    )
    writer = MarkdownWriter(console, clock=map(float, itertools.count()).__next__)
    for piece in range(0, len(text), size):
        writer.write(text[piece : piece + size])
    writer.close()
    return screen.getvalue()


def test_markdown_is_laid_out() -> None:
    text = shown("# Sums\n\n**Two** terms:\n\n- one\n- two\n\nAnd\n\n9. a\n10. b", size=1000)
    plain = text.replace("\x1b[?25l", "").replace("\x1b[?25h", "")
    lines = [line.rstrip() for line in plain.splitlines()]
    for line in ("Sums", "Two terms:", " • one", " • two", "  9. a", " 10. b"):
        assert line in lines
    assert "**" not in plain


HOSTILE = [
    "\x1b[2J",
    "\x9b2J",
    "\x1b]8;;http://a.example\x1b\\click\x1b]8;;\x1b\\",
    "&#27;[2J",
    "&#x9b;2J",
    "a&#13;b&#8;&#7;",
    "[link](http://a.example/\x1b[2J)",
    "[link](<http://a.example/&#27;[2J>)",
    "```\x1b[2J\n\x1b[31m\n```",
    "```\n&#27;[2J\n```",
    "| \x1b[2J | b |\n|---|---|\n| 1 | &#27;[2J |",
    "![image](http://a.example/\x1b[2J)",
    "`\x1b[2J`",
    "\x07\x08\x0b\x0c\r",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("size", [1, 1000])
def test_a_model_writes_no_control_codes(text: str, size: int) -> None:
    screen = shown(text, size=size)
    sequences = set(re.findall(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|.)", screen))
    assert sequences <= {"\x1b[?25l", "\x1b[?25h", "\x1b[1A", "\x1b[2K"}
    assert {code for code in screen if not code.isprintable()} <= {"\x1b", "\n", "\r"}


def test_addresses_of_links_are_shown() -> None:
    screen = shown("[harmless](http://a.example)", coloured=True)
    assert "http://a.example" in screen
    assert "]8;" not in screen


def test_no_color_leaves_the_layout() -> None:
    text = "- **one**\n- two"
    assert "\x1b[1m" in shown(text, coloured=True)
    assert "\x1b[1m" not in shown(text)
    assert " • one" in shown(text)


@pytest.mark.parametrize("line", ["- item\n", "word ", "```\n" + "code\n\n" * 5])
def test_a_redraw_costs_at_most_a_screen(line: str) -> None:
    short, long = (len(shown(line * count, height=10, size=20)) for count in (200, 400))
    assert long < 2.2 * short


def test_a_closed_standard_input_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["chat", "demo"]) == 2
    assert "standard input is closed" in capsys.readouterr().err
