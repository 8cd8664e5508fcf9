"""Links from the examples of two pages into the playground, which opens them in the tab *Tokens*.

The pages themselves have no such links: `site_hooks.py` writes them while the site is built.
"""

from __future__ import annotations

import ast
import base64
import html
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

from gpt_oss_harmony import load_harmony_encoding

__all__ = ["linked_examples", "playground_address"]

_WORDS = {
    "en": "Open in the playground",
    "ja": "プレイグラウンドで開く",
    "ko": "플레이그라운드에서 열기",
    "ru": "Открыть в песочнице",
}

_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.M | re.S
)
_BETWEEN_MESSAGES = re.compile(r"(<\|(?:end|return|call)\|>)\n(?=<\|start\|>)")
_ROW = re.compile(r"^\| `(?P<name>[\w-]+)` \|.*$", re.M)
_BAR = re.compile(r"(?<!\\)\|")
_EXAMPLE_COLUMNS = {3: 2, 5: 5}
"""The column of the example, from 1, in tables with this number of columns."""

_PART = re.compile(r"\{(\d+)\}|≪(\w+)≫")

_IN_NO_PAGE = {"refused-call", "mended-arguments"}
"""Kinds of repairs that only a program with `repairs` gets."""


def linked_examples(markdown: str, path: str, base: str, language: str) -> str:
    """Add links to the examples of a page; `base` is the address of the site's root."""
    words = _WORDS[language]
    if path.startswith("understand/format."):
        return _BLOCK.sub(lambda block: _linked_block(block, base, words), markdown)
    if path == "reference/recoveries.md":
        return _ROW.sub(lambda row: _linked_row(row, base, words), markdown)
    return markdown


def playground_address(base: str, **document: Any) -> str:
    """Write the address that opens a document, as `page/fragment.js` does."""
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(json.dumps(document).encode()) + packer.flush()
    text = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    return f"{base}playground/#c={text}&tab=tokens"


def _link(address: str, words: str, shown: str) -> str:
    address = html.escape(address)
    return (
        f'<a class="playground" href="{address}" title="{words}" aria-label="{words}">{shown}</a>'
    )


def _linked_block(block: re.Match[str], base: str, words: str) -> str:
    output = block["output"] or ""
    examples = [output] if "<|start|>" in output else list(_turns(block["code"]))
    links = (
        _link(playground_address(base, input=_one_text(text)), words, words) for text in examples
    )
    return block[0] + "".join(f"\n{link}\n" for link in links)


def _one_text(output: str) -> str:
    """Undo the line breaks between messages, which the page shows and the format does not have."""
    return _BETWEEN_MESSAGES.sub(r"\1", output.rstrip("\n"))


def _turns(code: str) -> Iterator[str]:
    """Yield the marked-up texts in a program."""
    if ">>>" in code:
        return
    for node in ast.walk(ast.parse(code)):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and "<|message|>" in text:
            yield text


def _linked_row(row: re.Match[str], base: str, words: str) -> str:
    cells = _BAR.split(row[0])
    column = _EXAMPLE_COLUMNS.get(len(cells) - 2)
    if column is None or row["name"] in _IN_NO_PAGE or not cells[column].strip():
        return row[0]
    example = cells[column].strip().strip("`").replace("\\|", "|")
    address = playground_address(base, source=_TOOLS, input=_written(example))
    cells[column] += f"{_link(address, words, '▶')} "
    return "|".join(cells)


_TOOLS = {
    "messages": [
        {
            "role": "developer",
            "content": [
                {
                    "type": "developer_content",
                    "tools": {
                        "functions": {
                            "name": "functions",
                            "tools": [
                                {"name": "f", "description": "A function."},
                                {"name": "Web Search", "description": "Another function."},
                            ],
                        }
                    },
                }
            ],
        }
    ]
}


def _written(example: str) -> str:
    """Write an example so that the page reads it: as ids, if it has more than marked-up text."""
    if not _PART.search(example):
        return example
    encoding = load_harmony_encoding("HarmonyGptOss")
    tokens: list[int] = []
    done = 0
    for part in _PART.finditer(example):
        tokens += encoding.encode(example[done : part.start()], allowed_special="all")
        tokens += (
            [int(part[1])] if part[1] else encoding.encode(f"<|{part[2]}|>", disallowed_special=())
        )
        done = part.end()
    tokens += encoding.encode(example[done:], allowed_special="all")
    return " ".join(map(str, tokens))
