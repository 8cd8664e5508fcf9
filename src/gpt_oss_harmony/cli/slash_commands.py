"""The commands of a chat, which begin with a slash. `ChatConversation` runs them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..conversation.content import ReasoningEffort
from ..errors import did_you_mean
from .input import InputError

SlashCommands = Mapping[str, Sequence[str]]
"""The commands of a chat, such as ``/effort``, with the values of their argument."""

_EFFORTS = tuple(effort.value.lower() for effort in ReasoningEffort)

SLASH_COMMANDS: SlashCommands = {
    "/effort": _EFFORTS,
    "/again": (),
    "/new": (),
    "/history": (),
    "/save": (),
    "/help": (),
    "/quit": (),
    "/clear": (),
    "/exit": (),
}

HELP = f"""\
/effort {"|".join(_EFFORTS):17} how much the model reasons
/effort                   show how much it reasons now
/again                    answer the last question anew
/new, /clear              forget the conversation
/history                  show the conversation
/save FILE                write the conversation as JSON, which 'harmony render' reads
/help                     show this text
/quit, /exit              end the chat; Ctrl-D ends it, too

A question may have several lines, if \"\"\" stands before and after them.
Ctrl-C stops an answer."""

WITHOUT_SLASH = {
    "exit": "/quit or Ctrl-D ends the chat",
    "quit": "/quit or Ctrl-D ends the chat",
    "help": "/help shows the commands",
}
"""What people type for a command, and might ask a model, with what they are told."""

END_TURN = ("/again", "/new", "/quit")
"""After these, an open turn cannot go on."""

_OTHER_NAMES = {"/clear": "/new", "/exit": "/quit", "/?": "/help"}
_TAKE_ARGUMENT = {"/effort", "/save"}
_WORD = re.compile(r"/([a-z]*|\?)", re.ASCII | re.IGNORECASE)


def read_command(text: str) -> tuple[str, str] | None:
    """Read a line as the name of a command and its argument; None for a question.

    Raises `InputError` for an unknown command, and for an argument of one that takes none.

    >>> read_command("/save chat.json"), read_command("/CLEAR"), read_command("What is 2 / 3?")
    (('/save', 'chat.json'), ('/new', ''), None)
    """
    written, _, argument = text.partition(" ")
    if _WORD.fullmatch(written) is None or "\n" in text:
        return None
    word = written.lower()
    name = _OTHER_NAMES.get(word, word)
    if name not in SLASH_COMMANDS:
        begun = [one for one in SLASH_COMMANDS if one.startswith(word)]
        meant = begun[0] if len(begun) == 1 else word
        remedy = did_you_mean(meant, SLASH_COMMANDS, "/help shows all commands")
        raise InputError(f"there is no command {word}; {remedy}")
    if argument and name not in _TAKE_ARGUMENT:
        raise InputError(f"{word} takes no argument; write {word} alone")
    return name, argument.strip()


def effort_named(name: str) -> ReasoningEffort:
    """Return the effort with that name; raises `InputError`, which lists the names."""
    if name.lower() not in _EFFORTS:
        raise InputError(f"the effort is one of {', '.join(_EFFORTS)}, not {name!r}")
    return ReasoningEffort(name.capitalize())
