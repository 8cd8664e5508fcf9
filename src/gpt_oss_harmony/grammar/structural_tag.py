"""The turn as a structural tag of xgrammar, for engines that cannot use the grammar of `turn`.

The tag accepts everything that `turn_grammar` accepts, except some spellings of JSON, and more. A
structural tag cannot express these restrictions:

- The stop token of the turn. xgrammar allows any stop token of the engine after a complete tag:
  ``<|call|>`` may end an answer, and ``<|return|>`` a call.
- No special tokens in a JSON string (it may spell one). Only the engine's stop tokens are
  forbidden there.
- No text that looks like ``<|word|>``. A text neither contains nor spells a special token; it
  cannot contain ``<|reserved_``, with which most of them begin.
- The amount of white space in JSON.
- The keywords of a schema that `xgrammar_schema` leaves out and xgrammar ignores.
  docs/guides/structural-tag.md lists them, and the values that xgrammar rejects.

Written for xgrammar 0.2.8, which has ``token``, ``repeat`` and ``max_tokens``.
"""

from __future__ import annotations

from typing import Any

from ..conversation.messages import Conversation, checked_conversation
from ..tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    SPECIAL_TEXTS,
    START,
)
from .errors import GrammarError
from .json_schema import enforceable_schema, loosened_schema
from .options import (
    Call,
    TurnOptions,
    chosen_calls,
    declared_calls,
    requested_schemas,
    requested_text,
)
from .xgrammar_schema import xgrammar_schema

__all__ = ["structural_tag"]

Format = dict[str, Any]
"""A format object of xgrammar."""

# A text must not contain these: the named special tokens, and the beginning of the reserved ones.
# If each reserved token were listed, a mask would take ten times longer.
_RESERVED = "<|reserved_"
_SPELLED = [
    *(text for text in SPECIAL_TEXTS.values() if not text.startswith(_RESERVED)),
    _RESERVED,
]


def structural_tag(
    conversation: Conversation, options: TurnOptions | None = None
) -> dict[str, Any]:
    """Return xgrammar's structural tag for the next turn of the assistant, as JSON data.

    Raises `GrammarError` for what `turn_grammar` cannot enforce, and for formats of text.

    >>> from gpt_oss_harmony import Message, Role
    >>> hi = Conversation.from_messages([Message.from_role_and_content(Role.USER, "hi")])
    >>> tag = structural_tag(hi, TurnOptions(reasoning=False, preambles=False))
    >>> tag["format"]["elements"][:2]
    [{'type': 'token', 'token': 200005}, {'type': 'const_string', 'value': 'final'}]
    """
    options = TurnOptions.checked(options)
    if options.tool_texts or requested_text(options.response_format or {}) is not None:
        raise GrammarError("xgrammar cannot enforce formats of text", remedy="use turn_grammar")
    choice = options.read_tool_choice()
    calls = chosen_calls(choice, declared_calls(checked_conversation(conversation).messages))
    endings = [_call(call, options) for call in calls]
    if choice.mode != "required":
        endings.insert(0, _answer(conversation, options))
    return {"type": "structural_tag", "format": _sequence(*_before(options), _one_of(endings))}


def _before(options: TurnOptions) -> list[Format]:
    """Write the messages that may precede the answer or the call."""

    def messages(limit: int | None) -> list[Format]:
        """Return the messages of one place; `limit` applies to both kinds."""
        texts = options.text_tokens if limit is None else min(limit, options.text_tokens or limit)
        reasoning = _message("analysis", limit or options.reasoning_tokens)
        preamble = _message("commentary", texts)
        return [reasoning] * options.reasoning + [preamble] * options.preambles

    if not messages(None):
        return []
    if options.message_limits is not None:
        nested: list[Format] = []
        for limit in reversed(options.message_limits):
            content = _sequence(_one_of(messages(limit)), *nested)
            nested = [{"type": "optional", "content": content}]
        return nested
    most = options.reasoning_messages
    if most is None or not options.reasoning:
        return [{"type": "star", "content": _one_of(messages(None))}]
    reasoning, *preamble = messages(None)
    preambles = [{"type": "star", "content": message} for message in preamble]
    bounded = {"type": "repeat", "min": 0, "max": most, "content": _sequence(reasoning, *preambles)}
    return [*preambles, bounded]


def _message(channel: str, tokens: int | None) -> Format:
    """Write a message without a recipient that does not end the turn."""
    return _sequence(
        *(_token(CHANNEL), _text(channel), _token(MESSAGE), _free_text(tokens), _token(END)),
        *(_token(START), _text("assistant")),
    )


def _answer(conversation: Conversation, options: TurnOptions) -> Format:
    header = [_token(CHANNEL), _text("final")]
    schemas = requested_schemas(conversation, options)
    if not schemas:
        body = _free_text(options.text_tokens)
        return _sequence(*header, _token(MESSAGE), body, _stop(RETURN))
    bodies = [_json(schema, pointer, options, None) for pointer, schema in schemas]
    return _sequence(*header, _type("json"), _token(MESSAGE), _one_of(bodies), _stop(RETURN))


def _call(call: Call, options: TurnOptions) -> Format:
    recipient = _text(f" to={call.recipient}")
    channel = _one_of([_text("commentary"), _text("analysis")])
    header = _one_of(
        [
            _sequence(recipient, _token(CHANNEL), channel),
            _sequence(_token(CHANNEL), channel, recipient),
        ]
    )
    if call.schema is None:
        content_type, body = _type("code"), _free_text(options.text_tokens)
    else:
        content_type = _type("json") if call.is_function else _type("json", "code")
        pointer = f"tools/{call.recipient}#"
        body = _json(call.schema, pointer, options, call.recipient)
    return _sequence(header, content_type, _token(MESSAGE), body, _stop(CALL))


def _type(*names: str) -> Format:
    """Write a content type, or none."""
    plain = [_text(f" {name}") for name in names]
    constrained = _sequence(
        _optional(_text(" ")), _token(CONSTRAIN), _one_of([_text(name) for name in names])
    )
    return _optional(_one_of([*plain, constrained]))


def _json(schema: object, pointer: str, options: TurnOptions, recipient: str | None) -> Format:
    steps = options.schema_steps
    if options.loosens(recipient):
        enforced = loosened_schema(schema, pointer, steps=steps).schema
    else:
        enforced = enforceable_schema(schema, pointer, steps=steps)
    return {"type": "json_schema", "json_schema": xgrammar_schema(enforced)}


def _free_text(tokens: int | None) -> Format:
    """Write text without special tokens, which xgrammar would read as text.

    The regular expression of `turn_grammar` is more exact, but its masks take 0.2 s each.
    """
    bound = {} if tokens is None else {"max_tokens": tokens}
    return {"type": "any_text", "excludes": _SPELLED, **bound}


def _stop(token: int) -> Format:
    """Write a stop token for engines that do not stop at it; others allow theirs after the tag."""
    return _optional(_token(token))


def _token(token: int) -> Format:
    return {"type": "token", "token": token}


def _text(value: str) -> Format:
    return {"type": "const_string", "value": value}


def _optional(content: Format) -> Format:
    return {"type": "optional", "content": content}


def _sequence(*elements: Format) -> Format:
    """Write a sequence of formats, flattened."""
    flat: list[Format] = []
    for element in elements:
        flat += element["elements"] if element["type"] == "sequence" else [element]
    return flat[0] if len(flat) == 1 else {"type": "sequence", "elements": flat}


def _one_of(elements: list[Format]) -> Format:
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": elements}
