"""Tool sections that were written once are kept: the same tools come with every request."""

from __future__ import annotations

import marshal
from collections.abc import Mapping

from .bounded_cache import BoundedCache
from .config import SchemaDialect
from .prompt import tools_section
from .tool_namespaces import ToolNamespaceConfig

__all__ = ["ToolSections"]


class ToolSections:
    """Write tool sections, each once for equal tools; call it like `tools_section`."""

    def __init__(self, cache_bytes: int) -> None:
        # The key, which holds the schemas, is about as long as the section.
        self.cache: BoundedCache[bytes, str] = BoundedCache(cache_bytes, lambda s: 4 * len(s) + 300)

    def __call__(
        self, namespaces: Mapping[str, ToolNamespaceConfig], dialect: SchemaDialect
    ) -> str:
        """Return the section for `namespaces`, from the cache if it is there."""
        key = _fingerprint(namespaces, dialect)
        if key is None:
            return tools_section(namespaces, dialect)
        section = self.cache.get(key)
        if section is None:
            section = tools_section(namespaces, dialect)
            self.cache.put(key, section)
        return section


def _fingerprint(
    namespaces: Mapping[str, ToolNamespaceConfig], dialect: SchemaDialect
) -> bytes | None:
    """Return all that the section is written from, as bytes; None for values of other types.

    Version 2 of marshal writes equal values as equal bytes (later ones note identities), keeps
    the order of keys, and tells 1, 1.0 and True apart.
    """
    content = [
        (
            key,
            namespace.name,
            namespace.description,
            [(tool.name, tool.description, tool.parameters) for tool in namespace.tools],
        )
        for key, namespace in namespaces.items()
    ]
    try:
        return marshal.dumps((dialect, content), 2)
    except ValueError:
        return None
