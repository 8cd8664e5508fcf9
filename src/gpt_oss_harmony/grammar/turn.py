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
from .errors import GrammarError, StepLimitError
from .json_schema import loosened_schema, narrowed_schema, outlined_schema
from .json_schema.budget import Budget, budget_of
from .json_spelling import WHITE_SPACE
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
    ending = Choice(tuple(endings)) if len(endings) > 1 else endings[0]
    answers: list[tuple[str, object]] = []
    rules: dict[str, Body] = {"start": Sequence((*_before(options), ending))}
    rules |= _other_messages(options)
    with budget_of(None, "") as budget:  # only counts the steps of the schemas
        schemas = _Schemas(options, budget)
        if choice.mode != "required":
            answers = requested_schemas(conversation, options)
            rules |= _answer(answers, options, schemas)
        if calls and not options.canonical:
            # For either kind of tool: models call functions on `analysis`, too.
            rules["call_channel"] = Choice((Literal("commentary"), Literal("analysis")))
        for index, call in enumerate(calls):
            rules |= _call(index, call, options, schemas)
        rules["text"] = FreeText(options.text_tokens)
        grammar = _compiling(rules, answers, calls, options, schemas)
    unenforced = tuple(error for error in schemas.errors if not error.narrows)
    narrowed = tuple(error for error in schemas.errors if error.narrows)
    return TurnConstraint(grammar, unenforced, narrowed)


def begun_answer() -> TurnConstraint:
    """Return the grammar for the rest of an answer whose header and first text are in the prompt.

    >>> print(begun_answer().grammar.splitlines()[0])
    start: text <|return|>
    """
    return TurnConstraint(
        TurnGrammar({"start": Sequence((_TEXT, Special(RETURN))), "text": FreeText()})
    )


# The engine refused 700 bounded integers with 15 digits, and took 500. Without bounds, it takes
# what the limits of one schema leave.
_SURE_BOUNDS = 300
_SURE_SIZE = 100_000  # characters


class _SchemaRule(NamedTuple):
    """A rule for JSON, the pointer to its schema, and for a call, its recipient."""

    rule: str
    pointer: str
    schema: object
    recipient: str | None


def _compiling(
    rules: dict[str, Body],
    answers: list[tuple[str, object]],
    calls: list[Call],
    options: TurnOptions,
    schemas: _Schemas,
) -> TurnGrammar:
    """Return a grammar that compiles: the schemas may be too large together for the engine.

    The largest schemas then keep only their types and property names, if they may be loosened: no
    more of them than necessary, which takes few trials.
    """
    limits_numbers = options.numbers == "64-bit"
    grammar = TurnGrammar(rules, limits_numbers=limits_numbers)
    # The keywords minimum and maximum, and both with `exclusive`.
    if grammar.count('imum": ') <= _SURE_BOUNDS and len(grammar) <= _SURE_SIZE:
        return grammar
    problem = _engine_problem(grammar)
    if not problem:
        return grammar
    of_rules = [
        *(_SchemaRule(f"answer_{index}", *answer, None) for index, answer in enumerate(answers)),
        *(
            _SchemaRule(f"body_{index}", f"tools/{call.recipient}#", call.schema, call.recipient)
            for index, call in enumerate(calls)
            if call.recipient not in options.tool_texts and call.schema is not None
        ),
    ]
    loosened = [one for one in of_rules if options.loosens(one.recipient)]
    loosened.sort(key=lambda one: len(_printed_schema(rules[one.rule])), reverse=True)
    outlines: dict[str, Body] = {}
    errors: list[list[GrammarError]] = []

    def with_outlines(count: int) -> TurnGrammar:
        """Write the grammar with outlines of the largest schemas."""
        for name, pointer, schema, _ in loosened[len(outlines) : count]:
            outlines[name], found = schemas.outline(schema, pointer, _too_large(problem, pointer))
            errors.append(found)
        outlined = {one.rule: outlines[one.rule] for one in loosened[:count]}
        return TurnGrammar({**rules, **outlined}, limits_numbers=limits_numbers)

    fewest, most = 1, 1
    while (failure := _engine_problem(with_outlines(min(most, len(loosened))))) != "":
        if most >= len(loosened):
            raise _too_large(failure, "")
        fewest, most = most + 1, most * 2
    most = min(most, len(loosened))
    while fewest < most:
        middle = (fewest + most) // 2
        if _engine_problem(with_outlines(middle)):
            fewest = middle + 1
        else:
            most = middle
    # Only those of the outlines that stay: the search has written more of them.
    schemas.errors += (error for found in errors[:most] for error in found)
    return with_outlines(most)


def _engine_problem(grammar: str) -> str:
    """Return why the engine cannot compile a grammar; empty if it can."""
    try:
        Matcher(grammar)
    except GrammarError as error:
        return error.problem
    return ""


def _too_large(problem: str, pointer: str) -> GrammarError:
    return GrammarError(
        f"the schemas of the turn are too large together: {problem}",
        remedy="use fewer tools, or fewer bounds of numbers and patterns",
        pointer=pointer,
    )


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
        # From the inside out: a message is possible only behind the one before it.
        for index in reversed(range(len(options.message_limits))):
            message = Choice(tuple(RuleName(f"{kind}_{index}") for kind in kinds))
            nested = [Optional(Sequence((message, *nested)) if nested else message)]
        return nested
    names = tuple(map(RuleName, kinds))
    most = options.reasoning_messages
    if most is None or not options.reasoning:
        return [Repeat(Choice(names) if len(names) == 2 else names[0])]
    # Only reasoning is counted: preambles may stand before it and behind each of its messages.
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
    answers: list[tuple[str, object]], options: TurnOptions, schemas: _Schemas
) -> Iterator[tuple[str, Body]]:
    header = Special(CHANNEL), Literal("final")
    if not answers:
        text_format = requested_text(options.response_format or {})
        body = _TEXT if text_format is None else RuleName("answer_text")
        yield "answer", Sequence((*header, Special(MESSAGE), body, Special(RETURN)))
        if text_format is not None:
            yield "answer_text", ClientText(text_rule(text_format, "response_format"))
        return
    bodies = Choice(tuple(RuleName(f"answer_{index}") for index in range(len(answers))))
    content_type = Sequence(()) if options.canonical else _JSON_TYPE
    yield "answer", Sequence((*header, content_type, Special(MESSAGE), bodies, Special(RETURN)))
    for index, (pointer, schema) in enumerate(answers):
        yield f"answer_{index}", schemas.json(schema, pointer, None)


def requested_text(response_format: Mapping[str, Any]) -> TextFormat | None:
    """Return the text format of an answer; None for other kinds of response formats.

    >>> requested_text({"type": "choice", "choices": ["yes", "no"]})
    TextFormat(syntax='lark', definition='start: "yes" | "no"')
    """
    kind = response_format.get("type")
    if kind == "regex":
        return TextFormat("regex", _text(response_format.get("pattern"), "pattern"))
    if kind == "choice":
        choices = response_format.get("choices")
        if not isinstance(choices, (list, tuple)) or not choices:
            problem = f"response_format: choices: expected a list of texts, found {choices!r:.80}"
            raise GrammarError(problem, remedy="list at least one")
        texts = [_text(text, f"choices/{index}") for index, text in enumerate(choices)]
        written = " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
        return TextFormat("lark", f"start: {written}")
    if kind == "grammar":
        definition = _text(response_format.get("grammar"), "grammar")
        return TextFormat("gbnf" if "::=" in definition else "lark", definition)
    if kind == "structural_tag":
        return TextFormat("lark", tagged_text(response_format))
    return None


def _text(text: object, name: str) -> str:
    if not isinstance(text, str):
        raise GrammarError(f"response_format: {name}: expected a text, found {text!r:.80}")
    return text


def _call(
    index: int, call: Call, options: TurnOptions, schemas: _Schemas
) -> Iterator[tuple[str, Body]]:
    recipient, channel = f" to={call.recipient}", (Special(CHANNEL), RuleName("call_channel"))
    text_format = options.tool_texts.get(call.recipient)
    content_type, body = _CODE_TYPE, cast(Body, _TEXT)
    if text_format is not None:
        body = ClientText(text_rule(text_format, f"tools/{call.recipient}#/format/definition"))
    elif call.schema is not None:
        content_type = _JSON_TYPE if call.is_function else _TOOL_JSON_TYPE
        body = schemas.json(call.schema, f"tools/{call.recipient}#", call.recipient)
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
        # The format guide has calls of built-in tools on `analysis`.
        header = Special(CHANNEL), Literal(f"analysis{recipient} code")
    name = f"body_{index}"
    yield f"call_{index}", Sequence((*header, Special(MESSAGE), RuleName(name), Special(CALL)))
    yield name, body


# Servers get the same tools with every request, so the text for a schema is cached, with the length
# of its key, which may be longer than the text. The tool's name is not part of the key: errors have
# pointers inside the schema, and get the name afterwards.
_Key: TypeAlias = tuple[bytes, bool, str, int]
_Written: TypeAlias = tuple[str, tuple[GrammarError, ...], int, int]  # ..., bytes, steps
_written: SharedCache[_Key, _Written] = SharedCache(
    16 * 1024 * 1024, lambda entry: len(entry[0]) + 500 * len(entry[1]) + entry[2]
)


class _Schemas:
    """Writes the JSON of a turn's schemas within one budget of steps.

    A schema pays the same if it was cached. The one that spends the last step is finished, so what
    is written does not depend on the cache. Each after it becomes an outline.
    """

    def __init__(self, options: TurnOptions, budget: Budget) -> None:
        self.errors: list[GrammarError] = []
        self._options = options
        self._budget = budget
        self._spent = 0
        self._spent_on_outlines = 0

    def json(self, schema: Any, pointer: str, recipient: str | None) -> JsonText:
        """Write the JSON that the schema of a call or of the answer allows."""
        options = self._options
        loosens = options.loosens(recipient)
        if self._spent > options.schema_steps:
            if not loosens:
                raise self._limit_error(pointer)
            body, found = self.outline(schema, pointer, self._limit_error(pointer))
            self.errors += found
            return body
        data = fingerprint(schema)
        whitespace = "compact" if options.canonical else options.whitespace

        def write() -> _Written:
            rewrite = loosened_schema if loosens else narrowed_schema
            before = self._budget.spent
            compiled = rewrite(schema, steps=options.schema_steps)
            found = *compiled.unenforced, *compiled.narrowed
            text = _json_text(compiled.schema, options).schema
            return text, found, len(data or b"") + 500, self._budget.spent - before

        key = data or b"", loosens, whitespace, options.schema_steps
        try:
            made = write() if data is None else _written.get_or_make(key, write)
        except GrammarError as error:
            raise error.inside(pointer) from None
        text, left_out, _, steps = made
        self._spent += steps
        self.errors += (error.inside(pointer) for error in left_out)
        return JsonText(text)

    def outline(
        self, schema: object, pointer: str, error: GrammarError
    ) -> tuple[JsonText, list[GrammarError]]:
        """Write only types and property names, which `error` makes necessary; return all errors."""
        before = self._budget.spent
        outline = outlined_schema(schema, pointer, error)
        self._spent_on_outlines += self._budget.spent - before
        if self._spent_on_outlines > self._options.schema_steps:
            raise self._limit_error(pointer)
        return _json_text(outline.schema, self._options), [*outline.unenforced]

    def _limit_error(self, pointer: str) -> StepLimitError:
        return StepLimitError(
            "compiling the schemas of the turn takes more than "
            f"{self._options.schema_steps:,} steps together (schema_steps)",
            remedy="use fewer tools, or fewer patterns and listed values, or raise the limit",
            pointer=pointer,
        )
