"""Leaves out the oldest turns of a conversation that is too long for the context."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...conversation.messages import Conversation, Message, Role

__all__ = ["without_oldest_turns"]

_OPENING = (Role.SYSTEM, Role.DEVELOPER)


def without_oldest_turns(
    conversation: Conversation, lengths: Sequence[int], excess: int
) -> Conversation:
    """Leave out whole turns, the oldest first, until `excess` tokens fewer are left.

    A turn begins with a message by the user, so that no call loses its result. The system's and the
    developer's messages stay, and so does the last turn. `lengths` are those of the messages, in
    tokens.
    """
    messages = conversation.messages
    starts = [at for at, message in enumerate(messages) if _begins_turn(messages, at, message)]
    left_out = 0
    for start, end in pairwise(starts):
        if excess <= 0:
            break
        excess -= sum(lengths[start:end])
        left_out = end - starts[0]
    if not left_out:
        return conversation
    first = starts[0]
    return Conversation.from_messages([*messages[:first], *messages[first + left_out :]])


def _begins_turn(messages: Sequence[Message], at: int, message: Message) -> bool:
    role = message.author.role
    if role in _OPENING:
        return False
    return role is Role.USER or at == 0 or messages[at - 1].author.role in _OPENING
