"""Write docstrings as Markdown for the API reference; mkdocs.yml names this extension of griffe."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

# The target is relative to the pages in reference/api.
_PAGE = re.compile(r"`{1,2}docs/([\w/-]*?)([\w-]+)\.md`{1,2}")
_NAME = re.compile(r"(?<!`)`(\w+)`(?!`)")


class Docstrings(griffe.Extension):
    """Fence examples, make links, and leave the maps of packages to readers of the code."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change the docstrings of all objects of a package."""
        exported = {str(name) for name in pkg.exports or ()}
        waiting: list[griffe.Object] = [pkg]
        while waiting:
            described = waiting.pop()
            members = described.members.values()
            waiting += [member for member in members if isinstance(member, griffe.Object)]
            if described.is_module:
                described.docstring = None
            elif described.docstring:
                text = described.docstring.value
                described.docstring.value = markdown_of(text, exported - {described.name})


def markdown_of(docstring: str, exported: set[str]) -> str:
    """Fence doctests, which are quotes in Markdown, drop ``::``, and link pages and names."""

    def linked_name(match: re.Match[str]) -> str:
        return f"[{match[0]}][gpt_oss_harmony.{match[1]}]" if match[1] in exported else match[0]

    paragraphs = docstring.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if paragraph.lstrip().startswith(">>> "):
            paragraphs[number] = f"```pycon\n{textwrap.dedent(paragraph)}\n```"
        else:
            text = re.sub(r"::$", ":", paragraph).removeprefix(":")
            text = _NAME.sub(linked_name, text)
            paragraphs[number] = _PAGE.sub(r"[\2](../../\1\2.md)", text)
    return "\n\n".join(paragraphs)
