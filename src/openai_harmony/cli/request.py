"""The conversation that a command works on: harmony JSON, or a Chat Completions request."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from ..apis.chat_messages import conversation_from_chat, is_chat
from ..conversation.messages import Conversation
from .command import add_file
from .source import InputError, read_json

__all__ = ["add_request", "iso_date", "read_request"]


def add_request(parser: argparse.ArgumentParser) -> None:
    """Add the argument FILE and the options that say how it is read."""
    add_file(parser, "a harmony conversation or a Chat Completions request, as JSON")
    parser.add_argument(
        "--from",
        dest="format",
        choices=("harmony", "chat"),
        help="which of the two it is; a message with a channel, recipient or content type, or "
        "with system or developer content, means harmony, everything else chat",
    )
    parser.add_argument(
        "--date",
        type=iso_date,
        metavar="YYYY-MM-DD",
        help="the current date as the model shall read it, for chat input",
    )


def read_request(arguments: argparse.Namespace) -> tuple[Conversation, Mapping[str, Any]]:
    """Read the conversation, and the fields that stand beside its messages."""
    raw, text = read_json(arguments.file)
    fields = raw if isinstance(raw, Mapping) else {}
    if arguments.format == "chat" or (arguments.format is None and is_chat(raw)):
        return conversation_from_chat(raw, conversation_start_date=arguments.date), fields
    if arguments.date is not None:
        raise InputError(
            "--date is for Chat Completions requests, and this is a harmony conversation; "
            "write the date into its system content as conversation_start_date"
        )
    text = f'{{"messages": {text}}}' if isinstance(raw, list) else text
    return Conversation.from_json(text), fields


def iso_date(text: str) -> str:
    """Read an argument that is a date, as ``2025-06-28``."""
    try:
        # Later Pythons read other ISO formats as well; the model knows this one.
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return date.fromisoformat(text).isoformat()
    except ValueError:
        pass  # a day that no month has
    raise argparse.ArgumentTypeError(f"{text!r} is no date; write it as YYYY-MM-DD")
