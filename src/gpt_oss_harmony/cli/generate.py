"""``harmony generate``, ``grammar`` and ``check``: the assistant's next turn."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from ..conversation.messages import Conversation
from ..conversation.tool_choice import ToolChoice, ToolMode
from ..errors import HarmonyError
from ..written_tokens import written_tokens
from .command import Command
from .event_loop import EventLoop
from .input import (
    InputError,
    UnreadableError,
    UsageError,
    add_request,
    named_in_errors,
    read_request,
    read_text,
)
from .load_model import follow_rank_0, open_watched
from .options import (
    add_color,
    add_engine,
    add_format,
    add_model,
    add_sampling,
    given_engine_options,
    positive,
    sampling_of,
)
from .output import Output, json_lines, write_message

if TYPE_CHECKING:
    from ..engines import Completion


class _Grammar(Command):
    name = "grammar"
    purpose = "check what a model writes"
    summary = "print the grammar of the next turn, for constrained sampling"
    extras = "grammar"
    examples = """\
  harmony grammar chat.json
  harmony grammar chat.json --tool-choice get_weather --reasoning-tokens 200
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_request(parser)
        parser.add_argument(
            "--tool-choice",
            metavar="CHOICE",
            help="which tools the model may call: none, auto, required or the name of a tool "
            "(default: the request's tool_choice)",
        )
        parser.add_argument(
            "--reasoning",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="allow reasoning before the answer (default: on)",
        )
        parser.add_argument(
            "--reasoning-tokens",
            type=positive,
            metavar="N",
            help="the most tokens of each analysis message (default: no limit)",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        Output().write(_requested_grammar(arguments))


GRAMMAR = _Grammar()


class _Check(Command):
    name = "check"
    purpose = "check what a model writes"
    summary = "check whether a completion follows the grammar of its turn"
    extras = "grammar"
    examples = """\
  harmony check chat.json --completion '<|channel|>final<|message|>4<|return|>'
  harmony check chat.json --completion-file completion.ids
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        GRAMMAR.add_arguments(parser)
        given = parser.add_mutually_exclusive_group(required=True)
        given.add_argument(
            "--completion",
            metavar="TEXT",
            help="what the model wrote after <|start|>assistant, as marked-up text or token ids",
        )
        given.add_argument("--completion-file", metavar="FILE", help="a file with the completion")

    def run(self, arguments: argparse.Namespace) -> None:
        try:
            grammar = _requested_grammar(arguments)
            text = arguments.completion
            if text is None:
                text = read_text(arguments.completion_file, of_option=True)
            tokens = written_tokens(text)
            from ..grammar import find_mismatch

            mismatch = find_mismatch(grammar, tokens)
        except UsageError:
            raise
        except (HarmonyError, InputError) as error:  # exit code 1 is for completions that fail
            raise UnreadableError(str(error)) from error
        if mismatch is not None:
            raise InputError(mismatch.explained(tokens))
        Output().line(f"a whole turn of {len(tokens)} tokens")


CHECK = _Check()


def _requested_grammar(arguments: argparse.Namespace) -> str:
    conversation, fields = read_request(arguments)
    choice = arguments.tool_choice
    if choice is None:
        choice = fields.get("tool_choice")
    elif choice not in get_args(ToolMode):
        choice = ToolChoice("required", (choice,))
    return _grammar(
        arguments,
        conversation,
        fields,
        tool_choice=choice,
        reasoning=arguments.reasoning,
        reasoning_tokens=arguments.reasoning_tokens,
    )


def _grammar(
    arguments: argparse.Namespace,
    conversation: Conversation,
    fields: Mapping[str, Any],
    **options: Any,
) -> str:
    """Return the grammar of the next turn; `fields` are those of the request."""
    from ..grammar import GrammarError, TurnOptions, turn_grammar

    from_request = {name: fields.get(name) for name in ("tool_choice", "response_format")}
    with named_in_errors(arguments.file):
        try:
            return turn_grammar(conversation, TurnOptions(**{**from_request, **options}))
        except GrammarError as error:
            choice = getattr(arguments, "tool_choice", None)
            if choice is not None and error.problem.startswith("tool_choice: "):
                problem = str(error).removeprefix("tool_choice")
                raise UsageError(f"--tool-choice{problem}") from error
            raise


class _Generate(Command):
    name = "generate"
    purpose = "run a model"
    summary = "let a model complete a conversation"
    extras = "numpy for demo, transformers for other models, or http for a URL"
    examples = """\
  harmony generate demo chat.json
  echo '[{"role": "user", "content": "What is 2 + 2?"}]' | harmony generate demo
  harmony generate demo chat.json --temperature 0 --format json
  harmony generate http://localhost:8000 chat.json --grammar
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_model(parser)
        add_request(parser)
        add_sampling(parser)
        parser.add_argument(
            "--grammar",
            action=argparse.BooleanOptionalAction,
            default=False,
            help="constrain the model to the grammar of the turn: its tools, tool_choice and "
            "response_format (default: off)",
        )
        add_format(
            parser,
            ("text", "ids", "json"),
            "how to print the completion: messages to read, token ids, or JSON with both "
            "(default: text)",
        )
        add_engine(parser)
        add_color(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        from ..engines import complete

        if arguments.model.endswith(".json"):
            raise UsageError(
                f"MODEL is missing; write a model before the file, such as 'harmony generate demo "
                f"{arguments.model}'"
            )
        options = given_engine_options(arguments, arguments.model)
        if follow_rank_0(arguments.model, options):
            return
        conversation, fields = read_request(arguments)
        grammar = _grammar(arguments, conversation, fields) if arguments.grammar else None
        sampling = sampling_of(arguments, grammar)

        async def complete_turn() -> Completion:
            async with await open_watched(arguments.model, options) as engine:
                return await complete(engine, conversation, sampling)

        with EventLoop() as loop:
            completion = loop.run(complete_turn())
        output = Output(arguments.color)
        if arguments.format == "ids":
            output.line(" ".join(map(str, completion.tokens)))
        elif arguments.format == "json":
            reason = completion.finish_reason
            fields = {
                "messages": [message.to_dict() for message in completion.messages],
                "tokens": completion.tokens,
                "finish_reason": None if reason is None else reason.value,
                "recoveries": [recovery._asdict() for recovery in completion.parser.recoveries],
            }
            output.line(json_lines(fields))
        else:
            for index, message in enumerate(completion.messages):
                if index:
                    output.line()
                write_message(message, output)
            if completion.finish_reason == "length":
                output.line("\nincomplete: the limit of tokens was reached", "repair")


GENERATE = _Generate()
