"""Rows of Chat Completions, completed to requests of the API, and the weights of messages.

Data sets often leave out the ids of calls, which follow from the order, and the types of tools. A
column has only one type, so tools, arguments and whole conversations may be JSON text. Some have
the fields of earlier versions (`functions`, `function_call`) or of other servers.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..apis.chat.input import REASONING_FIELDS
from ..apis.conversation_builder import PART_TYPES
from ..conversation.json_field import NOTHING, JsonField
from ..conversation.messages import Role


def parsed_json(field: JsonField) -> JsonField:
    """Parse a field that is text; leave any other value unchanged.

    Raises `ConversationError` if the text is not JSON.
    """
    if not isinstance(field.value, str):
        return field
    if not field.value.strip():
        return JsonField(None, field.path)
    try:
        return JsonField(json.loads(field.value), field.path)
    except (ValueError, RecursionError) as error:
        raise field.error(
            f"expected a list or an object, or its JSON as text, found {field.value!r:.60}, "
            f"which is no JSON ({error!s:.100})"
        ) from None


def json_text(value: Any) -> str:
    """Write a value as JSON for the model, like ``tojson`` in chat templates."""
    return json.dumps(value, ensure_ascii=False)


# Weights

_FLAGS = {"train": True, "training": True, "trainable": True, "loss": True, "masked": False}
"""Boolean fields of other trainers, and the value that chooses a message."""

_CHARACTERS = "train_detail"
"""Axolotl's choice of single characters, which weights of messages cannot express."""

WEIGHT_FIELDS = frozenset({"weight", *_FLAGS, _CHARACTERS})
"""The fields of a message that `read_weight` reads."""


def read_weight(message: JsonField) -> float | None:
    """Return the weight of a message, or None without one.

    The weight is the field ``weight``, or 0 or 1 from a field of other trainers: ``train``,
    ``training`` (Axolotl), ``trainable`` (tinker-cookbook), ``loss`` (ms-swift), ``masked``
    (torchtune). Raises `ConversationError` for other values, and for contradicting fields.
    """
    fields = message.object()
    if WEIGHT_FIELDS.isdisjoint(fields):
        return None
    if fields.get(_CHARACTERS):
        raise message[_CHARACTERS].error("weights of single characters cannot be read; remove it")
    weight = message["weight"]
    result: float | None = None
    if not weight.is_null:
        if isinstance(weight.value, bool) or not isinstance(weight.value, (int, float)):
            raise weight.unexpected("a number")
        if not 0 <= weight.value <= sys.float_info.max:
            raise weight.unexpected("a number of 0 or more that is not too large")
        result = float(weight.value)
    for name, chosen in _FLAGS.items():
        flag = fields.get(name)
        if flag is None:
            continue
        if not isinstance(flag, bool):
            raise message[name].unexpected("true or false")
        if result is not None and (result > 0) != (flag is chosen):
            raise message[name].error("another field of the message contradicts it; keep one")
        result = float(flag is chosen) if result is None else result
    return result


# Chat Completions


def completed_chat(row: JsonField) -> dict[str, Any]:
    """Complete a row to a request; it may have more messages, but none is left out.

    ``origins`` has the index in the row for each message of the request.

    Reasoning and calls inside other models' marks in an answer's text (``<think>`` and
    ``<tool_call>``) are moved to their fields.

    The ``tools`` of a message are all the tools from that message on. A request has one list, that
    of its last message; ``earlier_tools`` has the lists before it, each with the index of the
    message at which it ends.
    """
    request: dict[str, Any] = {"response_format": row["response_format"].value}
    request["reasoning_effort"] = _effort(row)
    calls = _OpenCalls()
    messages: list[Mapping[str, Any]] = []
    origins: list[int] = []
    tools = _completed_tools(row["tools"], row["functions"])
    earlier: list[tuple[int, list[dict[str, Any]]]] = []
    has_spoken = False
    for index, given in enumerate(parsed_json(row["messages"]).items()):
        own = given.object().get("tools") not in NOTHING
        if own and (changed := _completed_tools(given["tools"])) != tools:
            if has_spoken:
                earlier.append((len(messages), tools))
            elif tools:
                problem = "replaces other tools, with which nothing was answered; keep one list"
                raise given["tools"].error(problem)
            tools, has_spoken = changed, False
        for message in _completed_messages(given, calls):
            has_spoken = has_spoken or message["role"] == Role.ASSISTANT.value
            if own:
                message = dict(message)
                del message["tools"]
            messages.append(message)
            origins.append(index)
    request |= {"messages": messages, "tools": tools}
    return {**request, "earlier_tools": earlier, "origins": origins}


def _completed_tools(*lists: JsonField) -> list[dict[str, Any]]:
    given = (tool for tools in lists for tool in parsed_json(tools).optional_items())
    return [_completed_tool(parsed_json(tool)) for tool in given]


def template_arguments(row: JsonField) -> JsonField:
    """Return the arguments of a chat template, which a row may have as an object or as text."""
    arguments = parsed_json(row["chat_template_kwargs"])
    return arguments.optional_object()


def _effort(row: JsonField) -> str | None:
    """Return the effort of a row; raises `ConversationError` if two of its fields differ."""
    reasoning = row.peek("reasoning").value
    sources = [row["reasoning_effort"], template_arguments(row)["reasoning_effort"]]
    if isinstance(reasoning, Mapping):  # of Responses; a text would be a column of its own
        sources.append(row["reasoning"]["effort"])
    given = [source for source in sources if source.optional_text()]
    for other in given[1:]:
        if other.value != given[0].value:
            raise other.error(f"{given[0].path} has another value; keep one of them")
    return given[0].value if given else None


class _OpenCalls:
    """The calls without a result, by id; used to match results without an id."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count = 0

    def add(self, call_id: str | None, name: str) -> str:
        """Add a call; return its id, or a new id if it has none."""
        self._count += 1
        call_id = call_id or f"call_{self._count}"
        self._names[call_id] = name
        return call_id

    def close(self, call_id: str | None, name: JsonField) -> tuple[str | None, str | None]:
        """Return the id and the name of a result's call.

        It is the one with the result's id, else the first of its name, else the first of all.
        """
        if call_id is None:
            given = name.optional_text()
            same = (
                open_id
                for open_id, other in self._names.items()
                if given is None or given in (other, f"functions.{other}")
            )
            call_id = next(same, None)
            if call_id is None and given is not None and self._names:
                raise name.error(
                    f"no call of {given!r:.60} is without a result; write the call's tool_call_id"
                )
        return call_id, None if call_id is None else self._names.pop(call_id, None)


def _completed_messages(message: JsonField, calls: _OpenCalls) -> Iterator[Mapping[str, Any]]:
    """Complete a message: calls get ids and arguments as text, results the id of their call.

    A message with the results of several calls becomes one message for each.
    """
    fields = message.object()
    role = fields.get("role")
    if role is None:
        names = ", ".join(map(repr, list(fields)[:8])) or "none"
        raise message["role"].error(
            f"the field is missing; the fields of the message are {names}; a message needs 'role' "
            "and 'content'"
        )
    if role == Role.ASSISTANT.value:
        yield _completed_answer(message, calls)
    elif role in (Role.TOOL.value, "function"):
        for result in _several_results(message):
            yield _completed_result(result, calls)
    else:
        yield fields


def _completed_answer(message: JsonField, calls: _OpenCalls) -> Mapping[str, Any]:
    fields = dict(message.object())
    _complete_reasoning(message, fields)
    channel = fields.get("channel")
    if channel is not None:
        fields = _without_channel(message, fields)
    content = fields.get("content")
    if isinstance(content, str) and "<" in content:
        fields = {**_without_marks(JsonField(fields, message.path))}
    if fields.get("function_call"):  # as the API had it before tools
        if fields.get("tool_calls"):
            raise message["function_call"].error("the message also has tool_calls; keep one")
        fields["tool_calls"] = [fields.pop("function_call")]
    if fields.get("tool_calls"):
        made = parsed_json(JsonField(fields["tool_calls"], f"{message.path}.tool_calls")).items()
        fields["tool_calls"] = [_completed_call(parsed_json(call), calls) for call in made]
    return fields


def _complete_reasoning(message: JsonField, fields: dict[str, Any]) -> None:
    """Leave one of the fields with the same reasoning; reasoning in details gets a field."""
    given = [name for name in REASONING_FIELDS if fields.get(name)]
    for name in given[1:]:
        if fields[name] == fields[given[0]]:
            del fields[name]  # servers send the same text under several names
    if fields.get("reasoning_details"):
        text, others = _detailed_reasoning(parsed_json(message["reasoning_details"]))
        if not given:
            fields["reasoning"] = text
        if not given or fields[given[0]] == text:
            fields["reasoning_details"] = others


_DETAILS = (None, "reasoning.text", "reasoning.summary")


def _detailed_reasoning(details: JsonField) -> tuple[str, list[dict[str, Any]]]:
    """Read the reasoning as OpenRouter has it: a list of texts and summaries.

    Also returns the other fields of each.
    """
    texts: list[str] = []
    others: list[dict[str, Any]] = []
    for detail in details.items():
        name = "text" if detail["summary"].is_null else "summary"
        if detail[name].is_null:
            raise detail.error("the reasoning is encrypted; remove it, or write its text")
        if detail["type"].value not in _DETAILS:
            raise detail["type"].unexpected("reasoning.text or reasoning.summary")
        texts.append(detail[name].text())
        read = ("type", name)
        others.append({key: value for key, value in detail.object().items() if key not in read})
    return "\n".join(texts), others


def _without_channel(message: JsonField, fields: dict[str, Any]) -> dict[str, Any]:
    """Read a channel that Chat Completions express in other ways."""
    channel = fields["channel"]
    has_reasoning = any(fields.get(name) for name in REASONING_FIELDS)
    if channel == "analysis" and not has_reasoning and not fields.get("tool_calls"):
        return {**fields, "channel": None, "reasoning": fields["content"], "content": None}
    if channel == "final" and not fields.get("tool_calls"):
        return {**fields, "channel": None}
    if channel == "commentary":
        return fields  # it stays: a preamble may stand before no call
    raise message["channel"].error(
        "the message also has reasoning or calls, which are on other channels; remove the channel"
    )


def _several_results(message: JsonField) -> Sequence[JsonField]:
    """Split the results of several calls in one message, each with a name or an id."""
    content = message["content"].value
    fields = message.object()
    if not (isinstance(content, list) and content and not fields.get("tool_call_id")):
        return [message]
    if not all(
        isinstance(part, Mapping)
        # A part with a type is content of one result.
        and "type" not in part
        and {"content"} < part.keys() <= {"content", "name", "tool_call_id", "id"}
        for part in content
    ):
        return [message]
    results = []
    for index, part in enumerate(content):
        own = dict(part)
        if "id" in own:
            own["tool_call_id"] = own.pop("id")
        results.append(JsonField({**fields, **own}, f"{message.path}.content[{index}]"))
    return results


def _completed_result(message: JsonField, calls: _OpenCalls) -> Mapping[str, Any]:
    fields = message.object()
    content = fields.get("content")
    if isinstance(content, list):
        is_content = all(isinstance(part, Mapping) and "type" in part for part in content)
    else:
        is_content = isinstance(content, str)
    given = message["tool_call_id"].optional_text()
    call_id, called = calls.close(given, message["name"])
    completed = {
        **fields,
        "role": Role.TOOL.value,
        "tool_call_id": call_id,
        "content": content if is_content else json_text(content),
    }
    if fields.get("name") in (called, f"functions.{called}"):
        completed.pop("name", None)  # it chooses the call, or says the same as the id
    return completed


def _completed_call(call: JsonField, calls: _OpenCalls) -> Mapping[str, Any]:
    fields = call.object()
    if fields.get("type") == "custom":
        name = call["custom"]["name"].text()
        return {**fields, "id": calls.add(call["id"].optional_text(), name)}
    is_flat = call["function"].is_null
    function = call if is_flat else call["function"]
    name = function["name"].text()
    arguments = function["arguments"].value
    if not isinstance(arguments, str):
        arguments = json_text({} if arguments is None else arguments)
    own = {} if is_flat else dict(function.object())
    others = {key: value for key, value in fields.items() if key not in ("name", "arguments")}
    return {
        **(others if is_flat else fields),
        "id": calls.add(call["id"].optional_text(), name),
        "type": fields.get("type") or "function",
        "function": {**own, "name": name, "arguments": arguments},
    }


def _completed_tool(tool: JsonField) -> dict[str, Any]:
    fields = dict(tool.object())
    nested = tool["function"]
    kind = fields.get("type") or "function"
    if nested.is_null and kind != "function":
        return fields  # of another type: custom, or one that the model cannot have
    function = fields if nested.is_null else dict(nested.object())
    function["parameters"] = parsed_json(
        JsonField(function.get("parameters"), f"{tool.path}.parameters")
    ).value
    if nested.is_null:
        return {**fields, "type": kind}
    if function.get("type") == "function":
        del function["type"]  # says the same
    return {**fields, "type": kind, "function": function}


# Marks of other models in the text of an answer

_THOUGHT = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def _without_marks(message: JsonField) -> Mapping[str, Any]:
    """Move reasoning and calls out of a text, unless the message also has fields for them."""
    fields = message.object()
    text: str = fields["content"]
    taken: dict[str, Any] = {}
    thought = _THOUGHT.match(text)
    if thought and not any(fields.get(name) for name in REASONING_FIELDS):
        taken["reasoning"] = thought[1].strip()
        text = text[thought.end() :]
    path = f"{message.path}.content"
    made = [] if fields.get("tool_calls") else _CALL.findall(text)
    if made:
        taken["tool_calls"] = [parsed_json(JsonField(call, path)).value for call in made]
        text = _CALL.sub("", text).strip()
    return {**fields, **taken, "content": text} if taken else fields


def unlearnable(message: Mapping[str, Any]) -> str | None:
    """Return the reason why a completed message must not be trained on, or None.

    Notes stand in its place for content parts that the assistant cannot write.
    """
    content = message.get("content")
    if message["role"] != Role.ASSISTANT.value or not isinstance(content, list):
        return None
    kinds = (part.get("type") for part in content if isinstance(part, Mapping))
    # A part with no type, or with another value there, is refused when the message is read.
    other = next((kind for kind in kinds if isinstance(kind, str) and kind not in PART_TYPES), None)
    if other is None:
        return None
    return f"an assistant's content part of the type {other!r:.40} cannot be learned"
