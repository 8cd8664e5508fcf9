"""What MkDocs does with our pages beyond its plugins; ``hooks`` in mkdocs.yml names this file.

Pages link to files of the repository by relative paths, so that the links work where the repository
is read. On the site such a link leads to the file in the repository.

A translated heading carries the anchor of the English one as ``<a id>``, which GitHub understands;
on the site it becomes the heading's id. A translation marked as behind begins with a notice.

Pages that are not translated exist once, in English; the other languages link to them.

A page that loads anything from another host is an error.
"""

from __future__ import annotations

import logging
import posixpath
import re
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import InclusionLevel
from translations import RECORD

_log = logging.getLogger("mkdocs.hooks.site_hooks")

# A fenced block, which stays as it is, or the target of a link that leaves its folder.
_LINK = re.compile(r"^```.*?^```$|(?<=\]\()(?:\.\./)+[^)\s]+", re.MULTILINE | re.DOTALL)
_ANCHOR = re.compile(r'^(#+) <a id="([^"]*)"></a>(.*)$', re.MULTILINE)

# What a page loads by itself; `rel` comes before `href` in the templates.
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|icon|preload|preconnect|manifest)\b[^>]*"""
    r"""\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
)

# Outside of tables a backslash in code is a backslash.
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)

# MkDocs reports links to pages that another language has; here they are meant.
for _name in ("pages", "nav"):
    logging.getLogger(f"mkdocs.structure.{_name}").addFilter(
        lambda record: "excluded from the built site" not in record.getMessage()
    )

NOTICES = {
    "ja": "英語版のページのほうが新しくなっています。この翻訳はまだ更新されていません。",
    "ko": "영어 페이지가 더 최신입니다. 이 번역은 아직 갱신되지 않았습니다.",
    "ru": "Английская страница новее: этот перевод ещё не обновлён.",
}


@event_priority(-200)  # after the plugin i18n, which copies such pages into every language
def on_files(files: Any, config: Any) -> Any:
    """Let every language use the English file of a page without a translation."""
    i18n = config.plugins["i18n"]
    language = i18n.current_language
    for file in files.documentation_pages():
        if file.norm_src_uri == "index.md":
            continue  # each language needs a first page
        file.alternates = {
            name: alternate
            for name, alternate in file.alternates.items()
            if alternate.locale == name
        }
        if file.locale != language:
            file.inclusion = InclusionLevel.EXCLUDED
            file.dest_uri = file.dest_uri.removeprefix(f"{language}/")
            file.url = file.url.removeprefix(f"{language}/")
    i18n.i18n_files_per_language[language] = files.documentation_pages()
    return files


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


def on_page_content(html: str, **_: Any) -> str:
    """Show escaped bars in the code of tables without their backslashes, as GitHub does."""
    return _CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Warn of what a page loads from other hosts; ``--strict`` makes it an error."""
    for match in _LOADED.finditer(output):
        _log.warning("%s loads %s", page.file.src_uri, match[1] or match[2])
    return output
