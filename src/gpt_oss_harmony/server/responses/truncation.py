"""Truncation: with `truncation: "auto"`, the oldest turns are left out until there is room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...apis.responses.request import ResponsesRequest
from ...apis.turn import RENDERING, TurnRequest
from ...conversation.messages import Conversation, Message, Role
from ...encoding import load_harmony_encoding
from ...engines.engine import ContextLengthError
from ...sampled_messages import SampledMessage
from ..preparation import PreparedTurn, prepare_turn
from ..services import Services

_PREAMBLE_ROLES = (Role.SYSTEM, Role.DEVELOPER)
_OUTPUT_SHARE = 4  # truncation leaves this part of the context, a quarter, for the output


def truncated_turn(
    services: Services,
    request: ResponsesRequest,
    turn: TurnRequest,
    prepared: PreparedTurn | None = None,
) -> tuple[TurnRequest, PreparedTurn]:
    """Prepare a turn of a response without a grammar, truncated if the request allows it.

    `prepared` is the earlier result of `prepare_turn`. This blocks. Raises `ContextLengthError` if
    there is no room for a token.
    """
    limit = services.context_length
    if request.truncation == "auto":
        length = len(prepared.prompt) if prepared else turn.prompt_length()
        room = min(turn.sampling.max_tokens or limit, limit // _OUTPUT_SHARE)
        excess = length + room - limit
        if excess > 0:
            lengths = _message_lengths(turn)
            shorter = without_oldest_turns(turn.conversation, lengths, excess)
            turn, prepared = replace(turn, conversation=shorter), None
    prepared = prepared or prepare_turn(turn, limit)
    ContextLengthError.check(len(prepared.prompt), limit)
    return turn, prepared


def _message_lengths(turn: TurnRequest) -> list[int]:
    """Count the tokens of each message."""
    messages = turn.conversation.messages
    lengths = [0] * len(messages)
    encoding = load_harmony_encoding("HarmonyGptOss")
    for segment in encoding.segments_for_completion(turn.conversation, None, RENDERING):
        lengths[segment.message] += len(segment.tokens)
    for index, message in enumerate(messages):
        if isinstance(message, SampledMessage):
            # The sample does not have `<|start|>assistant`, two tokens that the prompt has before
            # it.
            lengths[index] = len(message.sampled_tokens) + 2
    return lengths


def without_oldest_turns(
    conversation: Conversation, lengths: Sequence[int], excess: int
) -> Conversation:
    """Leave out whole turns, the oldest first, until at least `excess` tokens are gone.

    A turn begins with a message by the user, so no call loses its result. If the last turn is still
    too long, as agents' turns may be, its oldest calls and their results are left out. The system
    and developer messages, the user's last message and the last call stay. `lengths` are the
    messages' lengths in tokens.
    """
    messages = conversation.messages

    def begins_turn(index: int, message: Message) -> bool:
        role = message.author.role
        if role in _PREAMBLE_ROLES:
            return False
        is_first = index == 0 or messages[index - 1].author.role in _PREAMBLE_ROLES
        return role is Role.USER or is_first

    def begins_step(index: int) -> bool:
        """Return whether a step of the assistant begins there: after the user, or a result."""
        follows = messages[index - 1].author.role in (Role.USER, Role.TOOL)
        return messages[index].author.role is Role.ASSISTANT and follows

    starts = [index for index, message in enumerate(messages) if begins_turn(index, message)]
    steps = [index for index in range(starts[-1] + 1, len(messages)) if begins_step(index)]
    left_out = set[int]()
    for start, end in (*pairwise(starts), *pairwise(steps)):
        if excess <= 0:
            break
        excess -= sum(lengths[start:end])
        left_out.update(range(start, end))
    return Conversation.from_messages(
        [message for index, message in enumerate(messages) if index not in left_out]
    )
