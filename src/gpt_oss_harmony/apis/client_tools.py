"""Tools with a schema of their own that clients run: functions in harmony, whose schemas are here.

The models were not trained with these tools, so the prompt declares each as a function of its name.
A call becomes the item of its tool, if its arguments fit; the item's field is made of them. Calls
and results that come back are read as those of the function.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..conversation.json_field import JsonField, strict_json
from ..conversation.tool_namespaces import ToolDescription


@dataclass(frozen=True)
class ClientTool:
    """A tool of the Responses API that a client runs.

    - `function`: its declaration in the prompt.
    - `item`, `id_prefix`: the type of the item of a call, and the beginning of its id.
    - `field`: the field of that item that is made of the arguments. `defaults`: what it has beside
      them; an argument that is not sent has None there.
    - `result`: reads the text of a result from its item. `result_item`: the type of that item.
    - `more`: further fields of the item of a call.

    A function without parameters gets them from the request.
    """

    function: ToolDescription
    item: str
    id_prefix: str
    field: str
    defaults: Mapping[str, Any]
    result: Callable[[JsonField], str]
    result_item: str
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _function(
    name: str, description: str, required: list[str], **properties: Any
) -> ToolDescription:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return ToolDescription.new(name, description, parameters)


def _shell_result(item: JsonField) -> str:
    texts = []
    for part in item["output"].items():
        outcome = part["outcome"]
        timed_out = outcome["type"].text() == "timeout"
        if not timed_out and not _fits(outcome["exit_code"].value, _NUMBER):
            raise outcome["exit_code"].unexpected("an integer")
        ending = "timed out" if timed_out else f"exit code {outcome['exit_code'].value}"
        texts.append(f"{ending}\n{part['stdout'].text()}{part['stderr'].text()}")
    return "\n".join(texts)


def _patch_result(item: JsonField) -> str:
    status, output = item["status"].text(), item["output"].optional_text()
    return f"{status}: {output}" if output else status


def _found_tools(item: JsonField) -> str:
    tools = item["tools"].items()
    names = [tool["name"].optional_text() or tool["type"].text() for tool in tools]
    return f"These tools can be called now: {', '.join(names)}" if names else "There are no tools."


_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_TEXTS = {"type": "array", "items": _TEXT}

CLIENT_TOOLS = {
    tool.function.name: tool
    for tool in (
        ClientTool(
            _function(
                "shell",
                "Runs shell commands on the user's computer, each in a shell of its own.",
                ["commands"],
                commands=_TEXTS,
                timeout_ms=_NUMBER,
                max_output_length=_NUMBER,
            ),
            item="shell_call",
            id_prefix="sh",
            field="action",
            defaults={"timeout_ms": None, "max_output_length": None},
            result=_shell_result,
            result_item="shell_call_output",
        ),
        ClientTool(
            _function(
                "local_shell",
                "Runs a program on the user's computer; command has its name and its arguments.",
                ["command"],
                command=_TEXTS,
                working_directory=_TEXT,
                timeout_ms=_NUMBER,
            ),
            item="local_shell_call",
            id_prefix="lsh",
            field="action",
            defaults={"type": "exec", "env": {}, "timeout_ms": None, "working_directory": None},
            result=lambda item: item["output"].text(),
            result_item="local_shell_call_output",
        ),
        ClientTool(
            _function(
                "apply_patch",
                "Creates, updates or deletes a file of the user. diff has the lines of the file, "
                "each after '+' (new), '-' (removed) or ' ' (context), in hunks that begin with "
                "'@@'; it is empty for delete_file.",
                ["type", "path", "diff"],
                type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                path=_TEXT,
                diff=_TEXT,
            ),
            item="apply_patch_call",
            id_prefix="apc",
            field="operation",
            defaults={},
            result=_patch_result,
            result_item="apply_patch_call_output",
        ),
        ClientTool(
            ToolDescription.new("tool_search", "Finds tools, which can be called afterwards."),
            item="tool_search_call",
            id_prefix="ts",
            field="arguments",
            defaults={},
            result=_found_tools,
            result_item="tool_search_output",
            more={"execution": "client"},
        ),
    )
}
"""The tools by the name of their function, which is their type in requests."""


_COMMANDS = ["view", "create", "str_replace", "insert"]
_EDITS = {
    "path": _TEXT,
    "file_text": _TEXT,
    "old_str": _TEXT,
    "new_str": _TEXT,
    "insert_line": _NUMBER,
    "insert_text": _TEXT,
    "view_range": {"type": "array", "items": _NUMBER},
}
# The oldest editor inserts `new_str`. For the later ones the documentation says so, too, but Claude
# writes `insert_text` (anthropic-sdk-python#1155), which the memory tool has as well.
_USES = (
    "view shows a file (view_range: its first and last line) or lists a directory; create writes "
    "file_text; str_replace replaces old_str, which occurs once, by new_str; insert puts "
    "insert_text after the line insert_line"
)


def _editor(name: str, uses: str, edits: Mapping[str, Any], *more: str) -> ToolDescription:
    commands = {"type": "string", "enum": [*_COMMANDS, *more]}
    description = f"Views and edits the user's files: {uses}."
    return _function(name, description, ["command", "path"], command=commands, **edits)


MESSAGES_TOOLS: Mapping[str, ToolDescription] = {
    "bash_20250124": _function(
        "bash",
        "Runs a command in the user's bash, which keeps its state. restart: true begins a new one.",
        [],
        command=_TEXT,
        restart={"type": "boolean"},
    ),
    "text_editor_20250124": _editor(
        "str_replace_editor",
        _USES.replace("insert_text", "new_str"),
        {name: schema for name, schema in _EDITS.items() if name != "insert_text"},
        "undo_edit",
    ),
    "text_editor_20250429": _editor("str_replace_based_edit_tool", _USES, _EDITS),
    "text_editor_20250728": _editor("str_replace_based_edit_tool", _USES, _EDITS),
    "memory_20250818": _function(
        "memory",
        f"Files under /memories that last longer than this conversation: {_USES}; delete removes "
        "path; rename moves old_path to new_path. Look there first, and note what matters.",
        ["command"],
        command={"type": "string", "enum": [*_COMMANDS, "delete", "rename"]},
        **_EDITS,
        old_path=_TEXT,
        new_path=_TEXT,
    ),
}
"""Tools of the Messages API that clients run, by their type; calls are those of functions."""


def client_tool_of(item: str) -> ClientTool | None:
    """Return the tool that has items of this type, for calls or for results.

    >>> client_tool_of("shell_call_output").function.name
    'shell'
    """
    tools = CLIENT_TOOLS.values()
    return next((tool for tool in tools if item in (tool.item, tool.result_item)), None)


def call_field(tool: ClientTool, arguments: str) -> dict[str, Any] | None:
    """Make the field of a call's item; None if the arguments do not fit.

    >>> call_field(CLIENT_TOOLS["shell"], '{"commands": ["ls"]}')
    {'timeout_ms': None, 'max_output_length': None, 'commands': ['ls']}
    """
    try:
        given = strict_json(arguments)
    except (ValueError, RecursionError):
        return None
    schema = tool.function.parameters
    if not isinstance(given, dict) or schema is None:
        return given if isinstance(given, dict) else None
    if not given.keys() >= set(schema["required"]):
        return None
    properties = schema["properties"]
    if not all(name in properties and _fits(given[name], properties[name]) for name in given):
        return None
    made = {**tool.defaults, **given}
    if made.get("type") == "delete_file":
        del made["diff"]
    return made


_TYPES: Mapping[str, type] = {"string": str, "integer": int, "array": list}


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    # In Python, true is an `int`, too.
    is_right = isinstance(value, _TYPES[schema["type"]]) and not isinstance(value, bool)
    if isinstance(value, list):
        return is_right and all(_fits(item, schema["items"]) for item in value)
    return is_right and value in schema.get("enum", [value])


def call_arguments(tool: ClientTool, item: JsonField) -> str:
    """Write the arguments of a call that comes back."""
    made = item[tool.field]
    for name, value in tool.defaults.items():
        made.accept(name, value)
    given = {}
    if tool.function.parameters is None:
        item.accept(tool.field)
        given = dict(made.object())
    for name, schema in (tool.function.parameters or {"properties": {}})["properties"].items():
        if not (value := made[name]).is_null:
            if not _fits(value.value, schema):
                raise value.unexpected(f"the type {schema['type']}, as in the call")
            given[name] = value.value
    if tool.field == "operation":
        given.setdefault("diff", "")
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"))
