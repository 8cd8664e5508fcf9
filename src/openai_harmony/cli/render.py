"""``harmony render``: a conversation to the prompt that the model reads."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import date
from typing import Any, get_args

from ..chat_completions import conversation_from_chat, is_chat
from ..config import HeaderStyle, RenderConversationConfig
from ..encoding import load_harmony_encoding
from ..messages import Conversation, Message, Role
from ..segments import Segment, SegmentKind
from .command import Command, add_color, add_file, add_schema_dialect, role_named, role_names
from .output import Output, Style, json_lines
from .source import InputError, read_json

__all__ = ["RENDER", "style_of"]

_EXAMPLES = """\
  harmony render chat.json
  harmony render chat.json --date 2025-06-28 --output ids
  harmony render --training --header-style guide < conversation.json
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, "a harmony conversation or a Chat Completions request, as JSON")
    parser.add_argument(
        "--from",
        dest="format",
        choices=("harmony", "chat"),
        help="which of the two it is; a message with a channel, recipient or content type, or "
        "with system or developer content, means harmony, everything else chat",
    )
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
        "--date",
        type=_date,
        metavar="YYYY-MM-DD",
        help="the current date as the model shall read it, for chat input",
    )
    parser.add_argument(
        "--output",
        choices=("text", "ids", "json"),
        default="text",
        help="the marked-up text (the default), the token ids, or both with their segments",
    )
    add_color(parser)


def _run(arguments: argparse.Namespace) -> None:
    conversation = _conversation(arguments)
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


def _conversation(arguments: argparse.Namespace) -> Conversation:
    raw, text = read_json(arguments.file)
    if arguments.format == "chat" or (arguments.format is None and is_chat(raw)):
        return conversation_from_chat(raw, conversation_start_date=arguments.date)
    if arguments.date is not None:
        raise InputError(
            "--date is for Chat Completions requests, and this is a harmony conversation; "
            "write the date into its system content as conversation_start_date"
        )
    return Conversation.from_json(f'{{"messages": {text}}}' if isinstance(raw, list) else text)


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


def _date(text: str) -> str:
    try:
        # Later Pythons read other ISO formats as well; the model knows this one.
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return date.fromisoformat(text).isoformat()
    except ValueError:
        pass  # a day that no month has
    raise argparse.ArgumentTypeError(f"{text!r} is no date; write it as YYYY-MM-DD")


RENDER = Command(
    name="render",
    summary="turn a conversation into the prompt that the model reads",
    examples=_EXAMPLES,
    add_arguments=_add_arguments,
    run=_run,
)
