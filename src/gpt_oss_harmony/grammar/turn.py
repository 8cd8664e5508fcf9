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
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

from ..conversation.messages import Conversation, checked_conversation
from ..rendering.cache import SharedCache, fingerprint
from ..tokens.special_tokens import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START
from ..typescript.json_text import Schema
from .errors import GrammarError
from .json_schema import loosened_schema, narrowed_schema, outlined_schema
from .matcher import Matcher
from .options import (
    Call,
    TurnOptions,
    chosen_calls,
    declared_calls,
    requested_schemas,
)
from .rules import (
    Body,
    Choice,
    ClientText,
    FreeText,
    JsonText,
    Literal,
    Optional,
    Part,
    Repeat,
    RuleName,
    Sequence,
    Special,
    TurnGrammar,
)
from .tagged_text import tagged_text
from .text_formats import TextFormat, text_rule
from .token_table import WHITE_SPACE

__all__ = ["TurnConstraint", "turn_constraint", "turn_grammar"]


def _content_type(*names: str) -> Part:
    """Write a content type, or none."""
    constrained = Sequence(
        (
            Optional(Literal(" ")),
            Special(CONSTRAIN),
            Literal(names[0]) if len(names) == 1 else Choice(tuple(map(Literal, names))),
        )
    )
    return Optional(Choice((*(Literal(f" {name}") for name in names), constrained)))


_JSON_TYPE = _content_type("json")
# Models write `code` behind calls of the browser, too, although the arguments are JSON.
_TOOL_JSON_TYPE = _content_type("json", "code")
_CODE_TYPE = _content_type("code")
_TEXT = RuleName("text")


class TurnConstraint(NamedTuple):
    """The grammar of a turn, and the errors of the schema keywords that it does not enforce.

    `narrowed` has the errors of keywords that allow fewer values than they should.
    """

    grammar: TurnGrammar
    unenforced: tuple[GrammarError, ...] = ()
    narrowed: tuple[GrammarError, ...] = ()


def turn_grammar(conversation: Conversation, options: TurnOptions | None = None) -> TurnGrammar:
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
    endings = [RuleName(f"call_{index}") for index in range(len(calls))]
    if choice.mode != "required":
        endings.insert(0, RuleName("answer"))
    errors: list[GrammarError] = []
    ending = Choice(tuple(endings)) if len(endings) > 1 else endings[0]
    answers: list[tuple[str, object]] = []
    rules: dict[str, Body] = {"start": Sequence((*_before(options), ending))}
    rules |= _other_messages(options)
    if choice.mode != "required":
        answers = requested_schemas(conversation, options)
        rules |= _answer(answers, options, errors)
    if calls and not options.canonical:
        # For either kind of tool: models call functions on `analysis`, too.
        rules["call_channel"] = Choice((Literal("commentary"), Literal("analysis")))
    for index, call in enumerate(calls):
        rules |= _call(index, call, options, errors)
    rules["text"] = FreeText(options.text_tokens)
    grammar = _compiling(rules, answers, calls, options, errors)
    unenforced = tuple(error for error in errors if not error.narrows)
    narrowed = tuple(error for error in errors if error.narrows)
    return TurnConstraint(grammar, unenforced, narrowed)


# The engine refused 700 bounded integers with 15 digits, and took 500. Without bounds, it takes
# what the limits of one schema leave.
_SURE_BOUNDS = 300
_SURE_SIZE = 100_000  # characters


def _compiling(
    rules: dict[str, Body],
    answers: list[tuple[str, object]],
    calls: list[Call],
    options: TurnOptions,
    errors: list[GrammarError],
) -> TurnGrammar:
    """Return a grammar that compiles: the schemas may be too large together for the engine.

    The largest schemas then keep only their types and property names, if they may be loosened.
    """
    grammar = TurnGrammar(rules)
    if grammar.count('imum": ') <= _SURE_BOUNDS and len(grammar) <= _SURE_SIZE:
        return grammar
    schemas: list[tuple[str, str, object, str | None]] = [
        *((f"answer_{index}", *answer, None) for index, answer in enumerate(answers)),
        *(
            (f"body_{index}", f"tools/{call.recipient}#", call.schema, call.recipient)
            for index, call in enumerate(calls)
            if call.recipient not in options.tool_texts and call.schema is not None
        ),
    ]
    schemas.sort(key=lambda one: len(_printed_schema(rules[one[0]])))
    while True:
        try:
            Matcher(grammar)
        except GrammarError as problem:
            while schemas and not options.loosens(schemas[-1][3]):
                schemas.pop()
            name, pointer, schema, _ = schemas.pop() if schemas else ("", "", True, None)
            error = GrammarError(
                f"the schemas of the turn are too large together: {problem.problem}",
                remedy="use fewer tools, or fewer bounds of numbers and patterns",
                pointer=pointer,
            )
            if not name:
                raise error from problem
            outline = outlined_schema(schema, pointer, error)
            rules[name] = _json_text(outline.schema, options)
            errors += outline.unenforced
            grammar = TurnGrammar(rules)
        else:
            return grammar


def _printed_schema(body: Body) -> str:
    return body.schema if isinstance(body, JsonText) else ""


def _json_text(enforced: Schema | bool, options: TurnOptions) -> JsonText:
    spelling = WHITE_SPACE["compact" if options.canonical else options.whitespace]
    return JsonText(
        json.dumps({"x-guidance": spelling, **({} if isinstance(enforced, bool) else enforced)})
    )


def _before(options: TurnOptions) -> list[Part]:
    """Write the messages that may precede the answer or the call."""
    kinds = ["reasoning"] * options.reasoning + ["preamble"] * options.preambles
    if not kinds:
        return []
    if options.message_limits is not None:
        nested: list[Part] = []
        for index in reversed(range(len(options.message_limits))):
            message = Choice(tuple(RuleName(f"{kind}_{index}") for kind in kinds))
            nested = [Optional(Sequence((message, *nested)) if nested else message)]
        return nested
    names = tuple(map(RuleName, kinds))
    most = options.reasoning_messages
    if most is None or not options.reasoning:
        return [Repeat(Choice(names) if len(names) == 2 else names[0])]
    reasoning, *preambles = names
    following = tuple(map(Repeat, preambles))
    bounded = Sequence((reasoning, *following)) if following else reasoning
    return [*following, Repeat(bounded, 0, most)]


def _other_messages(options: TurnOptions) -> Iterator[tuple[str, Body]]:
    if options.message_limits is not None:
        for index, limit in enumerate(options.message_limits):
            if options.reasoning:
                yield f"reasoning_{index}", _message("analysis", f"thought_{index}")
                yield f"thought_{index}", FreeText(limit)
            if options.preambles:
                texts = min(limit, options.text_tokens or limit)
                yield f"preamble_{index}", _message("commentary", f"remark_{index}")
                yield f"remark_{index}", FreeText(texts)
        return
    if options.reasoning:
        yield "reasoning", _message("analysis", "thought")
        yield "thought", FreeText(options.reasoning_tokens)
    if options.preambles:
        yield "preamble", _message("commentary", "text")


def _message(channel: str, body: str) -> Part:
    """Write a message without a recipient that does not end the turn."""
    header = Special(CHANNEL), Literal(channel), Special(MESSAGE)
    return Sequence((*header, RuleName(body), Special(END), Special(START), Literal("assistant")))


def _answer(
    schemas: list[tuple[str, object]], options: TurnOptions, errors: list[GrammarError]
) -> Iterator[tuple[str, Body]]:
    header = Special(CHANNEL), Literal("final")
    if not schemas:
        text_format = requested_text(options.response_format or {})
        body = _TEXT if text_format is None else RuleName("answer_text")
        yield "answer", Sequence((*header, Special(MESSAGE), body, Special(RETURN)))
        if text_format is not None:
            yield "answer_text", ClientText(text_rule(text_format, "response_format"))
        return
    bodies = Choice(tuple(RuleName(f"answer_{index}") for index in range(len(schemas))))
    content_type = Sequence(()) if options.canonical else _JSON_TYPE
    yield "answer", Sequence((*header, content_type, Special(MESSAGE), bodies, Special(RETURN)))
    for index, (pointer, schema) in enumerate(schemas):
        yield f"answer_{index}", _json(schema, pointer, options, None, errors)


def requested_text(response_format: Mapping[str, Any]) -> TextFormat | None:
    """Return the text format of an answer; None for other kinds of response formats.

    >>> requested_text({"type": "choice", "choices": ["yes", "no"]})
    TextFormat(syntax='lark', definition='start: "yes" | "no"')
    """
    kind = response_format.get("type")
    if kind == "regex":
        return TextFormat("regex", str(response_format["pattern"]))
    if kind == "choice":
        choices = " | ".join(
            json.dumps(text, ensure_ascii=False) for text in response_format["choices"]
        )
        return TextFormat("lark", f"start: {choices}")
    if kind == "grammar":
        definition = str(response_format["grammar"])
        return TextFormat("gbnf" if "::=" in definition else "lark", definition)
    if kind == "structural_tag":
        return TextFormat("lark", tagged_text(response_format))
    return None


def _call(
    index: int, call: Call, options: TurnOptions, errors: list[GrammarError]
) -> Iterator[tuple[str, Body]]:
    recipient, channel = f" to={call.recipient}", (Special(CHANNEL), RuleName("call_channel"))
    text_format = options.tool_texts.get(call.recipient)
    content_type, body = _CODE_TYPE, cast(Body, _TEXT)
    if text_format is not None:
        body = ClientText(text_rule(text_format, f"tools/{call.recipient}#/format/definition"))
    elif call.schema is not None:
        content_type = _JSON_TYPE if call.is_function else _TOOL_JSON_TYPE
        body = _json(call.schema, f"tools/{call.recipient}#", options, call.recipient, errors)
    header: tuple[Part, ...]
    if not options.canonical:
        named = Literal(recipient)
        header = Choice((Sequence((named, *channel)), Sequence((*channel, named)))), content_type
    elif text_format is not None:
        header = Special(CHANNEL), Literal(f"commentary{recipient} code")
    elif call.is_function:
        constrained = Special(CONSTRAIN), Literal("json")
        header = Special(CHANNEL), Literal(f"commentary{recipient} "), *constrained
    else:
        header = Special(CHANNEL), Literal(f"analysis{recipient} code")
    name = f"body_{index}"
    yield f"call_{index}", Sequence((*header, Special(MESSAGE), RuleName(name), Special(CALL)))
    yield name, body


# Servers get the same tools with every request, so the text for a schema is cached, with the length
# of its key, which may be longer than the text. The tool's name is not part of the key: errors have
# pointers inside the schema, and get the name afterwards.
_Key: TypeAlias = tuple[bytes, bool, str, int]
_written: SharedCache[_Key, tuple[str, tuple[GrammarError, ...], int]] = SharedCache(
    16 * 1024 * 1024, lambda entry: len(entry[0]) + 500 * len(entry[1]) + entry[2]
)


def _json(
    schema: Any,
    pointer: str,
    options: TurnOptions,
    recipient: str | None,
    errors: list[GrammarError],
) -> JsonText:
    """Write the JSON that the schema of a call or of the answer allows."""
    data = fingerprint(schema)
    loosens = options.loosens(recipient)
    whitespace = "compact" if options.canonical else options.whitespace

    def write() -> tuple[str, tuple[GrammarError, ...], int]:
        compiled = loosened_schema if loosens else narrowed_schema
        enforced, *reported = compiled(schema, steps=options.schema_steps)
        found = *reported[0], *reported[1]
        return _json_text(enforced, options).schema, found, len(data or b"") + 500

    key = data or b"", loosens, whitespace, options.schema_steps
    try:
        text, found, _ = write() if data is None else _written.get_or_make(key, write)
    except GrammarError as error:
        raise error.inside(pointer) from None
    errors += (error.inside(pointer) for error in found)
    return JsonText(text)
