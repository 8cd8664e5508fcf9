"""``harmony parse``, ``encode`` and ``decode``: tokens to messages, and text to tokens."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..encoding import load_harmony_encoding
from ..errors import TokenError
from ..parsing.parser import StreamableParser
from ..tokens.tokenizer import token_ids
from ..written_tokens import token_ids_in, written_tokens
from .command import Command
from .input import InputError, add_file, named_in_errors, read_text
from .options import add_color, add_format, role_named, role_names
from .output import Output, json_lines, write_message


class _Parse(Command):
    name = "parse"
    purpose = "see the format"
    summary = "turn a completion, or a whole prompt, into messages"
    examples = """\
  echo '<|channel|>final<|message|>2 + 2 = 4.<|return|>' | harmony parse
  harmony parse completion.ids --lenient --recipients functions.get_weather
  harmony render chat.json --format ids | harmony parse --format json
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_file(parser, "token ids (between spaces or commas, or a JSON list) or marked-up text")
        parser.add_argument(
            "--from",
            dest="form",
            choices=("ids", "text"),
            help="the form of the input (default: ids if it has nothing but numbers, else text)",
        )
        parser.add_argument(
            "--role",
            choices=role_names(),
            default="assistant",
            help="the role of the first message if the input does not begin with <|start|>; "
            "none needs <|start|> (default: assistant)",
        )
        parser.add_argument(
            "--lenient",
            action="store_true",
            help="repair broken markup, and list the repairs (default: report an error)",
        )
        parser.add_argument(
            "--recipients",
            action="append",
            default=[],
            metavar="NAME[,NAME...]",
            help="the recipients that the conversation declares, such as functions.get_weather; "
            "--lenient writes a name as here if it differs only in its namespace, in capitals or "
            "in signs around it, or stands there twice; other names stay as they are; repeatable",
        )
        add_format(
            parser,
            ("text", "json"),
            "how to print the messages: text to read, or harmony JSON (default: text)",
        )
        add_color(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        encoding = load_harmony_encoding("HarmonyGptOss")
        parser = StreamableParser(
            encoding,
            role_named(arguments.role),
            strict=not arguments.lenient,
            tools=[name for names in arguments.recipients for name in names.split(",") if name],
        )
        text = read_text(arguments.file)
        with named_in_errors(arguments.file):
            if not text.strip():
                raise InputError("there is no input; expected token ids or marked-up text")
            if arguments.form is None:
                if _is_conversation(text):
                    raise InputError(
                        "this is a conversation as JSON; 'harmony render' turns it into tokens, "
                        "and --from text reads it as a completion"
                    )
                tokens = written_tokens(text)
            elif arguments.form == "ids":
                tokens = token_ids_in(text)
            else:
                tokens = encoding.encode(text, allowed_special="all")
            try:
                parser.process_many(tokens if arguments.lenient else token_ids(tokens))
                parser.process_eos()
            except TokenError as error:
                raise InputError(f"{error}; --lenient repairs it") from error
        output = Output(arguments.color)
        if arguments.format == "json":
            fields: dict[str, Any] = {
                "messages": [message.to_dict() for message in parser.messages],
                "incomplete": parser.incomplete,
            }
            if arguments.lenient:
                fields["recoveries"] = [recovery._asdict() for recovery in parser.recoveries]
            output.line(json_lines(fields))
        else:
            _write(parser, output, lenient=arguments.lenient)


PARSE = _Parse()


def _is_conversation(text: str) -> bool:
    """Return whether a text is JSON, with messages or a list of them."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    messages = value.get("messages") if isinstance(value, dict) else value
    return bool(messages) and isinstance(messages, list) and isinstance(messages[0], dict)


def _write(parser: StreamableParser, output: Output, *, lenient: bool) -> None:
    for index, message in enumerate(parser.messages):
        if index:
            output.line()
        write_message(message, output)
    if not parser.messages:
        output.line("no messages", "marker")
    if parser.incomplete:
        output.line("\nincomplete: the tokens end inside a message", "repair")
    if not lenient:
        return
    if not parser.recoveries:
        output.line("\nrecoveries: none", "marker")
        return
    output.line(f"\nrecoveries: {len(parser.recoveries)}", "repair")
    for kind, position, text in parser.recoveries:
        shown = f" {text!r}" if text else ""
        output.line(f"  token {position}: {kind.value}{shown}", "repair")


class _Encode(Command):
    name = "encode"
    purpose = "see the format"
    summary = "turn text into token ids"
    examples = """\
  echo 'What is 2 + 2?' | harmony encode
  harmony render chat.json | harmony encode --special
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_file(parser, "text; the line break at its end is ignored")
        parser.add_argument(
            "--special",
            action="store_true",
            help="read special tokens such as <|end|> (default: they are plain text)",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        encoding = load_harmony_encoding("HarmonyGptOss")
        text = read_text(arguments.file)
        if arguments.special:
            tokens = encoding.encode(text, allowed_special="all")
        else:
            tokens = encoding.encode(text, disallowed_special=())
        Output().line(" ".join(map(str, tokens)))


ENCODE = _Encode()


class _Decode(Command):
    name = "decode"
    purpose = "see the format"
    summary = "turn token ids into text"
    examples = """\
  echo '200006, 1428, 200008' | harmony decode
  harmony render chat.json --format ids | harmony decode
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_file(parser, "token ids, between spaces or commas, or a JSON list of them")

    def run(self, arguments: argparse.Namespace) -> None:
        text = read_text(arguments.file)
        with named_in_errors(arguments.file):
            decoded = load_harmony_encoding("HarmonyGptOss").decode(token_ids_in(text))
        Output().line(decoded)


DECODE = _Decode()
