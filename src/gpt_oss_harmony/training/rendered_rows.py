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

    Raises `ConversationError` if the text ends inside a message, because its rest is not known.

    >>> text = "<|start|>user<|message|>hi<|end|><|start|>assistant<|channel|>final<|message|>ho"
    >>> [m.channel for m in read_rendered(JsonField({"text": f"{text}<|return|>"})).messages]
    [None, 'final']
    """
    name = next((name for name in _COLUMNS if _is_rendered(row[name].value)), _COLUMNS[0])
    columns, texts = [name], [row[name].text().strip()]
    if name == "prompt" and isinstance(row["completion"].value, str):
        columns.append("completion")
        texts.append(row["completion"].text().strip())
    texts[-1] = texts[-1].removesuffix(_OPENING)  # of a prompt, for the answer that follows
    encoding = load_harmony_encoding("HarmonyGptOss")
    parser = StreamableParser(encoding, None, strict=False)
    tokens: list[int] = []
    asked = 0
    for text in texts:
        asked = len(parser.messages)
        parser.process_many(tokens := encoding.encode(text, allowed_special="all") or tokens)
    parser.process_eos()
    if tokens and tokens[-1] not in STOP_TOKENS:
        raise row[name].error(
            "the rendered text ends inside a message, of which the rest is missing; append its "
            "stop token, or remove the row"
        )
    repairs = [recovery.kind.value for recovery in parser.recoveries]
    for message in parser.messages:
        if message.author.role is Role.ASSISTANT and message.channel is None:
            repairs.append("no-channel")
    return RenderedText(parser.messages, repairs, columns, asked)
