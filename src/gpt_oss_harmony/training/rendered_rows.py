"""Rows whose text is rendered harmony already, read back to messages by the lenient parser.

Chat templates write ``<|start|>user<|message|>...`` into a column, `text` or `prompt` (Unsloth,
ms-swift and many sets on the hub). Trained on as it stands, all of it is learned, also what users
and tools say. Read back, only what the model samples has labels. The system and developer messages
stay the texts that they are, with the tools in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..conversation.json_field import JsonField
from ..conversation.messages import Message, Role
from ..encoding import load_harmony_encoding
from ..parsing.parser import StreamableParser
from ..tokens.special_tokens import STOP_TOKENS

_START, _OPENING = "<|start|>", "<|start|>assistant"
_COLUMNS = ("text", "prompt")


def holds_rendered_text(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a text that begins with a message of harmony.

    >>> holds_rendered_text({"text": "<|start|>user<|message|>hi<|end|>"})
    True
    """
    return any(_is_rendered(row.get(name)) for name in _COLUMNS)


def _is_rendered(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip().startswith(_START)


class RenderedText(NamedTuple):
    """The messages of a text, the repairs that they needed, and the columns that have the text.

    The first `asked` messages are those of a prompt with a completion.
    """

    messages: list[Message]
    repairs: list[str]
    columns: list[str]
    asked: int = 0


def read_rendered(row: JsonField) -> RenderedText:
    """Parse the text of a row; a text in `completion` goes on after `prompt`.

    Raises `ConversationError` if the text ends inside a message, because its rest is not known, if
    the prompt does, because a part of the answer would not be learned, and for an empty completion.

    >>> text = "<|start|>user<|message|>hi<|end|><|start|>assistant<|channel|>final<|message|>ho"
    >>> [m.channel for m in read_rendered(JsonField({"text": f"{text}<|return|>"})).messages]
    [None, 'final']
    """
    fields = [next((row[name] for name in _COLUMNS if _is_rendered(row[name].value)), row["text"])]
    if fields[0].path == "prompt" and not row["completion"].is_null:
        fields.append(row["completion"])
    encoding = load_harmony_encoding("HarmonyGptOss")
    parser = StreamableParser(encoding, None, strict=False)
    opening = ""  # at the end of a prompt, for the answer that follows
    asked = 0
    for field in fields:
        asked = len(parser.messages)
        text = field.text().strip()
        written = text.removesuffix(_OPENING)
        if not written and field is not fields[0]:
            raise field.error("no answer is there to learn; write it, or remove the row")
        tokens = encoding.encode(opening + written, allowed_special="all")
        if tokens and tokens[-1] not in STOP_TOKENS:
            remedy = "append its stop token, or remove the row"
            if field is not fields[-1]:
                remedy = f"move what follows the last {_OPENING} to the completion"
            problem = "the rendered text ends inside a message, of which the rest is missing"
            raise field.error(f"{problem}; {remedy}")
        parser.process_many(tokens)
        opening = text.removeprefix(written)
    parser.process_eos()
    repairs = [recovery.kind.value for recovery in parser.recoveries]
    for message in parser.messages:
        if message.author.role is Role.ASSISTANT and message.channel is None:
            repairs.append("no-channel")
    return RenderedText(parser.messages, repairs, [field.path for field in fields], asked)
