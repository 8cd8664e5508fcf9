"""A conversation as tokens under the choices of the page: what is left out, and what differs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, get_args

from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from ..apis.notices import notices
from ..config import RenderConversationConfig, SchemaDialect
from ..conversation.messages import Conversation, Message, Role
from ..encoding import load_harmony_encoding
from ..rendering.history import analysis_before_first_final
from ..rendering.renderer import SegmentKind
from ..sampled_messages import OPENING, prompt_segments, sampled_stop
from ..tokens.special_tokens import END
from ..training import IGNORED, TrainingOptions, untrainable_reason
from ..training.examples import MessageTokens, TokenSpan, planned_example
from ..training.sequence_plan import kept_in_prompt, plan_sequences
from .source import conversation_json, read_source
from .wire import Form, InspectorError, RenderBody, TokenList, token_list

_BY_TURN = (
    "the reasoning of an earlier turn, with its calls of built-in tools; prompts leave it out "
    "after the final answer of that turn"
)
_REFERENCE = (
    "an analysis message before the first final answer; the reference leaves it out once the "
    "assistant's last message is final"
)
_AFTER = "comes after the last message that this example trains on"
_UNTRAINED_PROMPT = (
    "a prompt is not trained on: the model continues it. The ending training shows the examples "
    "that this conversation makes"
)


class RenderedConversation(NamedTuple):
    """Tokens and their origin.

    - `labels`: for each token, the token to train on, or `IGNORED`; a prompt has only the latter.
    - `parts`: the rendered messages, by their index in the conversation. A prompt ends with the
      header of the next turn, after the last of them.
    - `dropped`: for each other message, the reason why it is left out.
    - `examples`: the number of examples that the conversation makes; 0 for a prompt. A conversation
      that makes none has the tokens of its messages all the same.
    """

    tokens: list[int]
    labels: list[int]
    parts: list[MessageTokens]
    dropped: dict[int, str]
    examples: int = 0


def rendered_conversation(conversation: Conversation, body: RenderBody) -> RenderedConversation:
    """Render a conversation; raises `ConversationError`, or `InspectorError` for a bad example."""
    kept = kept_messages(conversation.messages, body)
    reason = _REFERENCE if body.reasoning == "reference" else _BY_TURN
    left_out = sorted({*range(len(conversation.messages))} - {*kept})
    dropped = dict.fromkeys(left_out, reason)
    if body.ending == "training" or body.reasoning == "by-turn":
        chosen = Conversation(messages=[conversation.messages[index] for index in kept])
    else:
        chosen, kept = conversation, list(range(len(conversation.messages)))
    if body.ending == "training":
        return _example(chosen, kept, dropped, body)
    return _prompt(chosen, kept, dropped, body)


def kept_messages(messages: Sequence[Message], body: RenderBody) -> list[int]:
    """Return the indices of the messages of a prompt, or of those that examples are made of."""
    indices = range(len(messages))
    if body.reasoning == "reference":
        dropped = analysis_before_first_final(messages)
        return [index for index in indices if index not in dropped]
    if body.reasoning == "keep" or body.ending == "training":
        return list(indices)
    return kept_in_prompt(messages, indices, TrainingOptions())


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
    continues = False  # the model continues the turn after the message before
    start = body_start = 0
    for kind, index, _, segment in prompt_segments(encoding, chosen, config):
        if kind is SegmentKind.HEADER:
            start, body_start = len(tokens), len(tokens) + len(segment)
        tokens += segment
        if kind is SegmentKind.STOP:
            message = chosen.messages[index]
            is_sampled = message.author.role is Role.ASSISTANT
            # The prompt has the opening, unless the model goes on after a message of its own.
            first = start if continues or not is_sampled else start + len(OPENING)
            end = len(tokens)
            parts.append(MessageTokens(kept[index], start, first, body_start, end, is_sampled))
            continues = is_sampled and sampled_stop(message, segment[0]) == END
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
        prompt = _prompt(chosen, kept, dropped, body)
        end = prompt.parts[-1].end if prompt.parts else 0
        return prompt._replace(tokens=prompt.tokens[:end], labels=prompt.labels[:end])
    plan = plans[body.example]
    example = planned_example(chosen, plan, options)
    parts = [part._replace(message=kept[part.message]) for part in example.messages]
    planned = {entry.message for entry in plan}
    examples = {  # the numbers of examples, by the index of a message that they train on
        entry.message: number
        for number, other in enumerate(plans, 1)  # the page also counts examples from 1
        for entry in other
        if entry.is_trainable
    }
    for index, original in enumerate(kept):
        if index not in planned:
            reason = _AFTER if index > plan[-1].message else _BY_TURN
            also = f"; example {examples[index]} trains on it" if index in examples else ""
            dropped[original] = reason + also
    return RenderedConversation(example.input_ids, example.labels, parts, dropped, len(plans))


class MessageSummary(TypedDict):
    """A message with the number of its tokens, or the reason why it is left out."""

    index: int
    role: str
    name: str | None
    channel: str | None
    recipient: str | None
    content_type: str | None
    tokens: int
    dropped: str | None


class RenderingSpan(TypedDict):
    """A run of tokens of one message; the header of the next turn counts as one message more."""

    start: int
    end: int
    message: int
    kind: SegmentKind
    sampled: bool
    trainable: bool


class ShownNotice(TypedDict):
    """What the source says in vain, and its field, if it has one."""

    text: str
    param: str | None


class Rendering(TypedDict):
    """The conversation as it was read and rendered.

    `labels` has the tokens to train on that differ from the rendered ones, by their index.
    `untrained` says why no token is trained on; it is None if some are. `notices` name what the
    source says in vain.
    """

    form: Form
    conversation: dict[str, Any]
    messages: list[MessageSummary]
    spans: list[RenderingSpan]
    tokens: TokenList
    labels: dict[str, int]
    text: str
    examples: int
    untrained: str | None
    notices: list[ShownNotice]


def rendering(body: RenderBody) -> Rendering:
    """Render a source; raises `HarmonyError`, which names the field at fault."""
    source = read_source(body)
    messages = source.conversation.messages
    rendered = rendered_conversation(source.conversation, body)
    untrained: str | None = _UNTRAINED_PROMPT
    if body.ending == "training":
        untrained = untrainable_reason(messages, TrainingOptions())
    lengths = {part.message: part.end - part.start for part in rendered.parts}
    pairs = zip(rendered.tokens, rendered.labels if rendered.examples else (), strict=False)
    spans = [span for part in rendered.parts for span in part.spans()]
    end, length = spans[-1].end if spans else 0, len(rendered.tokens)
    spans.append(TokenSpan(end, length, len(messages), SegmentKind.HEADER, False))
    return {
        "form": source.form,
        "conversation": conversation_json(source.conversation),
        "messages": [
            {
                "index": index,
                "role": message.author.role.value,
                "name": message.author.name,
                "channel": message.channel,
                "recipient": message.recipient,
                "content_type": message.content_type,
                "tokens": lengths.get(index, 0),
                "dropped": rendered.dropped.get(index),
            }
            for index, message in enumerate(messages)
        ],
        "spans": [
            {
                "start": span.start,
                "end": span.end,
                "message": span.message,
                "kind": span.kind,
                "sampled": span.sampled,
                "trainable": rendered.labels[span.start] != IGNORED,
            }
            for span in spans
            if span.start < span.end
        ],
        "tokens": token_list(rendered.tokens),
        "labels": {
            str(index): label
            for index, (token, label) in enumerate(pairs)
            if label not in (token, IGNORED)
        },
        "text": load_harmony_encoding("HarmonyGptOss").decode(rendered.tokens),
        "examples": rendered.examples,
        "untrained": untrained,
        "notices": [
            {"text": notice.text, "param": notice.param}
            for notice in notices(source.conversation, source.unread)
        ],
    }


_STYLES = ("guide", "reference", "oss-harmony")
_DIALECTS = get_args(SchemaDialect)

_PIECES = (re.compile(r"[^\n]*\n|[^\n]+"), re.compile(r"<\|\w+\|>|\w+|\s+|.", re.DOTALL))
"""Texts are compared line by line, and changed lines word by word."""

_LIMIT = 250_000
"""The most pairs of pieces to compare, which takes a tenth of a second; beyond it, all differ."""


class ComparedPart(TypedDict):
    """A part of a text; an empty part that differs marks a place where the other text has more."""

    text: str
    differs: bool


class ComparedRow(TypedDict):
    """A message, and its text in each column with the differences from the first column."""

    message: int
    cells: list[list[ComparedPart]]


class ComparedTable(TypedDict):
    """Columns with their numbers of tokens, and the messages that differ between them."""

    columns: list[str]
    totals: list[int]
    rows: list[ComparedRow]


class Comparison(TypedDict):
    """The effect of each choice, where the other choice stays as requested."""

    header_styles: ComparedTable
    schema_dialects: ComparedTable


def comparison(body: RenderBody) -> Comparison:
    """Compare renderings; raises `HarmonyError`, which names the field at fault."""
    conversation = read_source(body).conversation
    return {
        "header_styles": _table(conversation, body, "header_style", _STYLES),
        "schema_dialects": _table(conversation, body, "schema_dialect", _DIALECTS),
    }


def _table(
    conversation: Conversation, body: RenderBody, choice: str, columns: Sequence[str]
) -> ComparedTable:
    rendered = [
        rendered_conversation(conversation, body.model_copy(update={choice: column}))
        for column in columns
    ]
    messages = [
        {part.message: column.tokens[part.start : part.end] for part in column.parts}
        for column in rendered
    ]
    decode = load_harmony_encoding("HarmonyGptOss").decode
    rows: list[ComparedRow] = []
    for message, tokens in messages[0].items():
        others = [column[message] for column in messages[1:]]
        if any(other != tokens for other in others):
            first = decode(tokens)
            cells = [compared_parts(first, decode(other)) for other in others]
            rows.append(
                {"message": message, "cells": [[{"text": first, "differs": False}], *cells]}
            )
    totals = [len(column.tokens) for column in rendered]
    return {"columns": list(columns), "totals": totals, "rows": rows}


def compared_parts(first: str, text: str) -> list[ComparedPart]:
    """Split `text` into parts that `first` also has, and parts that it does not have.

    >>> compared_parts("to=f<|channel|>final", "to=g<|channel|>final")
    [{'text': 'to=', 'differs': False}, {'text': 'g', 'differs': True},
     {'text': '<|channel|>final', 'differs': False}]
    """
    parts: list[ComparedPart] = []
    for piece, differs in _marked(first, text, _PIECES):
        if parts and parts[-1]["differs"] == differs:
            parts[-1]["text"] += piece
        elif piece or differs:
            parts.append({"text": piece, "differs": differs})
    return parts


def _marked(
    first: str, text: str, patterns: Sequence[re.Pattern[str]]
) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of `text`, each with whether it differs from `first`."""
    if not patterns:
        yield text, True
        return
    pattern, *finer = patterns
    others, pieces = pattern.findall(first), pattern.findall(text)
    start = _equal_items(others, pieces)
    end = _equal_items(others[start:][::-1], pieces[start:][::-1])
    yield "".join(pieces[:start]), False
    middle, other_middle = pieces[start : len(pieces) - end], others[start : len(others) - end]
    if len(middle) * len(other_middle) > _LIMIT:
        yield "".join(middle), True
    else:
        # By default, difflib ignores what is frequent among 200 pieces or more, such as spaces.
        matcher = SequenceMatcher(None, other_middle, middle, autojunk=False)
        for kind, other_from, other_to, own_from, own_to in matcher.get_opcodes():
            block = "".join(middle[own_from:own_to])
            if kind == "equal":
                yield block, False
            else:
                yield from _marked("".join(other_middle[other_from:other_to]), block, finer)
    yield "".join(pieces[len(pieces) - end :]), False


def _equal_items(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the equal items at the start of both."""
    pairs = enumerate(zip(first, second, strict=False))
    shorter = min(len(first), len(second))
    return next((index for index, (item, other) in pairs if item != other), shorter)
