"""A conversation to tokens under the choices of the page, and what is left out and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..config import RenderConversationConfig
from ..conversation.messages import Conversation, Message, Role
from ..encoding import load_harmony_encoding
from ..rendering.history import analysis_before_first_final
from ..rendering.segments import SegmentKind
from ..sampled_messages import OPENING, prompt_segments, sampled_stop
from ..tokens.special_tokens import END
from ..training import IGNORED, TrainingOptions
from ..training.examples import MessageTokens, planned_example
from ..training.sequence_plan import Plan, kept_in_prompt, plan_sequences
from .errors import InspectorError
from .wire import RenderBody

__all__ = ["RenderedConversation", "kept_messages", "rendered_conversation"]

_BY_TURN = (
    "the reasoning of an earlier turn, with what built-in tools did in it: prompts leave it out "
    "once that turn has ended with a final answer"
)
_REFERENCE = (
    "on the channel analysis before the first final answer: the reference leaves it out once the "
    "assistant's last message is final"
)
_AFTER = "comes after the last message that this example teaches"
_NOTHING = "no message of this conversation is learned"


class RenderedConversation(NamedTuple):
    """Tokens, and where they come from.

    - `labels`: the token that is learned at each place, or `IGNORED`: everywhere, in a prompt.
    - `parts`: the messages that are rendered, by their index in the conversation. After the last
      of them, a prompt has the header of the next turn.
    - `dropped`: why the other messages are left out.
    - `examples`: how many examples the conversation makes; 0 for a prompt.
    """

    tokens: list[int]
    labels: list[int]
    parts: list[MessageTokens]
    dropped: dict[int, str]
    examples: int = 0


def rendered_conversation(conversation: Conversation, body: RenderBody) -> RenderedConversation:
    """Render a conversation; raises `ConversationError`, and for an example that there is not."""
    kept = kept_messages(conversation.messages, body)
    reason = _REFERENCE if body.reasoning == "reference" else _BY_TURN
    left_out = sorted({*range(len(conversation.messages))} - {*kept})
    dropped = dict.fromkeys(left_out, reason)
    if body.ending == "training" or body.reasoning == "by-turn":
        chosen = Conversation(messages=[conversation.messages[at] for at in kept])
    else:
        chosen, kept = conversation, list(range(len(conversation.messages)))
    if body.ending == "training":
        return _example(chosen, kept, dropped, body)
    return _prompt(chosen, kept, dropped, body)


def kept_messages(messages: Sequence[Message], body: RenderBody) -> list[int]:
    """Choose the messages that a prompt has, by index; of examples, those they are made of."""
    everything = range(len(messages))
    if body.reasoning == "reference":
        gone = analysis_before_first_final(messages)
        return [at for at in everything if at not in gone]
    if body.reasoning == "keep" or body.ending == "training":
        return list(everything)
    return kept_in_prompt(messages, everything, TrainingOptions())


def _prompt(
    chosen: Conversation, kept: Sequence[int], dropped: dict[int, str], body: RenderBody
) -> RenderedConversation:
    encoding = load_harmony_encoding("HarmonyGptOss")
    config = RenderConversationConfig(
        auto_drop_analysis=body.reasoning == "reference",
        header_style=body.header_style,
        schema_dialect=body.schema_dialect,
    )
    tokens: list[int] = []
    parts: list[MessageTokens] = []
    goes_on = False  # the model goes on sampling after the message before
    start = behind_header = 0
    for kind, at, _, own in prompt_segments(encoding, chosen, config):
        if kind is SegmentKind.HEADER:
            start, behind_header = len(tokens), len(tokens) + len(own)
        tokens += own
        if kind is SegmentKind.STOP:
            message = chosen.messages[at]
            is_own = message.author.role is Role.ASSISTANT
            first = start if goes_on or not is_own else start + len(OPENING)
            parts.append(MessageTokens(kept[at], start, first, behind_header, len(tokens), is_own))
            goes_on = is_own and sampled_stop(message, own[0]) == END
    return RenderedConversation(tokens, [IGNORED] * len(tokens), parts, dropped)


def _example(
    chosen: Conversation, kept: Sequence[int], dropped: dict[int, str], body: RenderBody
) -> RenderedConversation:
    options = TrainingOptions(
        keep_past_reasoning=body.reasoning != "by-turn",
        header_style=body.header_style,
        schema_dialect=body.schema_dialect,
    )
    plans = plan_sequences(chosen.messages, options)
    if body.example and body.example >= len(plans):
        problem = f"there is no example {body.example}; the conversation makes {len(plans)}"
        raise InspectorError(422, f"{problem}, counted from 0", param="example")
    if not plans:
        unlearned = dict.fromkeys(kept, _NOTHING)
        return RenderedConversation([], [], [], {**dropped, **unlearned})
    plan = plans[body.example]
    example = planned_example(chosen, plan, options)
    parts = [part._replace(message=kept[part.message]) for part in example.messages]
    held = {entry.message for entry in plan}
    taught = _teaching_examples(plans)
    for at, index in enumerate(kept):
        if at not in held:
            reason = _AFTER if at > plan[-1].message else _BY_TURN
            # People count from 1, as the page's choice of examples does.
            also = f"; example {taught[at] + 1} teaches it" if at in taught else ""
            dropped[index] = reason + also
    return RenderedConversation(example.input_ids, example.labels, parts, dropped, len(plans))


def _teaching_examples(plans: Sequence[Plan]) -> dict[int, int]:
    """Tell the number of the example that teaches a message, by its index."""
    return {
        entry.message: number
        for number, plan in enumerate(plans)
        for entry in plan
        if entry.is_trainable
    }
