"""The rules that drop past reasoning from a prompt.

The guide ("Handling reasoning output in subsequent sampling") says: "Drop any previous CoT content
on subsequent sampling if the responses by the assistant ended in a message to the final channel",
and to keep it through the tool calls of an unfinished turn. Two rules implement this:

`analysis_before_first_final`
    The reference's rule, and the default of `RenderConversationConfig` (``reasoning_rule=
    "reference"``). It checks only the last assistant message and the first ``final`` message of
    the conversation, so it keeps the reasoning between the first answer and the last one.
`past_reasoning`
    The rule of the server, of `harmony chat`, of training and of the chat template
    (``reasoning_rule="by-turn"``). Each answer ends a turn. The rule drops the reasoning of every
    finished turn, including its calls of built-in tools.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..conversation.built_in_tools import is_built_in
from ..conversation.messages import Message, Role


def analysis_before_first_final(messages: Sequence[Message]) -> frozenset[int]:
    """Return the indices of the messages that the reference drops.

    If the assistant's last message is on ``final``, these are all ``analysis`` messages before the
    first ``final`` message.
    """
    last = next((m for m in reversed(messages) if m.author.role is Role.ASSISTANT), None)
    if last is None or last.channel != "final":
        return frozenset()
    # As in the reference, of any author.
    first_final = next(index for index, m in enumerate(messages) if m.channel == "final")
    return frozenset(i for i in range(first_final) if messages[i].channel == "analysis")


def past_reasoning(messages: Sequence[Message]) -> frozenset[int]:
    """Return the indices of the reasoning before the last answer.

    Calls of built-in tools on ``analysis`` and their results count as reasoning. Function calls do
    not, on any channel, because their results are messages of the conversation.
    """
    last_answer = -1
    for index, message in enumerate(messages):
        if message.author.role is Role.ASSISTANT and message.channel == "final":
            last_answer = index
    return frozenset(index for index in range(last_answer) if is_reasoning(messages[index]))


def without_past_reasoning(messages: Sequence[Message]) -> list[Message]:
    """Drop the messages of `past_reasoning`.

    >>> thought = Message.from_role_and_content(Role.ASSISTANT, "hm").with_channel("analysis")
    >>> answer = Message.from_role_and_content(Role.ASSISTANT, "2").with_channel("final")
    >>> [m.content[0].text for m in without_past_reasoning([thought, answer, thought])]
    ['2', 'hm']
    """
    dropped = past_reasoning(messages)
    return [message for index, message in enumerate(messages) if index not in dropped]


def is_reasoning(message: Message) -> bool:
    """Return whether a message is reasoning, or a built-in tool's call or result in it."""
    if message.channel != "analysis":
        return False
    tool = message.author.name if message.author.role is Role.TOOL else message.recipient
    return tool is None or is_built_in(tool)
