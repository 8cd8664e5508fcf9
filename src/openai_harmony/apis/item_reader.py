"""Items of the Responses API come in; what they say goes into a dialogue.

==============================  =================================================================
``message``                     a message; those of system and developer are instructions
``reasoning``                   reasoning: its content, what it holds encrypted, or its summary
``function_call``               a call
``custom_tool_call``            the call of a function of one text
``..._call_output`` of both     the result of the call with that `call_id`
``item_reference``              the item of that id
``compaction``                  the items that it holds encrypted
``additional_tools``            nothing here: `additional_tools` reads them before
calls of built-in tools         the call and the tool's answer, where this server made the item
calls of other servers' tools   nothing: the model has no such tools, and their results are in
                                what the assistant said
==============================  =================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..conversation.json_field import JsonField
from ..conversation.messages import Message
from ..errors import ConversationError
from .content_parts import content_texts
from .conversation_builder import Dialogue
from .history import HistoryItem, Unseal

__all__ = ["ItemReader", "additional_tools"]

_LEFT_OUT = {
    "additional_tools",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "configuration_update",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
}
# Other servers ran these. The model knows no such calls, and what came of them stands in the
# assistant's next message; written as text they would only teach the model to write such text.

_CHANNELS = {"commentary": "commentary", "final_answer": "final"}

_REMEDY = "send the item of the call as well, or previous_response_id"


class ItemReader:
    """Reads items into a dialogue; `references` are the items that may be named by their ids."""

    def __init__(
        self,
        dialogue: Dialogue,
        unseal: Unseal | None = None,
        references: Mapping[str, HistoryItem] | None = None,
    ) -> None:
        self._dialogue = dialogue
        self._unseal = unseal
        self._references = references or {}

    def read(
        self,
        item: JsonField,
        tokens: Sequence[int] | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Read an item; `tokens` and `messages` are those of a `HistoryItem`.

        Raises `ConversationError`.
        """
        if messages:
            call, *answers = (Message.from_dict(dict(message)) for message in messages)
            self._dialogue.add_exchange(call, answers, tokens)
            return
        kind = _kind(item)
        if kind in _LEFT_OUT:
            return
        read = _READERS.get(kind)
        if read is None:
            known = ", ".join(_READERS)
            raise item["type"].error(
                f"items of the type {kind!r:.80} are not known; the model reads {known}"
            )
        read(self, item, tokens)

    def read_all(self, history: Iterable[HistoryItem], place: str) -> None:
        """Read items with their tokens; `place` is where they stand, for errors."""
        for at, known in enumerate(history):
            self.read(JsonField(known.item, f"{place}[{at}]"), known.tokens, known.messages)

    def _read_message(self, item: JsonField, tokens: Sequence[int] | None) -> None:
        role = item["role"]
        texts = content_texts(item["content"])
        if role.text() in ("system", "developer"):
            self._dialogue.add_instructions(texts)
        elif role.value == "user":
            self._dialogue.add_question(texts)
        elif role.value == "assistant":
            self._dialogue.add_text(texts, _channel(item["phase"]), tokens)
        else:
            raise role.unexpected("one of user, assistant, system, developer")

    def _read_reasoning(self, item: JsonField, tokens: Sequence[int] | None) -> None:
        if item["content"].value:
            self._dialogue.add_reasoning(content_texts(item["content"]), tokens)
            return
        sealed = item["encrypted_content"]
        known = None if sealed.is_null else self._open(sealed)
        if known is not None:
            self.read_all(known, sealed.path)
        elif item["summary"].value:
            # Another server's encrypted reasoning cannot be read; a summary says what it was about.
            self._dialogue.add_reasoning(content_texts(item["summary"]))

    def _read_call(self, item: JsonField, tokens: Sequence[int] | None) -> None:
        self._dialogue.add_call(
            item["call_id"].text(),
            item["name"].text(),
            item["namespace"].optional_text(),
            item["arguments"].text(),
            tokens,
        )

    def _read_custom_call(self, item: JsonField, tokens: Sequence[int] | None) -> None:
        self._dialogue.add_custom_call(
            item["call_id"].text(),
            item["name"].text(),
            item["namespace"].optional_text(),
            item["input"].text(),
            tokens,
        )

    def _read_result(self, item: JsonField, _tokens: Sequence[int] | None) -> None:
        texts = content_texts(item["output"])
        self._dialogue.add_result(item["call_id"], texts, remedy=_REMEDY)

    def _read_reference(self, item: JsonField, _tokens: Sequence[int] | None) -> None:
        known = self._references.get(item["id"].text())
        if known is None:
            raise item["id"].error(f"no item is stored under the id {item['id'].value!r:.80}")
        found = JsonField(known.item, item.path)
        if _kind(found) == "item_reference":
            raise item["id"].error("the item of that id is a reference itself")
        self.read(found, known.tokens, known.messages)

    def _read_compaction(self, item: JsonField, _tokens: Sequence[int] | None) -> None:
        sealed = item["encrypted_content"]
        known = self._open(sealed)
        if known is None:
            raise sealed.error(
                "this server cannot open it: it was made elsewhere, or under another key; "
                "send the items that it stands for"
            )
        self.read_all(known, sealed.path)

    def _open(self, sealed: JsonField) -> Sequence[HistoryItem] | None:
        text = sealed.text()
        return None if self._unseal is None else self._unseal(text)


_READERS = {
    "message": ItemReader._read_message,
    "reasoning": ItemReader._read_reasoning,
    "function_call": ItemReader._read_call,
    "function_call_output": ItemReader._read_result,
    "custom_tool_call": ItemReader._read_custom_call,
    "custom_tool_call_output": ItemReader._read_result,
    "item_reference": ItemReader._read_reference,
    "compaction": ItemReader._read_compaction,
}


def additional_tools(items: Iterable[JsonField]) -> Iterable[JsonField]:
    """Find the tools that items declare beside those of the request."""
    for item in items:
        if item["type"].value == "additional_tools":
            yield from item["tools"].optional_items()


def _kind(item: JsonField) -> str:
    kind = item["type"]
    if not kind.is_null:
        return kind.text()
    if not item["role"].is_null:
        return "message"
    if not item["id"].is_null:
        return "item_reference"
    raise _without_type(item)


def _without_type(item: JsonField) -> ConversationError:
    return item["type"].unexpected("the type of an item, or the role of a message")


def _channel(phase: JsonField) -> str | None:
    if phase.is_null:
        return None
    if phase.text() not in _CHANNELS:
        raise phase.unexpected(f"one of {', '.join(_CHANNELS)}")
    return _CHANNELS[phase.value]
