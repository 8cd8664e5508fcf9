"""What holds for any input, however hostile: each promise takes a case and raises when broken.

A case is JSON data, as `fuzz.inputs` makes it and as ``tests/data/hostile`` keeps it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args
from unittest.mock import patch

from gpt_oss_harmony import (
    Conversation,
    ConversationError,
    DeveloperContent,
    HarmonyError,
    Message,
    Recovery,
    RenderConversationConfig,
    Role,
    SchemaDialect,
    StreamableParser,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.rendering.system_prompt import tool_declaration
from gpt_oss_harmony.tokens import tiktoken_core
from gpt_oss_harmony.tokens.encoder import FirstTexts
from gpt_oss_harmony.tokens.special_tokens import CONSTRAIN, VOCABULARY_SIZE
from gpt_oss_harmony.typescript.json_text import compact_json, json_value

from .inputs import (
    Choices,
    read_conversation,
    read_header,
    read_schema,
    read_text,
    read_tokens,
)

__all__ = ["PROMISES", "READERS"]

ENCODING = load_harmony_encoding("HarmonyGptOss")
ENCODING.encode("é")  # not ASCII: from now on tiktoken encodes
FIRST_TEXTS = FirstTexts()
CHUNKS = (2, 7, 4096)
_UNNOTED = re.compile(
    "could not decode header|Unexpected EOS|Unknown role: (user|assistant|system|developer):"
)
"""Errors of strict mode, which are the reference's, for what lenient mode need not repair."""
DIALECTS: tuple[SchemaDialect, ...] = get_args(SchemaDialect)


class _Outcome(NamedTuple):
    """All that parsing has to tell."""

    messages: list[dict[str, Any]]
    error: str | None
    recoveries: list[Recovery]
    incomplete: bool


def parser_promise(case: Mapping[str, Any]) -> None:
    """Cutting the stream changes nothing; only strict mode raises, and only a `HarmonyError`."""
    strict = _parse(case, strict=True, chunk=None)
    for chunk in CHUNKS:
        cut = _parse(case, strict=True, chunk=chunk)
        assert cut.error == strict.error
        if strict.error is None:
            assert cut == strict
    lenient = _parse(case, strict=False, chunk=None)
    assert lenient.error is None, lenient.error
    for chunk in CHUNKS:
        assert _parse(case, strict=False, chunk=chunk) == lenient
    if not lenient.recoveries and strict.error is not None:
        # In lenient mode a space may follow <|constrain|>, as in an example of the guide, and any
        # white space stands between words.
        white = re.search(r"[^\S\x09-\x0d\x20]|\x0b|\\u\{", strict.error)
        unnoted = _UNNOTED.match(strict.error) or white
        assert unnoted or CONSTRAIN in case["tokens"], strict.error
    if not lenient.recoveries and strict.error is None:
        # The same bodies; a single word of a header may be the recipient or the content type.
        assert [m["content"] for m in lenient.messages] == [m["content"] for m in strict.messages]
        assert lenient.incomplete == strict.incomplete
    if all(0 <= token < VOCABULARY_SIZE for token in case["tokens"]):
        ENCODING.decode(case["tokens"])


def _parse(case: Mapping[str, Any], *, strict: bool, chunk: int | None) -> _Outcome:
    parser = StreamableParser(ENCODING, case["role"], strict=strict, tools=case["tools"])
    tokens = case["tokens"]
    deltas: dict[int, str] = {}
    error = None
    try:
        if chunk is None:
            for token in tokens:
                parser.process(token)
                parser.current_content  # noqa: B018 - reading it must change nothing
        else:
            for start in range(0, len(tokens), chunk):
                for message, text, *_ in parser.process_many(tokens[start : start + chunk]):
                    deltas[message] = deltas.get(message, "") + text
        parser.process_eos()
    except (HarmonyError, OverflowError) as raised:
        error = str(raised)
    messages = [message.to_dict() for message in parser.messages]
    if error is None:
        for at, text in deltas.items():
            assert messages[at]["content"][0]["text"].startswith(text), (at, text)
    return _Outcome(messages, error, parser.recoveries, parser.incomplete)


def header_promise(case: Mapping[str, Any]) -> None:
    """As for any tokens; and what either mode makes of a header is rendered or refused."""
    parser_promise(case)
    for strict in (True, False):
        for message in _parse(case, strict=strict, chunk=4096).messages:
            _render(Conversation.from_messages([Message.from_dict(message)]))


def text_promise(texts: list[str]) -> None:
    """Texts come back; where they are cut does not show in their tokens."""
    encode = ENCODING.tokenizer.encode_ordinary
    singly = [encode(text) for text in texts]
    for text, tokens in zip(texts, singly, strict=True):
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert ENCODING.decode(tokens) == whole
        assert ENCODING.encode(text, disallowed_special=()) == tokens
        FIRST_TEXTS.left = len(text)
        assert FIRST_TEXTS.encode(text) in (tokens, None)
    assert [list(tokens) for tokens in ENCODING.tokenizer.encode_many(texts)] == singly
    for limit in (2, 3, 7):
        with patch.object(tiktoken_core, "WHITE_LIMIT", limit):
            assert [encode(text) for text in texts] == singly
            assert [list(tokens) for tokens in ENCODING.tokenizer.encode_many(texts)] == singly


def schema_promise(schema: Any) -> None:
    """A schema is written, or refused with a `HarmonyError`; nothing in it escapes its type."""
    tool = ToolDescription.new("f", "Does.", schema)
    for dialect in DIALECTS:
        try:
            declaration = tool_declaration(tool, dialect)
        except HarmonyError:
            continue
        if dialect == "typescript":
            assert _code(declaration)
    content = DeveloperContent.new().with_function_tools([tool]).with_response_format("r", schema)
    conversation = Conversation.from_messages(
        [Message.from_role_and_content(Role.DEVELOPER, content)]
    )
    _render(conversation)
    try:
        value = json_value(schema)
    except HarmonyError:
        return
    assert json_value(json.loads(json.dumps(value))) == json_value(value)
    json.loads(compact_json(value))


_NOT_CODE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')
_PAIRS = {")": "(", "]": "[", "}": "{"}


def _code(declaration: str) -> bool:
    """Tell whether the brackets outside strings and comments are balanced."""
    open_brackets: list[str] = []
    for letter in _NOT_CODE.sub("", declaration):
        if letter in _PAIRS.values():
            open_brackets.append(letter)
        elif letter in _PAIRS and (not open_brackets or open_brackets.pop() != _PAIRS[letter]):
            return False
    return not open_brackets


def conversation_promise(text: str) -> None:
    """JSON text is a conversation that can be written and read again, or a `ConversationError`."""
    try:
        conversation = Conversation.from_json(text)
    except ConversationError:
        return
    _render(conversation)
    # JSON leaves None out, for which a system message has defaults; then nothing changes any more.
    written = Conversation.from_json(conversation.to_json())
    assert Conversation.from_json(written.to_json()) == written


def _render(conversation: Conversation) -> None:
    for dialect in DIALECTS:
        config = RenderConversationConfig(schema_dialect=dialect)
        try:
            tokens = ENCODING.render_conversation_for_completion(
                conversation, Role.ASSISTANT, config
            )
        except HarmonyError:
            continue
        ENCODING.decode_utf8(tokens)


PROMISES: dict[str, Callable[[Any], None]] = {
    "parser": parser_promise,
    "header": header_promise,
    "text": text_promise,
    "schema": schema_promise,
    "conversation": conversation_promise,
}

READERS: dict[str, Callable[[Choices], Any]] = {
    "parser": read_tokens,
    "header": read_header,
    "text": read_text,
    "schema": read_schema,
    "conversation": read_conversation,
}
