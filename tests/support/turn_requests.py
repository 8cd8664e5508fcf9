"""What tests read from the request of a turn, from whichever API it came."""

from __future__ import annotations

from gpt_oss_harmony import DeveloperContent, Role, TextContent
from gpt_oss_harmony.apis.turn import TurnRequest


def said(request: TurnRequest) -> list[tuple[str | None, str | None, str]]:
    """Everything after the opening messages: the author or channel, the recipient, the text."""
    return [
        (
            message.author.name or message.channel or message.author.role.value,
            message.recipient,
            "|".join(item.text for item in message.content if isinstance(item, TextContent)),
        )
        for message in request.conversation.messages
        if message.author.role not in (Role.SYSTEM, Role.DEVELOPER)
    ]


def developer_of(request: TurnRequest) -> DeveloperContent:
    contents = [item for message in request.conversation.messages for item in message.content]
    return next((c for c in contents if isinstance(c, DeveloperContent)), DeveloperContent())
