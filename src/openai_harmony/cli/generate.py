"""``harmony generate``: one completion of a conversation by a model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..installation import missing_package
from .command import Command, add_color
from .event_loop import EventLoop
from .loading import open_watched
from .output import Output, json_lines
from .parse import write_message
from .request import add_request, read_request
from .sampling import add_sampling, sampling_of
from .source import InputError

if TYPE_CHECKING:
    from ..engines import Completion

__all__ = ["GENERATE"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="demo, a folder, a name on the Hugging Face hub, or the URL of a server",
    )
    add_request(parser)
    add_sampling(parser)
    parser.add_argument(
        "--grammar",
        action="store_true",
        help="let the model write only what the grammar of the turn allows",
    )
    parser.add_argument(
        "--output",
        choices=("text", "json", "ids"),
        default="text",
        help="messages to read (the default), harmony JSON with the tokens, or the token ids",
    )
    add_color(parser)


def _run(arguments: argparse.Namespace) -> None:
    with EventLoop() as loop:
        completion = loop.run(_complete(arguments))
    output = Output(arguments.color)
    if arguments.output == "ids":
        output.line(" ".join(map(str, completion.tokens)))
    elif arguments.output == "json":
        output.line(json_lines(_as_json(completion)))
    else:
        for at, message in enumerate(completion.messages):
            if at:
                output.line()
            write_message(message, output)
        if completion.finish_reason == "length":
            output.line("\nincomplete: the limit of tokens was reached", "repair")


async def _complete(arguments: argparse.Namespace) -> Completion:
    from ..engines import complete

    conversation, fields = read_request(arguments)
    sampling = sampling_of(arguments, _grammar(arguments, conversation, fields))
    async with await open_watched(arguments.model) as engine:
        return await complete(engine, conversation, sampling)


def _grammar(arguments: argparse.Namespace, conversation: Any, fields: Any) -> str | None:
    if not arguments.grammar:
        return None
    try:
        from ..grammar import TurnOptions, turn_grammar
    except ModuleNotFoundError as error:
        raise InputError(missing_package("--grammar needs", error, "grammar")) from error
    options = TurnOptions(
        tool_choice=fields.get("tool_choice"), response_format=fields.get("response_format")
    )
    return turn_grammar(conversation, options)


def _as_json(completion: Completion) -> dict[str, Any]:
    reason = completion.finish_reason
    return {
        "messages": [message.to_dict() for message in completion.messages],
        "tokens": completion.tokens,
        "finish_reason": None if reason is None else reason.value,
        "recoveries": [recovery._asdict() for recovery in completion.parser.recoveries],
    }


GENERATE = Command(
    name="generate",
    summary="let a model complete a conversation",
    examples="""\
  harmony generate demo chat.json
  echo '[{"role": "user", "content": "What is 2 + 2?"}]' | harmony generate demo
  harmony generate http://localhost:8000 chat.json --temperature 0 --grammar --output json
""",
    add_arguments=_add_arguments,
    run=_run,
)
