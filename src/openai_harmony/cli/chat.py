"""``harmony chat``: talk with a model."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..chat_completions import tool_from_chat
from ..content import DeveloperContent, ReasoningEffort, SystemContent
from ..messages import Author, Conversation, Message, Role
from .command import Command, add_color
from .output import Output
from .sampling import add_sampling, sampling_of
from .source import InputError, read_json

if TYPE_CHECKING:
    from ..engines import Engine, Sampling

__all__ = ["CHAT"]

_HELP = """\
/effort low|medium|high   how much the model reasons
/new                      forget the conversation
/history                  show it
/help                     show this
/quit                     end; so does Ctrl-D. Ctrl-C stops an answer"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default="demo",
        help="demo (the default), a folder, a name on the Hugging Face hub, or a server's URL",
    )
    parser.add_argument("--instructions", metavar="TEXT", help="what the developer asks for")
    parser.add_argument(
        "--tools", metavar="FILE", help="function tools, as JSON; you are asked for their results"
    )
    parser.add_argument(
        "--effort",
        choices=[effort.value.lower() for effort in ReasoningEffort],
        default="medium",
        help="how much the model reasons",
    )
    add_sampling(parser)
    add_color(parser)


def _run(arguments: argparse.Namespace) -> None:
    asyncio.run(_chat(arguments))


async def _chat(arguments: argparse.Namespace) -> None:
    from ..engines import open_engine

    chat = _Chat(arguments)
    print(f"loading {arguments.model} ...", end="", file=sys.stderr, flush=True)
    engine = await open_engine(arguments.model)
    print(f"\r{engine.model}, {engine.context_length:,} tokens. /help helps.", file=sys.stderr)
    async with engine:
        await chat.run(engine, sampling_of(arguments))


class _Chat:
    """One conversation with one person."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._output = Output(arguments.color)
        self._effort = _effort(arguments.effort)
        self._developer = _developer(arguments)
        self._messages: list[Message] = []
        self._over = False
        self._commands: dict[str, Callable[[str], None]] = {
            "/effort": self._set_effort,
            "/new": lambda _: self._messages.clear(),
            "/history": lambda _: self._show_history(),
            "/help": lambda _: self._output.line(_HELP, "marker"),
            "/quit": lambda _: self._end(),
        }

    async def run(self, engine: Engine, sampling: Sampling) -> None:
        """Read lines until the end."""
        while not self._over:
            line = await self._ask("> ")
            if line is None:
                return
            word, _, rest = line.strip().partition(" ")
            command = self._commands.get(word)
            if command is not None:
                command(rest.strip())
            elif word.startswith("/"):
                self._output.line(f"there is no command {word}; /help shows them", "repair")
            elif word:
                self._messages.append(Message.from_role_and_content(Role.USER, line.strip()))
                await self._answer(engine, sampling)
            self._output.flush()

    async def _answer(self, engine: Engine, sampling: Sampling) -> None:
        """Let the model speak, and call tools, until it has answered."""
        while True:
            said = await self._stream(engine, sampling)
            self._messages += said
            call = said[-1] if said else None
            if call is None or call.recipient is None:
                return
            result = await self._ask(f"result of {call.recipient}: ")
            if result is None:
                return
            author = Author.new(Role.TOOL, call.recipient)
            answer = Message.from_author_and_content(author, result).with_recipient("assistant")
            self._messages.append(answer.with_channel(call.channel or "commentary"))

    async def _stream(self, engine: Engine, sampling: Sampling) -> list[Message]:
        from ..engines import EngineError, stream_completion

        shown = -1
        completion = None
        try:
            async for step in stream_completion(engine, self._conversation(), sampling):
                completion = step.completion
                for at, text in step.deltas:
                    if at != shown:
                        self._begin(completion.parser.current_recipient, first=shown < 0)
                        shown = at
                    parser = completion.parser
                    channel = parser.current_channel or parser.messages[at].channel
                    self._output.write(text, channel or "final")
                    self._output.flush()
        except EngineError as error:
            self._output.line(f"\n{error}", "repair")
        except (asyncio.CancelledError, KeyboardInterrupt):
            self._output.line("\nstopped", "repair")
        self._output.line()
        return [] if completion is None else completion.messages

    def _begin(self, recipient: str | None, *, first: bool) -> None:
        if not first:
            self._output.line()
        if recipient is not None:
            self._output.line(f"[call of {recipient}]", "title")

    def _conversation(self) -> Conversation:
        system = SystemContent.new().with_reasoning_effort(self._effort)
        opening = [Message.from_role_and_content(Role.SYSTEM, system)]
        if self._developer != DeveloperContent():
            opening.append(Message.from_role_and_content(Role.DEVELOPER, self._developer))
        return Conversation.from_messages([*opening, *self._messages])

    async def _ask(self, prompt: str) -> str | None:
        """Read a line without keeping the engine waiting; None at the end."""
        try:
            return await asyncio.to_thread(input, prompt if sys.stdin.isatty() else "")
        except EOFError:
            return None

    def _set_effort(self, name: str) -> None:
        try:
            self._effort = _effort(name)
        except InputError as error:
            self._output.line(str(error), "repair")

    def _show_history(self) -> None:
        from .parse import write_message

        for message in self._messages:
            write_message(message, self._output)

    def _end(self) -> None:
        self._over = True


def _effort(name: str) -> ReasoningEffort:
    known = {effort.value.lower(): effort for effort in ReasoningEffort}
    if name.lower() not in known:
        raise InputError(f"the effort is one of {', '.join(known)}, not {name!r}")
    return known[name.lower()]


def _developer(arguments: argparse.Namespace) -> DeveloperContent:
    content = DeveloperContent()
    if arguments.instructions:
        content.with_instructions(arguments.instructions)
    if arguments.tools:
        raw, _ = read_json(str(Path(arguments.tools)))
        listed = raw if isinstance(raw, list) else [raw]
        content.with_function_tools(
            [tool_from_chat(tool, field=f"[{at}]") for at, tool in enumerate(listed)]
        )
    return content


CHAT = Command(
    name="chat",
    summary="talk with a model",
    examples="""\
  harmony chat
  harmony chat openai/gpt-oss-20b --effort high
  harmony chat http://localhost:8000 --tools tools.json
""",
    add_arguments=_add_arguments,
    run=_run,
)
