"""Input items of the Responses API, read into a `ConversationBuilder` and listed for storage.

==============================  =================================================================
``message``                     a message; those of system and developer are instructions
``reasoning``                   reasoning: its content, its encrypted content, or its summary
``function_call``               a call
``custom_tool_call``            a call of a function with one text argument
``shell_call``, ...             a call of one of `CLIENT_TOOLS`
``..._call_output`` of these    the result of the call with that `call_id`
``item_reference``              the item with that id
``compaction``                  the items in its encrypted content; it stands for all before it
``additional_tools``            skipped: `additional_tools` has read them before
calls of built-in tools         the call and the tool's messages, if this server ran the call
``mcp_approval_response``       the call and that it was declined; nothing for an approved one
calls of other servers' tools   skipped: the model does not have these tools, and the assistant's
                                text contains their results
==============================  =================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...conversation.built_in_tools import is_call_item
from ...conversation.json_field import JsonField
from ...conversation.messages import Message
from ..client_tools import CLIENT_TOOLS, ClientTool, call_arguments, client_tool_of
from ..conversation_builder import ConversationBuilder, content_texts
from ..items import Decrypt, HistoryItem, NewId
from ..requested_tools import read_tool_name

_SKIPPED = {
    "additional_tools",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "configuration_update",
    "file_search_call",
    "image_generation_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_list_tools",
    "program",
    "program_output",
}
# Other servers ran these tools. If the prompt had them as text, the model would imitate that text.

_CHANNELS = {"commentary": "commentary", "final_answer": "final"}

_SEALED = (
    "this server cannot decrypt it: it was changed, or encrypted elsewhere or with another key; {}"
)
_REMEDY = "send the item of the call as well, or previous_response_id"


class ItemReader:
    """Reads items into a builder; `references` are the items that the input may name by id.

    `instructions` are those of the request itself, which a compaction does not replace.
    """

    def __init__(
        self,
        builder: ConversationBuilder,
        decrypt: Decrypt | None = None,
        references: Mapping[str, HistoryItem] | None = None,
        instructions: str | None = None,
    ) -> None:
        self._builder = builder
        self._instructions = instructions
        self._decrypt = decrypt
        self._references = references or {}
        self._call_ids: dict[str, str] = {}  # of calls of clients' tools, by the ids of the items

    def read(
        self,
        item: JsonField,
        tokens: Sequence[int] | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Read an item; `tokens` and `messages` are those of a `HistoryItem`.

        Raises `ConversationError`.
        """
        if item["type"].value == "mcp_approval_request":
            return  # its answer, or the call itself, is another item
        if messages:
            call, *results = (Message.from_dict(dict(message)) for message in messages)
            self._builder.add_exchange(call, results, tokens)
            return
        kind = _item_type(item)
        if kind in _SKIPPED or is_call_item(kind):
            return
        item.accept("id")
        if item["role"].value in (None, "assistant"):
            item.accept("status")  # of an item that comes back
        tool, read = client_tool_of(kind), _READERS.get(kind)
        if tool is not None:
            self._read_client_item(tool, item, tokens)
            return
        if read is None:
            raise item["type"].error(
                f"the item type {kind!r:.80} is unknown; use one of {', '.join(_READERS)}"
            )
        read(self, item, tokens)

    def read_all(self, items: Iterable[HistoryItem], path: str) -> None:
        """Read items with their tokens; `path` is the list's JSON path, for errors."""
        for index, (item, tokens, messages) in enumerate(items):
            self.read(JsonField(item, f"{path}[{index}]"), tokens, messages)

    def _read_message(self, item: JsonField, tokens: Sequence[int] | None) -> None:
        role = item["role"]
        texts = content_texts(item["content"])
        if role.text() in ("system", "developer"):
            self._builder.add_instructions(texts)
        elif role.value == "user":
            self._builder.add_question(texts)
        elif role.value != "assistant":
            raise role.unexpected("one of user, assistant, system, developer")
        elif (phase := item["phase"]).is_null:
            self._builder.add_text(texts, None, tokens)
        elif phase.text() in _CHANNELS:
            self._builder.add_text(texts, _CHANNELS[phase.value], tokens)
        else:
            raise phase.unexpected(f"one of {', '.join(_CHANNELS)}")

    def _read_reasoning(self, item: JsonField, tokens: Sequence[int] | None) -> None:
        encrypted = item["encrypted_content"]
        if self._decrypt is not None and not encrypted.is_null:
            for name in ("content", "summary"):  # which come back with what is sealed
                item.accept(name)
            decrypted = self._decrypt(encrypted.text())
            if decrypted is None:
                raise encrypted.error(_SEALED.format("leave it out"))
            if tokens is None:
                self.read_all(decrypted, encrypted.path)
                return
        for name, other in (("content", "summary"), ("summary", "content")):
            texts = item[name]
            if texts.value:
                item.accept(other)  # which comes back as well
                self._builder.add_reasoning(content_texts(texts), tokens)
                return

    def _read_call(self, item: JsonField, tokens: Sequence[int] | None) -> None:
        is_custom = item["type"].value == "custom_tool_call"
        add = self._builder.add_custom_call if is_custom else self._builder.add_call
        namespace = item["namespace"]
        add(
            item["call_id"].text(),
            read_tool_name(item["name"]),
            read_tool_name(namespace) if namespace.optional_text() else None,
            item["input" if is_custom else "arguments"].text(),
            tokens,
        )

    def _read_client_item(
        self, tool: ClientTool, item: JsonField, tokens: Sequence[int] | None
    ) -> None:
        if not item["execution"].is_null and item["execution"].value != "client":
            return  # another server has searched
        # The result of a local shell names its call by `id`, which clients make of either id.
        id, call_id = item["id"], item["call_id"]
        if item["type"].value == tool.item:
            if not id.is_null:
                self._call_ids[id.text()] = call_id.text()
            name = tool.function.name
            self._builder.add_call(call_id.text(), name, None, call_arguments(tool, item), tokens)
            return
        if call_id.is_null:
            call_id = JsonField(self._call_ids.get(id.text(), id.value), id.path)
        self._builder.add_result(call_id, [tool.result(item)], remedy=_REMEDY)

    def _read_result(self, item: JsonField, _tokens: Sequence[int] | None) -> None:
        texts = content_texts(item["output"])
        self._builder.add_result(item["call_id"], texts, remedy=_REMEDY)

    def _read_reference(self, item: JsonField, _tokens: Sequence[int] | None) -> None:
        stored = self._references.get(item["id"].text())
        if stored is None:
            raise item["id"].error(f"no item is stored under the id {item['id'].value!r:.80}")
        stored_item = JsonField(stored.item, item.path)
        if _item_type(stored_item) == "item_reference":
            raise item["id"].error("the item with this id is itself a reference")
        self.read(stored_item, stored.tokens, stored.messages)

    def _read_compaction(self, item: JsonField, _tokens: Sequence[int] | None) -> None:
        encrypted = item["encrypted_content"]
        decrypted = self._decrypt(encrypted.text()) if self._decrypt else None
        if decrypted is None:
            raise encrypted.error(_SEALED.format("send the items that it replaces"))
        self._builder.begin_anew(self._instructions)
        self.read_all(decrypted, encrypted.path)


_READERS = {
    "message": ItemReader._read_message,
    "reasoning": ItemReader._read_reasoning,
    "function_call": ItemReader._read_call,
    "function_call_output": ItemReader._read_result,
    "custom_tool_call": ItemReader._read_call,
    "custom_tool_call_output": ItemReader._read_result,
    "item_reference": ItemReader._read_reference,
    "compaction": ItemReader._read_compaction,
}


def additional_tools(items: Iterable[JsonField]) -> Iterable[JsonField]:
    """Yield the tools that items declare, in addition to those of the request."""
    for item in items:
        if item["type"].value in ("additional_tools", "tool_search_output"):
            yield from item["tools"].optional_items()


def _item_type(item: JsonField) -> str:
    kind = item["type"]
    if not kind.is_null:
        return kind.text()
    if not item["role"].is_null:
        return "message"
    if not item["id"].is_null:
        return "item_reference"
    raise kind.unexpected("the type of an item, or the role of a message")


# Items for storage

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "compaction": "cmp",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    **{tool.item: tool.id_prefix for tool in CLIENT_TOOLS.values()},
    **{tool.result_item: f"{tool.id_prefix}o" for tool in CLIENT_TOOLS.values()},
}
_OUTPUT_TEXT_DEFAULTS: dict[str, Any] = {"annotations": [], "logprobs": []}
_IMAGE_DEFAULTS = {"image_url": None, "detail": "auto"}
_WITH_STATUS = {
    *("message", "function_call", "function_call_output"),
    *(name for tool in CLIENT_TOOLS.values() for name in (tool.item, tool.result_item)),
}


def complete_item(item: Mapping[str, Any], new_id: NewId) -> dict[str, Any]:
    """Fill in the fields that the item leaves out.

    >>> complete_item({"role": "assistant", "content": "Hi!"}, str)["content"][0]["type"]
    'output_text'
    """
    kind = item.get("type") or "message"
    complete = {**item, "type": kind}
    if not isinstance(complete.get("id"), str):
        complete["id"] = new_id(_PREFIXES.get(kind, "item"))
    if kind in _WITH_STATUS and not isinstance(complete.get("status"), str):
        complete["status"] = "completed"
    if kind == "message":
        text_type = "output_text" if complete.get("role") == "assistant" else "input_text"
        content = complete.get("content")
        if isinstance(content, str):
            content = [{"type": text_type, "text": content}]
        parts = content if isinstance(content, list) else []
        complete["content"] = [_complete_part(part, text_type) for part in parts]
    elif kind == "reasoning":
        complete["summary"] = complete.get("summary") or []
    return {name: value for name, value in complete.items() if value is not None}


def _complete_part(part: object, text_type: str) -> object:
    if not isinstance(part, Mapping):
        return part
    complete, defaults = dict(part), {}
    if part.get("type") in ("text", "input_text", "output_text"):
        complete["type"] = text_type
        defaults = {} if text_type == "input_text" else _OUTPUT_TEXT_DEFAULTS
    elif part.get("type") == "input_image":
        defaults = _IMAGE_DEFAULTS
    return {**complete, **{name: complete.get(name) or value for name, value in defaults.items()}}
