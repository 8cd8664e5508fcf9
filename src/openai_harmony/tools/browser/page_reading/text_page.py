"""Plain text, JSON and Markdown as pages."""

from __future__ import annotations

import json
import re
from contextlib import suppress

from .clean_text import clean_line, clean_text
from .link_list import LinkList

__all__ = ["read_json", "read_markdown", "read_text"]

_TITLE_LIMIT = 300  # characters
_MARKDOWN_LINK = re.compile(
    r"(?<!!)\[([^\[\]\n]{1,500})\]\(\s*<?([^()\s<>]{1,2000})>?(?:\s+\"[^\"\n]{0,300}\")?\s*\)"
)
_MARKDOWN_TITLE = re.compile(r"^#{1,6} +(.{1,1000}?)(?: #+)? *$", re.MULTILINE)


def read_text(text: str, limit: int) -> tuple[str, bool]:
    """Return clean text, and whether it was cut after `limit` characters."""
    clean = clean_text(text)
    return clean[:limit], len(clean) > limit


def read_json(text: str, limit: int) -> tuple[str, bool]:
    """Return JSON one value a line; what is none is left as it is.

    >>> read_json('{"a":[1]}', 100)[0]
    '{\\n  "a": [\\n    1\\n  ]\\n}'
    """
    with suppress(ValueError, RecursionError):  # a part of it, JSON lines, or nested too deeply
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return read_text(text, limit)


def read_markdown(text: str, address: str, limit: int) -> tuple[str, str, list[str], bool]:
    """Return the first heading, the text with its links numbered, their addresses, and the cut.

    >>> read_markdown("# Top\\nSee [it](b.md)!", "doc://guide/a.md", 100)
    ('Top', '# Top\\nSee 【0†it】!', ['doc://guide/b.md'], False)
    """
    links = LinkList(address)
    clean = clean_text(text)
    heading = _MARKDOWN_TITLE.search(clean)
    marked = _MARKDOWN_LINK.sub(lambda found: links.mark(found[1], found[2]), clean[:limit])
    title = clean_line(heading[1], _TITLE_LIMIT) if heading else ""
    return title, marked, links.addresses, len(clean) > limit
