"""Write docstrings as Markdown for the API reference; mkdocs.yml names this extension of griffe."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Fence examples, and leave the maps of packages to readers of the code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of any object."""
        if obj.is_module:
            obj.docstring = None
        elif obj.docstring:
            obj.docstring.value = markdown_of(obj.docstring.value)


def markdown_of(docstring: str) -> str:
    """Fence doctests, which are quotes in Markdown, and drop the ``::`` before a block."""
    paragraphs = docstring.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if paragraph.lstrip().startswith(">>> "):
            paragraphs[number] = f"```pycon\n{textwrap.dedent(paragraph)}\n```"
        else:
            paragraphs[number] = re.sub(r"::$", ":", paragraph).removeprefix(":")
    return "\n\n".join(paragraphs)
