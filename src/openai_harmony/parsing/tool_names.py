"""Names of tools as models write them, resolved by the recipients that a conversation declares."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

__all__ = ["glued_tool", "resolve_tool"]

_BUILT_IN = frozenset({"python", "browser.search", "browser.open", "browser.find"})
_QUALIFIED_NAME = re.compile(r"(?:functions|browser)\.[\w.-]+$")
_GLUED_TYPE = re.compile(r"(?:<\|constrain\|>|commentary|analysis|json|code)+$")


def resolve_tool(name: str, tools: AbstractSet[str]) -> str | None:
    """Find the tool that a name means: a declared one, else a name that only a tool can have.

    >>> resolve_tool("shell", {"functions.shell"}), resolve_tool("shell", set())
    ('functions.shell', None)
    >>> resolve_tool("functions.browser.search", {"browser.search"})
    'browser.search'
    """
    name = name.strip("\"'`:,")
    bare = name.removeprefix("functions.")
    for candidate in (name, f"functions.{name}", bare):
        if candidate in tools:
            return candidate
    if name in _BUILT_IN:
        return name
    return name if not tools and _QUALIFIED_NAME.match(name) else None


def glued_tool(name: str, tools: AbstractSet[str]) -> tuple[str, str] | None:
    """Cut a declared tool's name and the content type written right after it apart.

    >>> glued_tool("functions.shelljson", {"functions.shell"})
    ('functions.shell', 'json')
    """
    match = _GLUED_TYPE.search(name)
    while match is not None:
        tool = resolve_tool(name[: match.start()], tools)
        if tool in tools and tool is not None:
            suffix = match[0]
            content_type = next(t for t in ("json", "code", suffix) if suffix.endswith(t))
            marked = suffix.endswith(f"<|constrain|>{content_type}")
            return tool, f"<|constrain|>{content_type}" if marked else content_type
        match = _GLUED_TYPE.search(name, match.start() + 1)
    return None
