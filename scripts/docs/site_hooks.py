"""What MkDocs does with our pages beyond its plugins; ``hooks`` in mkdocs.yml names this file.

Pages link to files of the repository by relative paths, so that the links work where the repository
is read. On the site such a link leads to the file in the repository.

A translated heading carries the anchor of the English one as ``<a id>``, which GitHub understands;
on the site it becomes the heading's id. A translation marked as behind begins with a notice.

Pages that are not translated exist once, in English; the other languages link to them. The
navigation has the title of each page, so an English title is the mark of an English page.

Each language has a search index of its own: its pages, and the English pages without a translation.

``extra.search_words`` in mkdocs.yml has other words that people type for a page; the search counts
them more than titles, and shows them with its results. Names of code are found whole and by the
words in them.

The examples of some pages have links into the playground: see `playground_links.py`. A link to the
published playground is relative on the site, so that a copy of the site has its own.

A page that loads anything from another host is an error.
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mkdocs.plugins import event_priority
from mkdocs.structure.files import InclusionLevel
from mkdocs.utils import get_markdown_title
from playground_links import linked_examples
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

# The folder that a page searches, relative to the page.
_BASE = re.compile(r'(?<="base": ")[./]+(?=")')
_INDEX = Path("search", "search_index.json")

# Where the theme's worker of the search reads a query, and where it weighs an entry that it found:
# it calls the functions of search.js there. Each release of the theme has other short names.
_SEARCH = (
    (r"return (\w+)\.trim\(\)\.split\(", r"return searchedWords(\1).trim().split("),
    (
        r"(\({},(\w+)\),{score:\w+\*)\(1\+\w+\(\w+,2\)\)(,terms:(\w+)})",
        r"\1searchWeight(\2,\4)\3",
    ),
)

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_COMMAND = re.compile(r"harmony [a-z ,]+")

# A name of code that has several words, and the words.
_NAME = re.compile(r"\b[A-Za-z]\w*(?:(?<=[a-z])[A-Z]|(?<=\w)_(?=\w))\w*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

# How much a page counts in a search. The reference repeats the words of the guides.
_WEIGHTS = {
    "start/": 4,
    "start/index.": 6,
    "guides/": 2,
    "guides/command.": 4,
    "guides/serve.": 4,
    "understand/": 2,
    "understand/format.": 5,
    "reference/server.": 2,
    "reference/api/": 0.5,
}

# A picture that has a narrow twin: scripts/docs/turn_picture.py.
_PICTURE = re.compile(r'(<img\b[^>]*\bsrc="([^"]*/turn)\.svg"[^>]*>)')

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


@event_priority(-200)  # after the plugin i18n, which translates titles that sections have
def on_nav(nav: Any, config: Any, **_: Any) -> Any:
    """Give pages that this language lacks their English titles, which MkDocs does not read."""
    language = config.plugins["i18n"].current_language
    for page in nav.pages:
        if page.file.locale != language:
            page.title = get_markdown_title(page.file.content_string)
    return nav


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Link files outside ``docs`` to the repository; give a page its weight, ids and notice."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def repository_link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[0]))
        if match[0].startswith("```") or target.startswith("docs/"):
            return match[0]
        return f"{config['repo_url']}/blob/main/{target}"

    if page.file.src_uri == "changelog.md":
        written = Path("CHANGELOG.md").read_text("utf-8")
        markdown = re.sub(
            r"\]\((?!https?:)(docs/)?", lambda it: "](" if it[1] else "](../", written
        )
    for part, weight in _WEIGHTS.items():
        if page.file.src_uri.startswith(part):
            page.meta["search"] = {"boost": weight}
    i18n = config.get("plugins", {}).get("i18n")
    language = i18n.current_language if i18n else "en"
    markdown = linked_examples(markdown, page.file.src_uri, "../" * page.url.count("/"), language)
    english = re.sub(r"\.\w\w\.md$", ".md", page.file.src_uri)
    if words := config["extra"].get("search_words", {}).get(english):
        page.meta["tags"] = words
    record = RECORD.search(markdown)
    markdown = _LINK.sub(repository_link, RECORD.sub("\n", markdown))
    markdown = _ANCHOR.sub(r"\1 \3 {#\2}", markdown)
    if record and record["behind"]:
        notice = NOTICES[posixpath.splitext(posixpath.splitext(page.file.src_uri)[0])[1][1:]]
        markdown = re.sub(r"\A(#.*\n)", rf'\1\n!!! warning "{notice}"\n', markdown)
    return markdown


def on_page_content(html: str, page: Any, config: Any, **_: Any) -> str:
    """Show narrow pictures on telephones, and escaped bars in the code of tables as GitHub does."""
    published = f"{config['site_url']}playground/"
    html = html.replace(f'href="{published}', f'href="{"../" * page.url.count("/")}playground/')
    html = _PICTURE.sub(
        r'<picture><source media="(max-width: 600px)" srcset="\2-narrow.svg">\1</picture>', html
    )
    return _CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Search the index of the page's language; report what the page loads from other hosts."""
    for match in _LOADED.finditer(output):
        _log.warning("%s loads %s", page.file.src_uri, match[1] or match[2])
    i18n = config.plugins["i18n"]
    # Links to other languages begin with the path of the published site; others may serve a copy.
    root = "../" * page.url.count("/") or "./"
    published = urlsplit(config.site_url).path
    output = re.sub(rf'href="{published}(?=[^"]*" hreflang=)', f'href="{root}', output)
    if i18n.current_language == i18n.default_language:
        return output
    in_language = page.url.removeprefix(f"{i18n.current_language}/")
    return _BASE.sub("../" * in_language.count("/") or ".", output, count=1)


@event_priority(-200)  # after the plugin i18n, which builds the other languages and one index
def on_post_build(config: Any) -> None:
    """Write a search index for each language instead of one for all."""
    i18n = config.plugins["i18n"]
    if i18n.building:
        return
    site = Path(config.site_dir)
    index = json.loads((site / _INDEX).read_text(encoding="utf-8"))
    languages = [name for name in i18n.build_languages if name != i18n.default_language]
    for entry in index["docs"]:
        entry.update(_names(entry))
    for language in [i18n.default_language, *languages]:
        others = tuple(f"{name}/" for name in languages if name != language)
        entries = [doc for doc in index["docs"] if not doc["location"].startswith(others)]
        if language != i18n.default_language:
            entries = _seen_from(language, entries)
        index_of_language = {
            "config": index["config"] | {"lang": list(dict.fromkeys(("en", language)))},
            "docs": entries,
        }
        path = site / ("" if language == i18n.default_language else language) / _INDEX
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(index_of_language, ensure_ascii=False, separators=(",", ":"))
        path.write_text(text, encoding="utf-8")
    for worker in site.glob("assets/javascripts/workers/search.*.min.js"):
        code = worker.read_text(encoding="utf-8")
        for theirs, ours in _SEARCH:
            code, count = re.subn(theirs, ours, code)
            if count != 1:
                _log.warning("%s searches in another way; see _SEARCH", worker.name)
        added = Path(__file__).with_name("search.js").read_text(encoding="utf-8")
        worker.write_text(added + code, encoding="utf-8")


def _seen_from(language: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a language's pages, then the English pages that it lacks, relative to its folder."""
    prefix = f"{language}/"
    own = [doc for doc in entries if doc["location"].startswith(prefix)]
    own = [doc | {"location": doc["location"].removeprefix(prefix)} for doc in own]
    translated = {doc["location"].partition("#")[0] for doc in own}
    english = [
        doc | {"location": f"../{doc['location']}"}
        for doc in entries
        if not doc["location"].startswith(prefix)
        and doc["location"].partition("#")[0] not in translated
    ]
    return own + english


def _names(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the words in an entry's names of code, and what it describes: a name, a command.

    The section of a command is found by its options, too.
    """
    found = _NAME.findall(f"{entry['title']} {entry['text']}")
    words = dict.fromkeys(word.lower() for name in found for word in _PART.findall(name))
    fields: dict[str, Any] = {"parts": " ".join(words)} if words else {}
    page, _, anchor = entry["location"].partition("#")
    described = anchor.rpartition(".")[2]
    if page.startswith("reference/api/") and _NAME.fullmatch(described):
        fields["name"] = described
    if page.endswith("/command/") and (command := _COMMAND.search(entry["title"])):
        options = _OPTION.findall(entry["text"]) if page == "reference/command/" else []
        joined = dict.fromkeys(f"zz{option.replace('-', '')}" for option in options)
        fields |= {"name": command[0], "option": " ".join(joined)}
        fields["tags"] = [] if options else [command[0]]
    return fields
