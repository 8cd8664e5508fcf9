"""The forms of rows, and how each is rewritten as Chat Completions.

==============  ==================================================================================
``harmony``     `messages` with channels, recipients or system content; read as they are
``chat``        `messages` of Chat Completions, also as OpenAI's fine-tuning has them
``sharegpt``    `conversations` of ``from`` and ``value``
``responses``   `input` (and `output`) with items of the Responses API
``completion``  `prompt` and `completion` of TRL: lists of messages, or texts
``alpaca``      `instruction`, `input` and `output`
``rendered``    `text` or `prompt` with messages that are rendered already; see `rendered_rows`
==============  ==================================================================================

A converter keeps every field that it does not read, under its own name, so that the row's report
counts it. Forms that are recognised, but have no single conversation, raise an error that names the
form and how to convert it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Literal, TypeAlias, get_args

from ..apis.chat.input import REASONING_FIELDS, is_chat
from ..conversation.content import CHANNELS
from ..conversation.json_field import JsonField
from ..conversation.messages import Role
from ..errors import ConversationError
from .chat_rows import WEIGHT_FIELDS, json_text, parsed_json, read_weight
from .rendered_rows import holds_rendered_text

RowForm: TypeAlias = Literal[
    "harmony", "chat", "sharegpt", "responses", "completion", "alpaca", "rendered"
]
ROW_FORMS: tuple[RowForm, ...] = get_args(RowForm)


def as_chat(row: JsonField, form: RowForm) -> JsonField:
    """Rewrite a row of any form but harmony's own as Chat Completions."""
    convert = _CONVERTERS.get(form)
    chat = dict(row.object()) if convert is None else convert(row)
    if chat.get("messages") in (None, []) and chat.get("conversations"):
        chat["messages"] = chat.pop("conversations")
    if (system := chat.pop("system", None)) not in (None, ""):
        text = JsonField(system, "system").text()
        messages = parsed_json(JsonField(chat.get("messages"), "messages"))
        said = [message.value for message in messages.optional_items()]
        chat["messages"] = [{"role": "system", "content": text}, *said]
    for names, problem in _PAIRS_OF_ANSWERS:
        if all(chat.get(name) is not None for name in names) and _is_unanswered(chat):
            raise ConversationError(problem)
    return JsonField(chat)


def _is_unanswered(chat: Mapping[str, Any]) -> bool:
    messages = [*parsed_json(JsonField(chat.get("messages"), "messages")).optional_items()]
    return not messages or not is_assistant(messages[-1].value)


VERDICTS = ("label", "kto_tag")
"""Fields of TRL, ms-swift and LLaMA-Factory that say whether a row's last answer is good."""


def verdicts(row: JsonField) -> dict[str, bool]:
    """Return what each of `VERDICTS` says: true or false, which may be text.

    Numbers and other texts say nothing, because a `label` is often a class. Raises
    `ConversationError` if one field says true and the other false.

    >>> verdicts(JsonField({"label": 3, "kto_tag": "False"}))
    {'kto_tag': False}
    """
    said: dict[str, bool] = {}
    for name in VERDICTS:
        value = row[name].value
        word = str(value).strip().casefold() if isinstance(value, (bool, str)) else ""
        if word in ("true", "false"):
            said[name] = word == "true"
    if len(set(said.values())) > 1:
        first, *_, last = said
        raise row[last].error(f"{first} has another value; keep one of them")
    return said


def refuse_bad_answer(row: JsonField) -> None:
    """Raise `ConversationError` if the row says that its answer is bad."""
    for name, is_good in verdicts(row).items():
        if not is_good:
            raise row[name].error(
                "the row's answer is bad by this field, and must not be learned; for KTO, use "
                "gpt_oss_harmony.training.trainers.unpaired_preference_example; or remove the "
                "field if it means something else"
            )


# Detection


def detect_form(row: Mapping[str, Any]) -> RowForm:
    """Return the form of a row; raises `ConversationError` if it has no single conversation.

    >>> detect_form({"prompt": "2 + 2?", "completion": "4"})
    'completion'
    """
    fields = {name: value for name, value in row.items() if value is not None}
    if "conversations" in fields:
        first = _first_of(row, "conversations")
        if first is not None or "messages" not in fields:
            return "chat" if first is not None and "from" not in first else "sharegpt"
    if "messages" in fields:
        return _form_of_messages(row)
    if holds_rendered_text(fields):
        return "rendered"
    for names, problem in _OTHER_FORMS:
        if fields.keys() >= names:
            raise ConversationError(problem)
    if {"prompt", "completion"} <= fields.keys():
        return "completion"
    if {"instruction", "output"} <= fields.keys():
        return "alpaca"
    has_items = isinstance(fields.get("output"), list)
    if isinstance(fields.get("input"), list) or (
        isinstance(fields.get("input"), str) and has_items
    ):
        return "responses"
    shown = ", ".join(list(map(repr, fields))[:8]) or "none"
    raise ConversationError(f"the row has no messages; its fields are {shown}; {_remedy(fields)}")


def _form_of_messages(row: Mapping[str, Any]) -> RowForm:
    first = _first_of(row, "messages") or {}
    if "role" not in first and "from" in first:
        return "sharegpt"
    if "role" not in first and "type" in first:
        return "responses"
    messages = parsed_json(JsonField(row["messages"], "messages")).value
    return "chat" if is_chat(messages) or _is_chat_with_channels(row, messages) else "harmony"


def _first_of(row: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the first message of a list, which may be JSON as text; None for an empty one."""
    for item in parsed_json(JsonField(row[name], name)).optional_items():
        return item.object()
    return None


_CHAT_ONLY = frozenset(
    {
        *("tools", "functions", "reasoning_effort", "response_format", "chat_template_kwargs"),
        *("model_identity", "builtin_tools"),
    }
)
"""Fields of a row that harmony's own form has inside of its messages."""

_CHAT_MESSAGE_ONLY = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_details"}
    | set(REASONING_FIELDS)
)


def _is_chat_with_channels(row: Mapping[str, Any], messages: Any) -> bool:
    """Return whether messages of Chat Completions name channels, but are no harmony messages.

    Raises `ConversationError` for a mixture that can be read in two ways.
    """
    mixed = [name for name in _CHAT_ONLY if row.get(name) not in (None, [], {}, "")]
    for index, message in enumerate(messages):
        if isinstance(message, Mapping):
            mixed += [
                f"messages[{index}].{name}" for name in _CHAT_MESSAGE_ONLY if message.get(name)
            ]
    if not mixed:
        return False
    for index, message in enumerate(messages):
        marks = ("author", "content_type", "recipient")
        if not isinstance(message, Mapping):
            continue
        mark = next((name for name in marks if message.get(name) is not None), None)
        channel = message.get("channel")
        if mark is None and channel is not None:
            is_usual = message.get("role") == Role.ASSISTANT.value and channel in CHANNELS
            mark = None if is_usual else "channel"
        if mark is None and isinstance(content := message.get("content"), list):
            kinds = [part.get("type") for part in content if isinstance(part, Mapping)]
            is_own = any(kind in ("system_content", "developer_content") for kind in kinds)
            mark = "content" if is_own else None
        if mark is not None:
            raise ConversationError(
                f"the row mixes harmony's own fields (messages[{index}].{mark}) with those of "
                f"Chat Completions ({min(mixed)}); write all of it in one form"
            )
    return True


_PREFERENCES = (
    "this is a row of preferences ({}), which has two conversations; for DPO, use "
    "gpt_oss_harmony.training.trainers.preference_example; to train on the better answer, write "
    "it as messages"
)
_PAIRS_OF_ANSWERS: Sequence[tuple[Set[str], str]] = (
    ({"chosen", "rejected"}, _PREFERENCES.format("chosen and rejected, as TRL has them")),
    (
        {"preferred_output", "non_preferred_output"},
        _PREFERENCES.format("preferred_output and non_preferred_output, as OpenAI has them"),
    ),
)
_OTHER_FORMS: Sequence[tuple[Set[str], str]] = (
    *_PAIRS_OF_ANSWERS,
    (
        {"input_ids"},
        "this row has token ids (input_ids), so it was prepared before; use the rows from which "
        "it was made",
    ),
)
"""Forms without a single conversation: their fields, and the error."""

_PAIRS = (
    ("prompt", "response"),
    ("question", "answer"),
    ("question", "response"),
    ("query", "response"),
    ("input", "output"),
    ("problem", "solution"),
)
"""Fields in which rows of other forms have what the user and the assistant say."""


def _remedy(row: Mapping[str, Any]) -> str:
    """Say how to write a row of another form as a conversation."""
    user, assistant, form = "...", "...", ""
    for question, answer in _PAIRS:
        if {question, answer} <= row.keys():
            user, assistant = f"<{question}>", f"<{answer}>"
            form = f"it looks like pairs of {question} and {answer}; "
            break
    else:
        if isinstance(row.get("text"), str):
            form = "it looks like plain text for pre-training, where nobody answers; "
    return (
        f'{form}write it as {{"messages": [{{"role": "user", "content": "{user}"}}, '
        f'{{"role": "assistant", "content": "{assistant}"}}]}}'
    )


# ShareGPT

_SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "observation": "tool",
    "function_response": "tool",
    "tool_response": "tool",
    "function_call": "call",
    "tool_call": "call",
}

_RESULT = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)


def _sharegpt(row: JsonField) -> dict[str, Any]:
    """Results in ``<tool_response>`` become separate messages."""
    fields = dict(row.object())
    name = "messages" if fields.get("conversations") is None else "conversations"
    fields["messages"] = [
        message for item in parsed_json(row[name]).items() for message in _sharegpt_messages(item)
    ]
    fields.pop("conversations", None)
    return fields


def _sharegpt_messages(message: JsonField) -> Iterator[dict[str, Any]]:
    fields = dict(message.object())
    role = _SHAREGPT_ROLES.get(message["from"].text())
    value = message["value"]
    if role is None:
        raise message["from"].unexpected(f"one of {', '.join(_SHAREGPT_ROLES)}")
    fields.pop("from")
    fields.pop("value", None)
    if role == "call":
        calls = parsed_json(value).value
        made = calls if isinstance(calls, list) else [calls]
        yield {**fields, "role": "assistant", "tool_calls": made}
    elif role != "tool":
        yield {**fields, "role": role, "content": value.text()}
    elif isinstance(value.value, str) and (results := _RESULT.findall(value.value)):
        for text in results:
            yield {**fields, "role": "tool", "content": text.strip(), **_sharegpt_result(text)}
    else:
        yield {**fields, "role": "tool", "content": value.value}


def _sharegpt_result(text: str) -> dict[str, Any]:
    """Read a result of the form ``{"name": ..., "content": ...}``; empty for any other text."""
    try:
        result = parsed_json(JsonField(text)).value
    except ValueError:
        return {}
    if not isinstance(result, dict) or set(result) != {"name", "content"}:
        return {}
    content = result["content"]
    return {
        "name": result["name"],
        "content": content if isinstance(content, str) else json_text(content),
    }


# Prompt and completion, Alpaca


def _completion(row: JsonField) -> dict[str, Any]:
    """The prompt is not trained on, also not the assistant's messages in it, as in TRL."""
    fields = dict(row.object())
    prompt, weights = unlearned(spoken(row["prompt"], "user"))
    fields["messages"] = [*prompt, *spoken(row["completion"], "assistant")]
    fields |= weights
    del fields["prompt"], fields["completion"]
    return fields


def unlearned(prompt: Sequence[Any], name: str = "prompt") -> tuple[list[Any], dict[str, Any]]:
    """Give the assistant's messages of a prompt the weight 0, as nothing in it is learned.

    Return what other weights they had as fields that nobody reads, so that a report names them.
    """
    messages: list[Any] = []
    others: dict[str, Any] = {}
    for index, message in enumerate(prompt):
        if is_assistant(message):
            given = {field for field in WEIGHT_FIELDS if message.get(field) is not None}
            if read_weight(JsonField(message, f"{name}[{index}]")):
                others |= {f"{name}[].{field}": message[field] for field in given}
            message = {**message, **dict.fromkeys(given), "weight": 0}
        messages.append(message)
    return messages, others


def spoken(field: JsonField, role: str) -> list[Any]:
    """Return a list of messages; a text is one message by `role`, or a list of them as JSON."""
    value = field.value
    if isinstance(value, str):
        if value.lstrip().startswith("[{") and (read := _json_list(value)) is not None:
            return read
        return [{"role": role, "content": value}]
    if not isinstance(value, list):
        raise field.unexpected("a text or a list of messages")
    return value


def _json_list(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    has_roles = isinstance(value, list) and all(
        isinstance(item, dict) and "role" in item for item in value
    )
    return value if has_roles else None


def is_assistant(message: Any) -> bool:
    """Return whether a value is a message of the assistant in Chat Completions."""
    return isinstance(message, Mapping) and message.get("role") == Role.ASSISTANT.value


def _alpaca(row: JsonField) -> dict[str, Any]:
    """`input` follows the instruction after an empty line; `history` has earlier pairs."""
    fields = dict(row.object())
    messages: list[dict[str, Any]] = []
    for pair in row["history"].optional_items():
        if not isinstance(pair.value, list) or len(pair.value) != 2:
            raise pair.unexpected("a question and its answer")
        question, answer = pair.items()
        messages.append({"role": "user", "content": question.text()})
        messages.append({"role": "assistant", "content": answer.text()})
    asked = [row["instruction"].text(), row["input"].optional_text() or ""]
    messages.append({"role": "user", "content": "\n\n".join(filter(None, asked))})
    messages.append({"role": "assistant", "content": row["output"].text()})
    for name in ("instruction", "input", "output", "history"):
        fields.pop(name, None)
    return {**fields, "messages": messages}


# Responses

_PHASES = {"commentary": "commentary", "final_answer": "final"}


def _responses(row: JsonField) -> dict[str, Any]:
    """Each item becomes a message. Items of tools that a server ran cannot be written."""
    fields = dict(row.object())
    name = "input" if fields.get("input") is not None else "messages"
    given = row[name]
    if isinstance(given.value, str) and name == "input":
        given = JsonField([{"role": "user", "content": given.value}], name)
    items = list(parsed_json(given).items())
    items += parsed_json(row["output"]).optional_items()
    messages = [_item_message(item) for item in items]
    instructions = row["instructions"].optional_text()
    if instructions:
        messages.insert(0, {"role": "system", "content": instructions})
    text = row["text"].value
    if isinstance(text, Mapping) and text.get("format") is not None:
        fields["response_format"] = text["format"]
        fields["text"] = {key: value for key, value in text.items() if key != "format"}
    for name in ("input", "output", "instructions", "messages"):
        fields.pop(name, None)
    return {**fields, "messages": messages}


def _item_message(item: JsonField) -> dict[str, Any]:
    fields = dict(item.object())
    kind = fields.pop("type", "message" if "role" in fields else None)
    write = _ITEMS.get(str(kind))
    if write is None:
        raise item["type"].error(
            f"an item of the type {kind!r:.80} cannot be written as harmony messages; remove it, "
            "or write the conversation in harmony's own form"
        )
    written = write(item, fields)  # it removes the fields that it reads
    return {**fields, **written}


def _message_item(item: JsonField, fields: dict[str, Any]) -> dict[str, Any]:
    phase = fields.pop("phase", None)
    if phase is None:
        return {}
    if str(phase) not in _PHASES:
        raise item["phase"].unexpected(f"one of {', '.join(_PHASES)}")
    return {"channel": _PHASES[phase]}


_REASONING_PARTS = ("reasoning_text", "summary_text", "text")


def _reasoning_item(item: JsonField, fields: dict[str, Any]) -> dict[str, Any]:
    name = "content" if fields.get("content") else "summary"
    parts = fields.pop(name, None)
    if not parts:
        raise item.error("the reasoning is encrypted, or empty; remove the item, or write its text")
    written = []
    for part in JsonField(parts, f"{item.path}.{name}").items():
        if part["type"].text() not in _REASONING_PARTS:
            raise part["type"].unexpected(f"one of {', '.join(_REASONING_PARTS)}")
        written.append({**part.object(), "type": "reasoning"})
    return {"role": "assistant", "content": written}


def _call_item(item: JsonField, fields: dict[str, Any]) -> dict[str, Any]:
    name, namespace = item["name"].text(), item["namespace"].optional_text()
    name = f"{namespace}.{name}" if namespace else name
    call: dict[str, Any] = {"id": item["call_id"].text()}
    if item["type"].value == "function_call":
        function = {"name": name, "arguments": item["arguments"].text()}
        call |= {"type": "function", "function": function}
    else:
        call |= {"type": "custom", "custom": {"name": name, "input": item["input"].text()}}
    for read in ("name", "namespace", "call_id", "arguments", "input"):
        fields.pop(read, None)
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _result_item(item: JsonField, fields: dict[str, Any]) -> dict[str, Any]:
    call_id, output = item["call_id"].text(), fields.pop("output", None)
    del fields["call_id"]
    return {"role": "tool", "tool_call_id": call_id, "content": output}


_ITEMS: Mapping[str, Callable[[JsonField, dict[str, Any]], dict[str, Any]]] = {
    "message": _message_item,
    "reasoning": _reasoning_item,
    "function_call": _call_item,
    "custom_tool_call": _call_item,
    "function_call_output": _result_item,
    "custom_tool_call_output": _result_item,
}
"""How each type of item becomes a message; a function removes the fields that it reads."""


_CONVERTERS: dict[RowForm, Callable[[JsonField], dict[str, Any]]] = {
    "sharegpt": _sharegpt,
    "completion": _completion,
    "alpaca": _alpaca,
    "responses": _responses,
}
