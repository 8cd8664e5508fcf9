"""``harmony render``: a conversation to the prompt that the model reads."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, get_args

from ..config import HeaderStyle, RenderConversationConfig
from ..conversation.messages import Conversation, Message, Role
from ..encoding import load_harmony_encoding
from ..rendering.segments import Segment, SegmentKind
from .command import Command, add_color, add_schema_dialect, role_named, role_names
from .output import Output, Style, json_lines
from .request import add_request, read_request

__all__ = ["RENDER", "style_of"]

_EXAMPLES = """\
  harmony render chat.json
  harmony render chat.json --date 2025-06-28 --output ids
  harmony render --training --header-style guide < conversation.json
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_request(parser)
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument(
        "--role",
        choices=role_names(),
        default="assistant",
        help="who speaks next; none ends the prompt after the last message",
    )
    ending.add_argument(
        "--training",
        action="store_true",
        help="render a training example, whose last answer ends in <|return|>",
    )
    parser.add_argument(
        "--keep-analysis",
        action="store_true",
        help="keep the reasoning before the first final answer, which is dropped otherwise",
    )
    parser.add_argument(
        "--header-style",
        choices=get_args(HeaderStyle),
        default="reference",
        help="how a header with a recipient is spelled",
    )
    add_schema_dialect(parser, "--schema-dialect")
    parser.add_argument(
        "--output",
        choices=("text", "ids", "json"),
        default="text",
        help="the marked-up text (the default), the token ids, or both with their segments",
    )
    add_color(parser)


def _run(arguments: argparse.Namespace) -> None:
    conversation, _ = read_request(arguments)
    segments = _segments(conversation, arguments)
    tokens = [token for segment in segments for token in segment.tokens]
    output = Output(arguments.color)
    if arguments.output == "ids":
        output.line(" ".join(map(str, tokens)))
    elif arguments.output == "json":
        output.line(json_lines(_as_json(segments, tokens)))
    else:
        for segment in segments:
            output.write(segment.text, _segment_style(segment, conversation.messages))
        output.line()


def _segments(conversation: Conversation, arguments: argparse.Namespace) -> list[Segment]:
    encoding = load_harmony_encoding("HarmonyGptOss")
    config = RenderConversationConfig(
        auto_drop_analysis=not arguments.keep_analysis,
        schema_dialect=arguments.schema_dialect,
        header_style=arguments.header_style,
    )
    if arguments.training:
        return encoding.segments_for_training(conversation, config)
    return encoding.segments_for_completion(conversation, role_named(arguments.role), config)


def _as_json(segments: Sequence[Segment], tokens: list[int]) -> dict[str, Any]:
    return {
        "text": "".join(segment.text for segment in segments),
        "tokens": tokens,
        "segments": [segment._asdict() for segment in segments],
    }


def _segment_style(segment: Segment, messages: Sequence[Message]) -> Style:
    if segment.kind is not SegmentKind.BODY:
        return "marker"
    return style_of(messages[segment.message])


def style_of(message: Message) -> Style:
    """Return the style of a message: its channel where the assistant speaks, else its role."""
    role = message.author.role
    return message.channel or "" if role is Role.ASSISTANT else role.value


RENDER = Command(
    name="render",
    summary="turn a conversation into the prompt that the model reads",
    examples=_EXAMPLES,
    add_arguments=_add_arguments,
    run=_run,
)
