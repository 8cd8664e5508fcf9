"""What MkDocs does with our pages beyond its plugins; ``hooks`` in mkdocs.yml names this file.

Pages link to files of the repository by relative paths, so that the links work where the repository
is read. On the site such a link leads to the file in the repository.

A translated heading carries the anchor of the English one as ``<a id>``, which GitHub understands;
on the site it becomes the heading's id. A translation marked as behind begins with a notice.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from translations import RECORD

# A fenced block, which stays as it is, or the target of a link that leaves its folder.
_LINK = re.compile(r"^```.*?^```$|(?<=\]\()(?:\.\./)+[^)\s]+", re.MULTILINE | re.DOTALL)
_ANCHOR = re.compile(r'^(#+) <a id="([^"]*)"></a>(.*)$', re.MULTILINE)

NOTICES = {
    "ja": "英語版のページのほうが新しくなっています。この翻訳はまだ更新されていません。",
    "ko": "영어 페이지가 더 최신입니다. 이 번역은 아직 갱신되지 않았습니다.",
    "ru": "Английская страница новее: этот перевод ещё не обновлён.",
}


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Link to the repository what lies outside ``docs``; give translations ids and a notice."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def repository_link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[0]))
        if match[0].startswith("```") or target.startswith("docs/"):
            return match[0]
        return f"{config['repo_url']}/blob/main/{target}"

    record = RECORD.search(markdown)
    markdown = _LINK.sub(repository_link, RECORD.sub("\n", markdown))
    markdown = _ANCHOR.sub(r"\1 \3 {#\2}", markdown)
    if record and record["behind"]:
        notice = NOTICES[posixpath.splitext(posixpath.splitext(page.file.src_uri)[0])[1][1:]]
        markdown = re.sub(r"\A(#.*\n)", rf'\1\n!!! warning "{notice}"\n', markdown)
    return markdown


# Outside of tables a backslash in code is a backslash.
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Show escaped bars in the code of tables without their backslashes, as GitHub does."""
    return _CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), html)
