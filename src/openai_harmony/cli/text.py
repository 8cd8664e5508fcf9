"""``harmony encode`` and ``harmony decode``: text to token ids and back."""

from __future__ import annotations

import argparse

from ..encoding import load_harmony_encoding
from ..written_tokens import token_ids_in
from .command import Command, add_file
from .output import Output
from .source import read_text

__all__ = ["DECODE", "ENCODE"]


def _add_encode_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, "text; the line break at its end is left out")
    parser.add_argument(
        "--special",
        action="store_true",
        help="read special tokens such as <|end|>, which are plain text otherwise",
    )


def _encode(arguments: argparse.Namespace) -> None:
    encoding = load_harmony_encoding("HarmonyGptOss")
    text = read_text(arguments.file)
    if arguments.special:
        tokens = encoding.encode(text, allowed_special="all")
    else:
        tokens = encoding.encode(text, disallowed_special=())
    Output().line(" ".join(map(str, tokens)))


def _add_decode_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, "token ids, between spaces or commas, or a JSON list of them")


def _decode(arguments: argparse.Namespace) -> None:
    tokens = token_ids_in(read_text(arguments.file))
    Output().line(load_harmony_encoding("HarmonyGptOss").decode(tokens))


ENCODE = Command(
    name="encode",
    summary="turn text into token ids",
    examples="""\
  echo 'What is 2 + 2?' | harmony encode
  harmony render chat.json | harmony encode --special
""",
    add_arguments=_add_encode_arguments,
    run=_encode,
)

DECODE = Command(
    name="decode",
    summary="turn token ids into text",
    examples="""\
  echo '200006, 1428, 200008' | harmony decode
  harmony render chat.json --output ids | harmony decode
""",
    add_arguments=_add_decode_arguments,
    run=_decode,
)
