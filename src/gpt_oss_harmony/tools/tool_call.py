"""Reading tool calls: the function that a message calls, and its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..conversation.json_field import strict_json
from ..conversation.messages import Message
from ..conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from ..tokens.python_encoder import without_surrogates
from .tool import ToolError

_SAFE_INTEGER = 2**53 - 1  # the largest integer that every JSON reader reads as the same number


class CalledFunction(NamedTuple):
    """A function and its arguments, with the defaults of its declaration."""

    name: str
    arguments: dict[str, Any]


def read_arguments(text: str, name: str = "the arguments") -> dict[str, Any]:
    """Read a JSON object; empty text means an empty one. U+FFFD replaces lone surrogates.

    Raises `ToolError`, which refers to the object by `name`.
    """
    if not text.strip():
        return {}
    try:
        arguments = strict_json(text)
        written = json.dumps(arguments, ensure_ascii=False)
        if (valid := without_surrogates(written)) != written:
            arguments = json.loads(valid)
    except RecursionError:
        raise ToolError(f"{name} must be a JSON object that is nested less deeply") from None
    except ValueError as error:
        raise ToolError(f"{name} must be a JSON object: {error}") from error
    if not isinstance(arguments, dict):
        raise ToolError(f'{name} must be a JSON object, such as {{"key": "value"}}')
    return arguments


def read_call(
    message: Message,
    namespace: ToolNamespaceConfig,
    aliases: Mapping[str, str] | None = None,
) -> CalledFunction:
    """Read a call of one of the functions that `namespace` declares.

    The recipient is `browser.search`, with or without `functions.` before it. It may also be
    `browser` alone; then the JSON has a `name` and `arguments`. `aliases` maps other names of
    arguments that models write. Raises `ToolError` with a message that the model can act on.
    """
    given = read_arguments(message.text)
    functions = ", ".join(f"`{namespace.name}.{tool.name}`" for tool in namespace.tools)
    _, _, name = (message.recipient or "").removeprefix("functions.").partition(".")
    if not name:
        if not isinstance(given.get("name"), str):
            raise ToolError(f"the call names no function; call {functions}")
        name = given["name"].removeprefix("functions.").removeprefix(f"{namespace.name}.")
        given = given.get("arguments", {})
        if isinstance(given, str):
            given = read_arguments(given, "`arguments`")
        if not isinstance(given, dict):
            raise ToolError("`arguments` must be a JSON object")
    tool = next((tool for tool in namespace.tools if tool.name == name), None)
    if tool is None:
        raise ToolError(f"there is no function `{name[:100]}`; there are {functions}")
    return CalledFunction(name, _checked(given, tool, f"{namespace.name}.{name}", aliases or {}))


def _checked(
    given: Mapping[str, Any], tool: ToolDescription, function: str, aliases: Mapping[str, str]
) -> dict[str, Any]:
    """Return the arguments by their declared names, each converted to its declared type."""
    schema = tool.parameters or {}
    properties: dict[str, Any] = schema.get("properties", {})
    arguments = {name: item["default"] for name, item in properties.items() if "default" in item}
    for key, value in given.items():
        name = key if key in properties else aliases.get(key, key)
        if name not in properties:
            raise ToolError(
                f"unknown argument `{key[:100]}`; `{function}` takes "
                + ", ".join(f"`{name}`" for name in properties)
            )
        if value is not None:
            arguments[name] = _converted(name, value, properties[name]["type"])
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        raise ToolError(f"the argument `{missing[0]}` is missing; `{function}` needs it")
    return arguments


def _converted(name: str, value: Any, declared: str | list[str]) -> Any:
    """Convert a value to one of the declared types; text that spells a number can be a number."""
    kinds = [declared] if isinstance(declared, str) else declared
    # A number that is out of range must not become a text, which `open` would take for a URL.
    is_number = isinstance(value, (int, float)) and "number" in kinds
    for kind in ["number"] if is_number else kinds:
        converted = _CONVERTERS[kind](value)
        if converted is not None:
            return converted
    try:
        shown = f"{json.dumps(value):.80}"
    except (RecursionError, ValueError):
        shown = f"a value ({type(value).__name__}) too large to show"
    raise ToolError(f"the argument `{name}` must be a {' or a '.join(kinds)}, not {shown}")


def _integer(value: Any) -> int | None:
    """Convert to a whole number: every number argument of the tools is a count or an index."""
    if isinstance(value, str) and len(value) < 20:
        value = value.strip()
        if value.removeprefix("-").isdecimal() and value.isascii():
            value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _SAFE_INTEGER:
        return None
    return value


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _string(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


_CONVERTERS = {"number": _integer, "string": _string, "boolean": _boolean}
