"""The conversation of a chat: a person's lines in, the model's answers out; tools run here."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..conversation.json_field import json_problem
from ..conversation.messages import Author, Message, Role
from ..engines import ContextLengthError
from ..errors import HarmonyError
from .chat_backend import Answer, Backend, Opening, opened_conversation
from .chat_person import Person, Writer
from .event_loop import CtrlC, EventLoop
from .input import InputError
from .output import Output, Style, write_message
from .slash_commands import END_TURN, HELP, WITHOUT_SLASH, effort_named, read_command

if TYPE_CHECKING:
    from ..tools.tool import Tool, ToolMessage, ToolSession

_STYLES: dict[str, Style] = {"analysis": "marker"}  # reasoning is faint


class ChatConversation:
    """One conversation with one person.

    A turn that fails or is stopped is removed as a whole, question included. But if the answer has
    begun, its text so far stays. So a model can always continue the history.

    A program behind a pipe reads answers on standard output, and errors on standard error.
    """

    def __init__(
        self,
        backend: Backend,
        opening: Opening,
        person: Person,
        output: Output,
        loop: EventLoop,
        *,
        shows_reasoning: bool = True,
        result_example: str = "",
    ) -> None:
        self._backend = backend
        self._opening = opening
        self._person = person
        self._output = output
        self._loop = loop
        self._ctrl_c = CtrlC()
        self._messages: list[Message] = []
        self._tools = ChatTools(opening.run_here)
        self._shows_reasoning = shows_reasoning
        self._result_example = result_example
        self._failures = 0
        self._over = False
        self._command: str | None = None  # typed where a result was asked for
        self._taken_back: str | None = None  # the last question, if it got no answer

    def run(self) -> None:
        """Read lines until the end; raises `InputError` if a line of a pipe failed."""
        with self._ctrl_c.held() if self._person.has_keyboard else nullcontext():
            self._read_lines()
        if self._failures:
            lines = "1 line" if self._failures == 1 else f"{self._failures} lines"
            raise InputError(f"{lines} of the input failed; see above")

    def _read_lines(self) -> None:
        while not self._over:
            try:
                with self._ctrl_c.expected():
                    question = self._command or self._person.ask_question()
                self._command = None
                if question is None:
                    return
                if question.strip():
                    self._take(question.strip())
                    self._output.flush()
            except KeyboardInterrupt:
                if not self._person.has_keyboard:
                    raise
                self._output.line("\nCtrl-D or /quit ends the chat", "marker")

    def _take(self, text: str) -> None:
        """Run a command, or let the model answer."""
        if text in WITHOUT_SLASH and self._person.has_keyboard:
            self._note(WITHOUT_SLASH[text])
            return
        try:
            command = read_command(text)
        except InputError as error:
            self._complain(str(error))
            return
        if command is None:
            self._turn(text)
        else:
            self._run_command(*command)

    def _run_command(self, name: str, argument: str) -> None:
        match name:
            case "/effort":
                self._set_effort(argument)
            case "/new":
                self._messages.clear()
                self._taken_back = None
                self._tools.start_over()
                self._note("a new conversation")
            case "/history":
                self._show_history()
            case "/again":
                self._answer_again()
            case "/save":
                self._save(argument)
            case "/help":
                self._output.note(f"{HELP}{self._person.keys_help}", "marker")
            case "/quit":
                self._over = True

    def _set_effort(self, name: str) -> None:
        """Set the effort, or without a name show it."""
        try:
            if name:
                self._opening = replace(self._opening, effort=effort_named(name))
        except InputError as error:
            self._complain(str(error))
            return
        effort = self._opening.effort
        self._note(f"effort: {effort.value.lower() if effort else self._backend.default_effort}")

    def _show_history(self) -> None:
        if not self._messages:
            self._note("nothing has been said yet")
        with self._ctrl_c.expected():
            for message in self._messages:
                write_message(message, self._output, fold=True)

    def _answer_again(self) -> None:
        """Answer the last question anew; if that fails, keep the earlier answer."""
        if self._taken_back is not None:
            self._turn(self._taken_back)
            return
        questions = [i for i, m in enumerate(self._messages) if m.author.role is Role.USER]
        if not questions:
            self._complain("there is no question yet")
            return
        earlier = self._messages[questions[-1] :]
        del self._messages[questions[-1] :]
        self._turn(earlier[0].text, is_again=True)
        if len(self._messages) == questions[-1]:
            self._messages += earlier

    def _save(self, name: str) -> None:
        """Write the conversation to a new file, whose name may stand in quotes."""
        if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
            name = name[1:-1]
        if not name or name.endswith(("/", os.sep)):
            self._complain("name a new file, such as /save chat.json")
            return
        text = opened_conversation(self._opening, self._messages).to_json() + "\n"
        problem = None
        try:
            path = Path(name).expanduser()
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            problem = error.strerror
        except RuntimeError:  # ~user, and there is no such user
            problem = "there is no such home folder"
        except ValueError:  # a null character
            problem = "this cannot be the name of a file"
        if problem is not None:
            self._complain(f"{name}: {problem}; name a new file")
            return
        command = f"harmony render {shlex.quote(str(path))}"
        self._note(f"saved; {command} shows it as the model reads it")

    def _note(self, text: str) -> None:
        """Confirm a command to a person; a pipe has answers alone."""
        if self._person.has_keyboard:
            self._output.note(text, "marker")

    def _complain(self, problem: str) -> None:
        """Show a problem to a person, or write it to standard error for a program."""
        if self._person.has_keyboard:
            self._output.note(problem, "repair")
            return
        self._output.flush()
        self._failures += 1
        print(f"harmony: error: {Output.printable(problem)}", file=sys.stderr, flush=True)

    # Answers

    def _turn(self, question: str, *, is_again: bool = False) -> None:
        """Let the model answer and call tools, until its answer is complete."""
        before = len(self._messages)
        self._taken_back = None
        self._messages.append(Message.from_role_and_content(Role.USER, question))
        try:
            with self._person.silent_keyboard():
                while calls := self._answer():
                    for call in calls:
                        self._messages += self._results_of(call)
        except (HarmonyError, KeyboardInterrupt, EOFError) as error:
            if isinstance(error, KeyboardInterrupt) and not self._person.has_keyboard:
                raise
            had_result = any(one.author.role is Role.TOOL for one in self._messages[before:])
            del self._messages[before:]
            outcome = "the earlier answer stays"
            if not is_again:
                self._taken_back, outcome = question, "the question is taken back"
            if self._command == "/again" and not is_again:
                self._command, outcome = question, "the question is asked anew"
            remedy = "; /new forgets it" if isinstance(error, ContextLengthError) else ""
            self._complain(f"{_in_a_line(error)}{remedy} ({outcome})")
            if had_result and self._result_example:
                self._note(f"this model knows results such as {self._result_example}")
        if self._output.is_terminal:
            self._output.line()  # before the next question

    def _answer(self) -> list[Message]:
        """Show the model's answer; return the calls at its end.

        Raises `HarmonyError` or `KeyboardInterrupt` if there is no answer.
        """
        answer = self._backend.answer(self._opening, self._messages)
        problem: BaseException | None = None
        try:
            self._loop.run_until_interrupted(self._show(answer))
        except HarmonyError as error:
            problem = error
        except KeyboardInterrupt as error:
            if not self._person.has_keyboard:
                raise
            problem = error
        if problem is None and answer.problem is not None:
            problem = HarmonyError(answer.problem)
        messages = answer.messages()
        calls: list[Message] = []
        if problem is None:
            ending = itertools.takewhile(lambda message: message.recipient, reversed(messages))
            calls = list(ending)[::-1]
        if not calls and not (
            messages
            and messages[-1].recipient is None
            and messages[-1].channel != "analysis"
            and messages[-1].text.strip()
        ):
            raise problem or HarmonyError("the model gave no answer")
        self._messages += messages
        if problem is not None:
            self._complain(_in_a_line(problem))
        return calls

    async def _show(self, answer: Answer) -> None:
        shown = -1
        writer: Writer | None = None
        pieces = answer.pieces()
        try:
            async for message, channel, recipient, text in pieces:
                is_reasoning = recipient is None and channel == "analysis"
                if is_reasoning and not self._shows_reasoning:
                    continue
                if writer is None or message != shown:
                    if writer is not None:
                        writer.close()
                    if self._output.is_terminal:
                        self._output.line()
                    if recipient is not None:
                        self._output.line(f"[call of {recipient}]", "title")
                    has_markdown = recipient is None and not is_reasoning
                    style = _STYLES.get(channel, channel)
                    writer = self._person.writer(style, markdown=has_markdown)
                    if is_reasoning and self._output.is_terminal and not self._output.is_coloured:
                        writer.write("thinking: ")
                    shown = message
                writer.write(text)
        finally:
            if writer is not None:
                writer.close()
            await pieces.aclose()

    def _results_of(self, call: Message) -> list[Message]:
        """Run the called tool, or ask the person for the result.

        Raises `KeyboardInterrupt` and `EOFError`.
        """
        if not self._tools.accept(call.recipient):
            name = call.recipient or ""
            if problem := _broken_json(call.text):
                self._note(f"the arguments are {problem}")
            message = Message.from_author_and_content(
                Author.new(Role.TOOL, name), self._ask_result(name)
            )
            return [message.with_recipient("assistant").with_channel(call.channel or "commentary")]
        results = self._loop.run_until_interrupted(self._tools.results(call))
        for result in results:
            self._output.line(shortened(result.text), "marker")
            for file in self._tools.saved(result):
                self._output.line(f"[file {file}]", "title")
        self._output.flush()
        return [*results]

    def _ask_result(self, function: str) -> str:
        """Ask for the result of a function until there is one; run commands in between.

        Raises `EOFError` at the end of input, and for a command that ends the turn: it comes next.
        """
        example = f", such as {self._result_example}" if self._result_example else ""
        self._note(f"type what the function returns{example}; Ctrl-D takes the question back")
        while True:
            with self._ctrl_c.expected():
                text = self._person.ask_result(function)
            if text is None:
                break
            typed = text.strip()
            if not self._person.has_keyboard:
                return text
            if not typed:
                self._note('an empty line is not sent; "" is an empty result')
                continue
            try:
                command = read_command(typed)
            except InputError as error:
                joint = "" if str(error).endswith("?") else ";"
                self._complain(f'{error}{joint} write it in quotes ("...") to send it')
                continue
            if command is None:
                if typed[0] in "{[" and (problem := _broken_json(typed)):
                    self._note(f"sent as it is, though it is {problem}")
                return text
            if command[0] in END_TURN:
                self._command = typed
                break
            self._run_command(*command)
        raise EOFError(f"no result of {function}")


def _broken_json(text: str) -> str:
    """Say what is wrong with a text as JSON; empty if nothing is."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return json_problem(error)
    return ""


def _in_a_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or "stopped"


_LINES = 8
_CHARACTERS = 600
_CLEANUP = 0.2  # seconds for an interrupted tool to interrupt its own work


class ChatTools:
    """The tools that run here, with their state in the current conversation."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self._tools = tools
        self._sessions: dict[str, ToolSession] = {}
        self._folder: Path | None = None

    def accept(self, recipient: str | None) -> bool:
        """Return whether one of the tools accepts calls to the recipient."""
        return any(tool.accepts(recipient) for tool in self._tools)

    async def results(self, call: Message) -> list[ToolMessage]:
        """Run the called tool; return its messages. Cancelling interrupts the tool."""
        tool = next(tool for tool in self._tools if tool.accepts(call.recipient))
        name = tool.namespace.name
        if name not in self._sessions:
            self._sessions[name] = tool.new_session()
        try:
            return [message async for message in tool.call(call, self._sessions[name])]
        except asyncio.CancelledError:
            # The event loop does not run again before the person's next line.
            await asyncio.sleep(_CLEANUP)
            raise

    def start_over(self) -> None:
        """Forget the conversation."""
        self._sessions.clear()

    def saved(self, result: ToolMessage) -> list[Path]:
        """Write the files attached to a result to a temporary folder, which stays; return them.

        A file replaces an earlier one with the same name.
        """
        files = []
        for attachment in result.attachments:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="harmony-chat-"))
            file = self._folder / attachment.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(attachment.data)
            files.append(file)
        return files


def shortened(text: str) -> str:
    r"""Return the beginning of a text, and the length of the rest.

    >>> shortened("\n".join("abcdefghijkl"))[-16:]
    'h\n[4 lines more]'
    """
    lines = text[:_CHARACTERS].split("\n")
    shown = "\n".join(lines[:_LINES])
    if len(lines) > _LINES:
        return f"{shown}\n[{text.count(chr(10)) + 1 - _LINES:,} lines more]"
    if len(text) > len(shown):
        return f"{shown}\n[{len(text) - len(shown):,} characters more]"
    return shown
