"""The conversation of a chat: lines of a person in, answers out, whoever gives them."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable
from dataclasses import replace

from ..conversation.content import ReasoningEffort
from ..conversation.messages import Author, Message, Role
from ..errors import HarmonyError
from .chat_messages import text_of
from .chat_partner import Answer, Opening, Partner
from .chat_tools import ChatTools, shortened
from .event_loop import EventLoop
from .output import Output, Style
from .parse import write_message
from .source import InputError

__all__ = ["ChatConversation", "effort_named"]

_HELP = """\
/effort low|medium|high   how much the model reasons
/new                      forget the conversation
/history                  show it
/help                     show this
/quit                     end; so does Ctrl-D. Ctrl-C stops an answer"""

_STYLES: dict[str, Style] = {"analysis": "marker"}  # reasoning is faint
_TAKEN_BACK = "the question is taken back"


class ChatConversation:
    """One conversation with one person.

    A turn that fails or is stopped is taken back as a whole, unless its answer has begun: that is
    kept as far as it came. So the history always is one that a model can go on from.
    """

    def __init__(self, partner: Partner, opening: Opening, output: Output, loop: EventLoop) -> None:
        self._partner = partner
        self._opening = opening
        self._output = output
        self._loop = loop
        self._person = sys.stdin.isatty()  # types the lines, and Ctrl-C
        self._interactive = self._person and output.is_terminal
        self._messages: list[Message] = []
        self._tools = ChatTools(opening.run_here)
        self._over = False
        self._commands: dict[str, Callable[[str], None]] = {
            "/effort": self._set_effort,
            "/new": lambda _: self._begin_anew(),
            "/history": lambda _: self._show_history(),
            "/help": lambda _: output.line(_HELP, "marker"),
            "/quit": lambda _: self._end(),
        }
        if self._interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 - lets `input` edit lines

    def run(self) -> None:
        """Read lines until the end."""
        while not self._over:
            try:
                line = self._ask("> ")
            except KeyboardInterrupt:
                if not self._person:
                    raise
                self._output.line("\nCtrl-D or /quit ends", "marker")
                continue
            if line is None:
                return
            self._take(line.strip())
            self._output.flush()

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        command = self._commands.get(word)
        if command is not None:
            command(rest.strip())
        elif word.startswith("/"):
            self._output.line(f"there is no command {word}; /help shows them", "repair")
        elif word:
            self._turn(line)

    # Answers

    def _turn(self, question: str) -> None:
        """Let the partner speak, and call functions, until it has answered."""
        before = len(self._messages)
        self._messages.append(Message.from_role_and_content(Role.USER, question))
        try:
            while calls := self._answer():
                for call in calls:
                    self._messages += self._results_of(call)
        except (HarmonyError, KeyboardInterrupt, EOFError) as error:
            if isinstance(error, KeyboardInterrupt) and not self._person:
                raise
            del self._messages[before:]
            self._output.line(f"{_in_a_line(error)} ({_TAKEN_BACK})", "repair")

    def _answer(self) -> list[Message]:
        """Let the partner speak; return the calls that it makes.

        Raises `HarmonyError` or `KeyboardInterrupt` where there is no answer.
        """
        answer = self._partner.answer(self._opening, self._messages)
        problem: BaseException | None = None
        try:
            self._loop.run_until_interrupted(self._show(answer))
        except HarmonyError as error:
            problem = error
        except KeyboardInterrupt as error:
            if not self._person:
                raise
            problem = error
        if problem is None and answer.problem is not None:
            problem = HarmonyError(answer.problem)
        said = answer.messages()
        calls = _calls_at_the_end(said) if problem is None else []
        if not calls and not (said and _is_answer(said[-1])):
            raise problem or HarmonyError("the model gave no answer")
        self._messages += said
        if problem is not None:
            self._output.line(_in_a_line(problem), "repair")
        return calls

    async def _show(self, answer: Answer) -> None:
        shown = -1
        pieces = answer.pieces()
        try:
            async for message, channel, recipient, text in pieces:
                if message != shown:
                    self._begin(recipient, first=shown < 0)
                    shown = message
                self._output.write(text, _STYLES.get(channel, channel))
                self._output.flush()
        finally:
            if shown >= 0:
                self._output.line()
            await pieces.aclose()

    def _begin(self, recipient: str | None, *, first: bool) -> None:
        if not first:
            self._output.line()
        if recipient is not None:
            self._output.line(f"[call of {recipient}]", "title")

    def _results_of(self, call: Message) -> list[Message]:
        """Run the tool that is called, or ask the person; raises `KeyboardInterrupt`."""
        if not self._tools.run(call.recipient):
            return [self._result_of(call)]
        answers = self._loop.run_until_interrupted(self._tools.answers(call))
        for answer in answers:
            self._output.line(shortened(text_of(answer)), "marker")
            for file in self._tools.saved(answer):
                self._output.line(f"[file {file}]", "title")
        self._output.flush()
        return [*answers]

    def _result_of(self, call: Message) -> Message:
        """Ask for the result of a call; raises `EOFError` where there is none."""
        name = call.recipient or ""
        result = self._ask(f"result of {name}: ")
        if result is None:
            raise EOFError(f"no result of {name}")
        answer = Message.from_author_and_content(Author.new(Role.TOOL, name), result)
        return answer.with_recipient("assistant").with_channel(call.channel or "commentary")

    # The person

    def _ask(self, prompt: str) -> str | None:
        """Read a line; None at the end."""
        try:
            line = input(prompt if self._interactive else "")
        except EOFError:
            if self._interactive:
                self._output.line()
            return None
        except UnicodeDecodeError as error:
            raise InputError(f"not UTF-8 (at byte {error.start}); type or pipe UTF-8") from error
        # Where the locale is not UTF-8, Python hides bytes in halves of characters.
        return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def _set_effort(self, name: str) -> None:
        try:
            self._opening = replace(self._opening, effort=effort_named(name))
        except InputError as error:
            self._output.line(str(error), "repair")

    def _begin_anew(self) -> None:
        self._messages.clear()
        self._tools.begin_anew()

    def _show_history(self) -> None:
        for message in self._messages:
            write_message(message, self._output)

    def _end(self) -> None:
        self._over = True


def effort_named(name: str) -> ReasoningEffort:
    """Return the effort of that name; raises `InputError`, which names all of them."""
    known = {effort.value.lower(): effort for effort in ReasoningEffort}
    if name.lower() not in known:
        raise InputError(f"the effort is one of {', '.join(known)}, not {name!r}")
    return known[name.lower()]


def _calls_at_the_end(said: list[Message]) -> list[Message]:
    calls = list(itertools.takewhile(lambda message: message.recipient, reversed(said)))
    return calls[::-1]


def _in_a_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or "stopped"


def _is_answer(message: Message) -> bool:
    return (
        message.recipient is None
        and message.channel != "analysis"
        and bool(text_of(message).strip())
    )
