"""One thing to learn: a conversation so far, and what the assistant says next.

Examples with the same opening (the messages by system and developer) are trained side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpt_oss_harmony import Author, Message, ReasoningEffort, Role, ToolDescription

__all__ = ["Example", "Opening", "Turns", "answer", "ask", "call", "reason", "result"]

Turns = list[Message]


@dataclass(frozen=True)
class Opening:
    """What system and developer say, and what follows from it for the answers."""

    messages: Turns
    effort: ReasoningEffort = ReasoningEffort.MEDIUM
    weather: ToolDescription | None = None
    shopping: bool = False
    python: bool = False
    browser: bool = False


@dataclass(frozen=True)
class Example:
    """After `opening` and `turns` the assistant says `completion`."""

    kind: str
    opening: Opening
    turns: Turns
    completion: Turns = field(default_factory=list)


def ask(text: str) -> Message:
    """The user speaks."""
    return Message.from_role_and_content(Role.USER, text)


def reason(text: str | None) -> Turns:
    """The assistant reasons, or not."""
    if text is None:
        return []
    return [Message.from_role_and_content(Role.ASSISTANT, text).with_channel("analysis")]


def answer(text: str) -> Message:
    """The assistant answers."""
    return Message.from_role_and_content(Role.ASSISTANT, text).with_channel("final")


def call(recipient: str, body: str) -> Message:
    """The assistant calls a tool: a function on commentary, a built-in one on analysis."""
    message = Message.from_role_and_content(Role.ASSISTANT, body).with_recipient(recipient)
    if recipient.startswith("functions."):
        return message.with_channel("commentary").with_content_type("<|constrain|>json")
    return message.with_channel("analysis").with_content_type("code")


def result(caller: Message, text: str) -> Message:
    """The tool that was called answers."""
    author = Author.new(Role.TOOL, caller.recipient or "")
    message = Message.from_author_and_content(author, text).with_recipient("assistant")
    return message.with_channel(caller.channel or "commentary")
