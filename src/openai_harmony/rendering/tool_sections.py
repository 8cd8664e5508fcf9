"""Tool sections that were written once are kept: the same tools come with every request."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from ..config import SchemaDialect
from ..conversation.tool_namespaces import ToolNamespaceConfig
from .cache import BoundedCache
from .fingerprint import fingerprint
from .system_prompt import tools_section

__all__ = ["ToolSections"]


class _Section(NamedTuple):
    """A section, and how long its key is, which holds the schemas."""

    text: str
    key_length: int

    def size(self) -> int:
        """Bytes, about."""
        return sys.getsizeof(self.text) + self.key_length + 300


class ToolSections:
    """Write tool sections, each once for equal tools; call it like `tools_section`."""

    def __init__(self, cache_bytes: int) -> None:
        self.cache: BoundedCache[bytes, _Section] = BoundedCache(cache_bytes, _Section.size)

    def __call__(
        self, namespaces: Mapping[str, ToolNamespaceConfig], dialect: SchemaDialect
    ) -> str:
        """Return the section for `namespaces`, from the cache if it is there."""
        key = _key(namespaces, dialect)
        if key is None:
            return tools_section(namespaces, dialect)
        kept = self.cache.get(key)
        if kept is None:
            kept = _Section(tools_section(namespaces, dialect), len(key))
            self.cache.put(key, kept)
        return kept.text


def _key(namespaces: Mapping[str, ToolNamespaceConfig], dialect: SchemaDialect) -> bytes | None:
    """All that the section is written from; None where it is not plain data."""
    content = [
        (
            key,
            namespace.name,
            namespace.description,
            [(tool.name, tool.description, tool.parameters) for tool in namespace.tools],
        )
        for key, namespace in namespaces.items()
    ]
    return fingerprint((dialect, content))
