"""The grammar of a whole assistant turn, in the Lark dialect of llguidance.

It describes the tokens after ``<|start|>assistant`` in a prompt::

    turn       (reasoning | preamble)* (answer | call)
    reasoning  analysis<|message|> text <|end|><|start|>assistant
    preamble   commentary<|message|> text <|end|><|start|>assistant
    call       to=RECIPIENT, before or after the channel, a content type or none, a body <|call|>
    answer     final<|message|> text or JSON <|return|>

Text neither contains a special token (no regular expression matches one) nor spells one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from ..conversation.messages import Conversation, checked_conversation
from ..rendering.cache import SharedCache, fingerprint
from .errors import GrammarError
from .json_schema import loosened_schema, narrowed_schema
from .options import (
    Call,
    TurnOptions,
    chosen_calls,
    declared_calls,
    requested_schemas,
    requested_text,
)
from .text_formats import TEXT_PATTERN, text_rule
from .token_table import WHITE_SPACE

__all__ = ["TurnConstraint", "turn_constraint", "turn_grammar"]

_JSON_TYPE = '(" json" | " "? <|constrain|> "json")?'
# Models write `code` behind calls of the browser, too, although the arguments are JSON.
_TOOL_JSON_TYPE = '(" json" | " code" | " "? <|constrain|> ("json" | "code"))?'
_CODE_TYPE = '(" code" | " "? <|constrain|> "code")?'


class TurnConstraint(NamedTuple):
    """The grammar of a turn, and the errors of the schema keywords that it does not enforce.

    `narrowed` has the errors of keywords that allow fewer values than they should.
    """

    grammar: str
    unenforced: tuple[GrammarError, ...] = ()
    narrowed: tuple[GrammarError, ...] = ()


def turn_grammar(conversation: Conversation, options: TurnOptions | None = None) -> str:
    """Return the grammar for the assistant's next turn, in the Lark dialect of llguidance.

    It describes all tokens after ``<|start|>assistant``, up to ``<|return|>`` or ``<|call|>``.
    Raises `GrammarError` for an option or a schema that cannot be enforced.

    >>> from gpt_oss_harmony import Message, Role
    >>> hi = Conversation.from_messages([Message.from_role_and_content(Role.USER, "hi")])
    >>> print(turn_grammar(hi, TurnOptions(reasoning=False, preambles=False)).splitlines()[0])
    start: answer
    """
    return turn_constraint(conversation, options).grammar


def turn_constraint(
    conversation: Conversation, options: TurnOptions | None = None
) -> TurnConstraint:
    """Return the grammar for the assistant's next turn, and the errors of left-out keywords.

    With ``on_unsupported="error"``, the default, no keyword is left out; see `TurnOptions`.
    """
    options = TurnOptions.checked(options)
    choice = options.read_tool_choice()
    calls = chosen_calls(choice, declared_calls(checked_conversation(conversation).messages))
    endings = [f"call_{index}" for index in range(len(calls))]
    if choice.mode != "required":
        endings.insert(0, "answer")
    before = _before(options)
    ending = f"({' | '.join(endings)})" if len(endings) > 1 else endings[0]
    errors: list[GrammarError] = []
    lines = [f"start: {before} {ending}" if before else f"start: {ending}"]
    lines += _other_messages(options)
    if choice.mode != "required":
        lines += _answer(requested_schemas(conversation, options), options, errors)
    if calls and not options.canonical:
        # For either kind of tool: models call functions on `analysis`, too.
        lines.append('call_channel: "commentary" | "analysis"')
    for index, call in enumerate(calls):
        lines += _call(index, call, options, errors)
    lines += [f"text{_at_most(options.text_tokens)}: TEXT", f"TEXT: /{TEXT_PATTERN}/"]
    unenforced = tuple(error for error in errors if not error.narrows)
    narrowed = tuple(error for error in errors if error.narrows)
    return TurnConstraint("\n".join(lines) + "\n", unenforced, narrowed)


def _before(options: TurnOptions) -> str:
    """Write the messages that may precede the answer or the call."""
    kinds = [
        kind
        for kind, is_allowed in (("reasoning", options.reasoning), ("preamble", options.preambles))
        if is_allowed
    ]
    if options.message_limits is not None:
        nested = ""
        for index in reversed(range(len(options.message_limits) if kinds else 0)):
            message = " | ".join(f"{kind}_{index}" for kind in kinds)
            nested = f"(({message}) {nested})?" if nested else f"({message})?"
        return nested
    most = options.reasoning_messages
    if most is None or not options.reasoning:
        return (
            "(reasoning | preamble)*" if len(kinds) == 2 else "".join(f"{kind}*" for kind in kinds)
        )
    return (
        f"preamble* (reasoning preamble*){{0,{most}}}"
        if options.preambles
        else f"reasoning{{0,{most}}}"
    )


def _other_messages(options: TurnOptions) -> Iterator[str]:
    if options.message_limits is not None:
        for index, limit in enumerate(options.message_limits):
            if options.reasoning:
                yield _message(f"reasoning_{index}", "analysis", f"thought_{index}")
                yield f"thought_{index}{_at_most(limit)}: TEXT"
            if options.preambles:
                texts = min(limit, options.text_tokens or limit)
                yield _message(f"preamble_{index}", "commentary", f"remark_{index}")
                yield f"remark_{index}{_at_most(texts)}: TEXT"
        return
    if options.reasoning:
        yield _message("reasoning", "analysis", "thought")
        yield f"thought{_at_most(options.reasoning_tokens)}: TEXT"
    if options.preambles:
        yield _message("preamble", "commentary", "text")


def _message(rule: str, channel: str, body: str) -> str:
    """Write a message without a recipient that does not end the turn."""
    end = '<|end|> <|start|> "assistant"'
    return f'{rule}: <|channel|> "{channel}" <|message|> {body} {end}'


def _at_most(tokens: int | None) -> str:
    return "" if tokens is None else f"[max_tokens={tokens}]"


def _answer(
    schemas: list[tuple[str, object]], options: TurnOptions, errors: list[GrammarError]
) -> Iterator[str]:
    if not schemas:
        text_format = requested_text(options.response_format or {})
        body = "text" if text_format is None else "answer_text"
        yield f'answer: <|channel|> "final" <|message|> {body} <|return|>'
        if text_format is not None:
            yield f"answer_text: {text_rule(text_format, 'response_format')}"
        return
    bodies = " | ".join(f"answer_{index}" for index in range(len(schemas)))
    content_type = "" if options.canonical else _JSON_TYPE
    yield f'answer: <|channel|> "final" {content_type} <|message|> ({bodies}) <|return|>'
    for index, (pointer, schema) in enumerate(schemas):
        yield f"answer_{index}: {_json(schema, pointer, options, None, errors)}"


def _call(
    index: int, call: Call, options: TurnOptions, errors: list[GrammarError]
) -> Iterator[str]:
    recipient = f" to={call.recipient}"
    text_format = options.tool_texts.get(call.recipient)
    if text_format is not None:
        pointer = f"tools/{call.recipient}#/format/definition"
        content_type, body = _CODE_TYPE, text_rule(text_format, pointer)
    elif call.schema is None:
        content_type, body = _CODE_TYPE, "text"
    else:
        content_type = _JSON_TYPE if call.is_function else _TOOL_JSON_TYPE
        pointer = f"tools/{call.recipient}#"
        body = _json(call.schema, pointer, options, call.recipient, errors)
    if not options.canonical:
        recipient = json.dumps(recipient)
        header = (
            f"({recipient} <|channel|> call_channel | <|channel|> call_channel {recipient}) "
            f"{content_type}"
        )
    elif text_format is not None:
        header = f"<|channel|> {json.dumps(f'commentary{recipient} code')}"
    elif call.is_function:
        header = f'<|channel|> {json.dumps(f"commentary{recipient} ")} <|constrain|> "json"'
    else:
        header = f"<|channel|> {json.dumps(f'analysis{recipient} code')}"
    yield f"call_{index}: {header} <|message|> body_{index} <|call|>"
    yield f"body_{index}: {body}"


# Servers get the same tools with every request, so the text for a schema is cached, with the length
# of its key, which may be longer than the text.
_Key: TypeAlias = tuple[str, bytes, bool, str, int]
_written: SharedCache[_Key, tuple[str, tuple[GrammarError, ...], int]] = SharedCache(
    16 * 1024 * 1024, lambda entry: len(entry[0]) + 500 * len(entry[1]) + entry[2]
)


def _json(
    schema: Any,
    pointer: str,
    options: TurnOptions,
    recipient: str | None,
    errors: list[GrammarError],
) -> str:
    """Write the JSON that the schema of a call or of the answer allows, as a part of a rule."""
    data = fingerprint(schema)
    loosens = options.loosens(recipient)
    whitespace = "compact" if options.canonical else options.whitespace

    def write() -> tuple[str, tuple[GrammarError, ...], int]:
        compiled = loosened_schema if loosens else narrowed_schema
        enforced, *reported = compiled(schema, pointer, steps=options.schema_steps)
        spelling = WHITE_SPACE[whitespace]
        written = {"x-guidance": spelling, **({} if isinstance(enforced, bool) else enforced)}
        text, found = f"%json {json.dumps(written)}", (*reported[0], *reported[1])
        return text, found, len(data or b"") + 500

    key = pointer, data or b"", loosens, whitespace, options.schema_steps
    text, found, _ = write() if data is None else _written.get_or_make(key, write)
    errors += found
    return text
