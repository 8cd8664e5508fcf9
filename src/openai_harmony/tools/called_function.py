"""Which function of a tool a message calls, and with which arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..conversation.messages import Message
from ..conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from .tool import call_text
from .tool_error import ToolError

__all__ = ["CalledFunction", "read_call"]

_SAFE_INTEGER = 2**53 - 1  # the largest in JSON that every reader takes for the same number


class CalledFunction(NamedTuple):
    """A function and its arguments, with the defaults that its declaration names."""

    name: str
    arguments: dict[str, Any]


def read_call(
    message: Message,
    namespace: ToolNamespaceConfig,
    aliases: Mapping[str, str] | None = None,
) -> CalledFunction:
    """Read a call of one of the functions that `namespace` declares.

    The recipient is `browser.search`, also with `functions.` before it, or `browser` alone, and
    then the JSON has a `name` and `arguments`. `aliases` are other names of arguments that models
    write. Raises `ToolError` with a message that the model can act on.
    """
    given = _object(call_text(message), "the arguments")
    _, _, name = (message.recipient or "").removeprefix("functions.").partition(".")
    if not name:
        name, given = _named(given, namespace)
    tool = next((tool for tool in namespace.tools if tool.name == name), None)
    if tool is None:
        raise ToolError(f"there is no function `{name[:100]}`; there are {_listed(namespace)}")
    return CalledFunction(name, _arguments(given, tool, namespace, aliases or {}))


def _named(given: dict[str, Any], namespace: ToolNamespaceConfig) -> tuple[str, dict[str, Any]]:
    name, arguments = given.get("name"), given.get("arguments", {})
    if not isinstance(name, str):
        raise ToolError(f"the call names no function; call {_listed(namespace)}")
    if isinstance(arguments, str):
        arguments = _object(arguments, "`arguments`")
    if not isinstance(arguments, dict):
        raise ToolError("`arguments` must be a JSON object")
    return name.removeprefix("functions.").removeprefix(f"{namespace.name}."), arguments


def _object(text: str, what: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except RecursionError:
        raise ToolError(f"{what} must be a JSON object, which is not nested that deeply") from None
    except ValueError as error:
        raise ToolError(f"{what} must be a JSON object: {error}") from error
    if not isinstance(found, dict):
        raise ToolError(f'{what} must be a JSON object, such as {{"key": "value"}}')
    return found


def _arguments(
    given: Mapping[str, Any],
    tool: ToolDescription,
    namespace: ToolNamespaceConfig,
    aliases: Mapping[str, str],
) -> dict[str, Any]:
    schema = tool.parameters or {}
    properties: dict[str, Any] = schema.get("properties", {})
    arguments = {key: known["default"] for key, known in properties.items() if "default" in known}
    for key, value in given.items():
        name = key if key in properties else aliases.get(key, key)
        if name not in properties:
            raise ToolError(
                f"unknown argument `{key[:100]}`; `{namespace.name}.{tool.name}` takes "
                + ", ".join(f"`{known}`" for known in properties)
            )
        if value is not None:
            arguments[name] = _value(name, value, properties[name]["type"])
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        raise ToolError(
            f"the argument `{missing[0]}` is missing; `{namespace.name}.{tool.name}` needs it"
        )
    return arguments


def _value(name: str, value: Any, wanted: str | list[str]) -> Any:
    """Read a value of one of the wanted types; a text that spells a number is one."""
    kinds = [wanted] if isinstance(wanted, str) else wanted
    is_number = isinstance(value, (int, float)) and "number" in kinds
    for kind in ["number"] if is_number else kinds:
        found = _READERS[kind](value)
        if found is not None:
            return found
    raise ToolError(f"the argument `{name}` must be a {' or a '.join(kinds)}, not {_shown(value)}")


def _integer(value: Any) -> int | None:
    """Read a whole number: all that the tools call numbers count something."""
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


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


_READERS = {"number": _integer, "string": _text, "boolean": _boolean}


def _listed(namespace: ToolNamespaceConfig) -> str:
    return ", ".join(f"`{namespace.name}.{tool.name}`" for tool in namespace.tools)


def _shown(value: Any) -> str:
    try:
        return f"{json.dumps(value):.80}"
    except (RecursionError, ValueError):
        return f"a value ({type(value).__name__}) too large to show"
