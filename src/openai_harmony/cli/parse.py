"""``harmony parse``: a completion, or a whole prompt, to messages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..conversation.content import TextContent
from ..conversation.messages import Message
from ..encoding import HarmonyEncoding, load_harmony_encoding
from ..errors import TokenError
from ..parsing.parser import StreamableParser
from ..parsing.recovery import Recovery
from ..tokens.tokenizer import token_ids
from ..written_tokens import token_ids_in, written_tokens
from .command import Command, add_color, add_file, role_named, role_names
from .output import Output, json_lines
from .render import style_of
from .source import InputError, read_text

__all__ = ["PARSE", "write_message"]

_EXAMPLES = """\
  echo '<|channel|>final<|message|>2 + 2 = 4.<|return|>' | harmony parse
  harmony parse completion.ids --lenient --tools functions.get_current_weather
  harmony render chat.json --output ids | harmony parse --output json
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, "token ids (between spaces or commas, or a JSON list) or marked-up text")
    parser.add_argument(
        "--from",
        dest="format",
        choices=("ids", "text"),
        help="which of the two it is; numbers and nothing else mean ids",
    )
    parser.add_argument(
        "--role",
        choices=role_names(),
        default="assistant",
        help="who speaks first where the input does not say, as it was in the prompt",
    )
    parser.add_argument(
        "--lenient",
        action="store_true",
        help="read broken markup for what the model meant, and list the repairs",
    )
    parser.add_argument(
        "--tools",
        action="append",
        default=[],
        metavar="NAME[,NAME...]",
        help="the recipients that the conversation declares; may be repeated",
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="messages to read (the default), or canonical harmony JSON",
    )
    add_color(parser)


def _run(arguments: argparse.Namespace) -> None:
    encoding = load_harmony_encoding("HarmonyGptOss")
    parser = StreamableParser(
        encoding,
        role_named(arguments.role),
        strict=not arguments.lenient,
        tools=[name for names in arguments.tools for name in names.split(",") if name],
    )
    tokens = _tokens(read_text(arguments.file), arguments.format, encoding)
    try:
        parser.process_many(tokens if arguments.lenient else token_ids(tokens))
        parser.process_eos()
    except TokenError as error:
        raise InputError(f"{error}; --lenient reads it for what the model meant") from error
    output = Output(arguments.color)
    if arguments.output == "json":
        output.line(json_lines(_as_json(parser, lenient=arguments.lenient)))
    else:
        _write(parser, output, lenient=arguments.lenient)


def _tokens(text: str, form: str | None, encoding: HarmonyEncoding) -> list[int]:
    if not text.strip():
        raise InputError("there is no input; expected token ids or marked-up text")
    if form is None:
        return written_tokens(text)
    if form == "ids":
        return token_ids_in(text)
    return encoding.encode(text, allowed_special="all")


def _as_json(parser: StreamableParser, *, lenient: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "messages": [message.to_dict() for message in parser.messages],
        "incomplete": parser.incomplete,
    }
    if lenient:
        fields["recoveries"] = [recovery._asdict() for recovery in parser.recoveries]
    return fields


def _write(parser: StreamableParser, output: Output, *, lenient: bool) -> None:
    for at, message in enumerate(parser.messages):
        if at:
            output.line()
        write_message(message, output)
    if not parser.messages:
        output.line("no messages", "marker")
    if parser.incomplete:
        output.line("\nincomplete: the tokens end inside a message", "repair")
    if lenient:
        _write_recoveries(parser.recoveries, output)


def write_message(message: Message, output: Output) -> None:
    """Write who speaks to whom, and below it what is said."""
    author = message.author
    who = author.role.value if author.name is None else f"{author.role.value} {author.name}"
    words = [who, *filter(None, [message.channel])]
    if message.recipient is not None:
        words.append(f"to {message.recipient}")
    if message.content_type is not None:
        words.append(message.content_type)
    output.line(f"[{' · '.join(words)}]", "title")
    for item in message.content:
        if isinstance(item, TextContent):
            output.line(item.text, style_of(message))


def _write_recoveries(recoveries: Sequence[Recovery], output: Output) -> None:
    if not recoveries:
        output.line("\nrecoveries: none", "marker")
        return
    output.line(f"\nrecoveries: {len(recoveries)}", "repair")
    for kind, position, text in recoveries:
        shown = f" {text!r}" if text else ""
        output.line(f"  token {position}: {kind.value}{shown}", "repair")


PARSE = Command(
    name="parse",
    summary="turn a completion, or a whole prompt, into messages",
    examples=_EXAMPLES,
    add_arguments=_add_arguments,
    run=_run,
)
