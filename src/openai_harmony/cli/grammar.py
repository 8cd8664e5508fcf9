"""``harmony grammar`` and ``harmony check``: what the model may write, and whether it did."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ..installation import missing_package
from ..written_tokens import written_tokens
from .command import Command
from .output import Output
from .request import add_request, read_request
from .source import InputError, read_text

__all__ = ["CHECK", "GRAMMAR"]


def _add_grammar_arguments(parser: argparse.ArgumentParser) -> None:
    add_request(parser)
    parser.add_argument(
        "--tool-choice",
        metavar="CHOICE",
        help="none, auto, required or the name of a tool; else the tool_choice of the request",
    )
    parser.add_argument(
        "--no-reasoning", action="store_true", help="allow no analysis before the answer"
    )
    parser.add_argument(
        "--reasoning-tokens",
        type=int,
        metavar="N",
        help="tokens in each analysis message at most",
    )


def _add_check_arguments(parser: argparse.ArgumentParser) -> None:
    _add_grammar_arguments(parser)
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument(
        "--completion",
        metavar="TEXT",
        help="what the model wrote after <|start|>assistant, as marked-up text or token ids",
    )
    given.add_argument("--completion-file", metavar="FILE", help="the same in a file")


def _run_grammar(arguments: argparse.Namespace) -> None:
    Output().write(_grammar(arguments))


def _run_check(arguments: argparse.Namespace) -> None:
    grammar = _grammar(arguments)
    from ..grammar import find_mismatch

    text = arguments.completion
    if text is None:
        text = read_text(arguments.completion_file)
    tokens = written_tokens(text)
    mismatch = find_mismatch(grammar, tokens)
    if mismatch is not None:
        raise InputError(mismatch.explained(tokens))
    Output().line(f"a whole turn of {len(tokens)} tokens")


def _grammar(arguments: argparse.Namespace) -> str:
    conversation, fields = read_request(arguments)
    try:
        from ..grammar import TurnOptions, turn_grammar
    except ModuleNotFoundError as error:
        raise InputError(missing_package("grammars need", error, "grammar")) from error
    options = TurnOptions(
        tool_choice=_tool_choice(arguments.tool_choice, fields),
        response_format=fields.get("response_format"),
        reasoning=not arguments.no_reasoning,
        reasoning_tokens=arguments.reasoning_tokens,
    )
    return turn_grammar(conversation, options)


def _tool_choice(chosen: str | None, fields: Mapping[str, Any]) -> Any:
    if chosen is None:
        return fields.get("tool_choice")
    if chosen in ("none", "auto", "required"):
        return chosen
    return {"type": "function", "name": chosen}


GRAMMAR = Command(
    name="grammar",
    summary="write the grammar of the assistant's next turn, for constrained sampling",
    examples="""\
  harmony grammar chat.json
  harmony grammar chat.json --tool-choice get_weather --reasoning-tokens 200
""",
    add_arguments=_add_grammar_arguments,
    run=_run_grammar,
)

CHECK = Command(
    name="check",
    summary="tell whether a completion obeys that grammar, and where it does not",
    examples="""\
  harmony check chat.json --completion '<|channel|>final<|message|>4<|return|>'
  harmony check chat.json --completion-file completion.ids
""",
    add_arguments=_add_check_arguments,
    run=_run_check,
)
