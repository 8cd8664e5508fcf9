"""Which reasoning the next prompt leaves out, turn by turn.

"Drop any previous CoT content on subsequent sampling if the responses by the assistant ended in a
message to the final channel", and keep it through the tool calls of a turn that goes on (guide,
"Handling reasoning output in subsequent sampling"). The reference, and `auto_drop_analysis` with
it, looks at the last message of the assistant and at the first ``final`` of the conversation alone;
here each answer ends its own turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..conversation.messages import Message, Role

__all__ = ["without_past_reasoning"]

_BUILT_IN = ("browser", "python")


def without_past_reasoning(messages: Sequence[Message]) -> list[Message]:
    """Leave out the reasoning before an answer, and what built-in tools did as a part of it.

    A call of a function stays, on whatever channel it was made: its result would stand alone.

    >>> thought = Message.from_role_and_content(Role.ASSISTANT, "hm").with_channel("analysis")
    >>> answer = Message.from_role_and_content(Role.ASSISTANT, "2").with_channel("final")
    >>> [m.content[0].text for m in without_past_reasoning([thought, answer, thought])]
    ['2', 'hm']
    """
    last_answer = max(
        (at for at, message in enumerate(messages) if _is_answer(message)),
        default=-1,
    )
    return [
        message
        for at, message in enumerate(messages)
        if at > last_answer or not _is_reasoning(message)
    ]


def _is_answer(message: Message) -> bool:
    return message.author.role is Role.ASSISTANT and message.channel == "final"


def _is_reasoning(message: Message) -> bool:
    if message.channel != "analysis":
        return False
    tool = message.author.name if message.author.role is Role.TOOL else message.recipient
    return tool is None or tool.partition(".")[0] in _BUILT_IN
