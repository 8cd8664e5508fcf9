"""Conversations for the tests of training: a short notation, and a strategy that makes any."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from gpt_oss_harmony import (
    Author,
    Conversation,
    DeveloperContent,
    Message,
    Role,
    SystemContent,
    ToolDescription,
)


def spoken(text: str, channel: str = "final") -> Message:
    return Message.from_role_and_content(Role.ASSISTANT, text).with_channel(channel)


def call(arguments: str = "{}", recipient: str = "functions.f") -> Message:
    channel = "commentary" if recipient.startswith("functions") else "analysis"
    message = spoken(arguments, channel).with_recipient(recipient)
    return message.with_content_type("<|constrain|>json")


def result(text: str = "{}", name: str = "functions.f") -> Message:
    channel = "commentary" if name.startswith("functions") else "analysis"
    author = Author.new(Role.TOOL, name)
    message = Message.from_author_and_content(author, text)
    return message.with_recipient("assistant").with_channel(channel)


def developer(text: str = "Be brief.", *, tools: bool = False) -> Message:
    content = DeveloperContent.new().with_instructions(text)
    if tools:
        content.with_function_tools([ToolDescription.new("f", "A function.")])
    return Message.from_role_and_content(Role.DEVELOPER, content)


SHORT: dict[str, Callable[[], Message]] = {
    "s": lambda: Message.from_role_and_content(Role.SYSTEM, SystemContent.new()),
    "d": developer,
    "t": lambda: developer(tools=True),
    "u": lambda: Message.from_role_and_content(Role.USER, "What is 2 + 2?"),
    "a": lambda: spoken("Simple arithmetic.", "analysis"),
    "p": lambda: spoken("I will look.", "commentary"),
    "c": call,
    "b": lambda: call("print(2 + 2)", "python"),
    "r": result,
    "o": lambda: result("4", "python"),
    "f": lambda: spoken("2 + 2 = 4."),
}
"""A letter for each kind of message."""


def conversation(letters: str) -> Conversation:
    """Make a conversation of a letter for each message."""
    return Conversation.from_messages([SHORT[letter]() for letter in letters if letter != " "])


any_letters = st.text("".join(SHORT), min_size=1, max_size=14)

likely_letters = st.builds(
    lambda opening, turns: opening + "".join(turns),
    st.sampled_from(["", "s", "sd", "st"]),
    st.lists(
        st.sampled_from(["uf", "uaf", "uacraf", "upcrf", "uccrrf", "uabof", "uac", "ua", "ucrcrf"]),
        min_size=1,
        max_size=4,
    ),
)


def _inserted(letters: str, late: list[tuple[int, str]]) -> str:
    for place, letter in late:
        letters = letters[:place] + letter + letters[place:]
    return letters


late_openings = st.builds(
    _inserted,
    likely_letters,
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from("dts")), min_size=1, max_size=3),
)
"""Likely conversations with messages by the system or the developer at any place."""
