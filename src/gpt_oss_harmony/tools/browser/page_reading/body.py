"""Documents of any kind as pages: HTML, Markdown, JSON, plain text and PDF."""

from __future__ import annotations

import io
import json
import logging
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .characters import clean_line, clean_text, decode
from .html_page import TITLE_LIMIT, read_html
from .links import LinkList, cut_text

_TEXTS = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-sh|sql|x-tex"
    r"|rtf|x-ndjson|jsonl|graphql|x-httpd-php|x-python-code)|image/svg\+xml|message/rfc822"
)
_LOOKS_LIKE_HTML = re.compile(  # as browsers decide it (WHATWG, MIME Sniffing)
    rb"\s*<(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body"
    rb"|br|p)[\s>])",
    re.IGNORECASE,
)
_UNTYPED = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';]+)", re.IGNORECASE)
_MARKDOWN_LINK = re.compile(
    r"(?<!!)\[([^\[\]\n]{1,500})\]\(\s*<?([^()\s<>]{1,2000})>?(?:\s+\"[^\"\n]{0,300}\")?\s*\)"
)
_MARKDOWN_TITLE = re.compile(r"^#{1,6} +(.{1,1000}?)(?: #+)? *$", re.MULTILINE)


class UnreadableError(ValueError):
    """A document cannot be shown as text; the message says why."""


@dataclass(frozen=True)
class ReadPage:
    """A page as it was read; `links` are the addresses, by their numbers in the text."""

    title: str
    text: str
    links: list[str] = field(default_factory=list)
    cut: bool = False
    """True if the text ends before the document does."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def read_body(
    body: bytes,
    *,
    content_type: str,
    address: str,
    limit: int,
    source: bool = False,
    cut: bool = False,
) -> ReadPage:
    """Read a document of any kind. Raises `UnreadableError`.

    - `content_type`: the header, or empty.
    - `address`: the address of the document.
    - `limit`: the most characters of text.
    - `source`: return HTML and Markdown as they are written.
    - `cut`: the body is only the beginning of the document.
    """
    declared, _, parameters = content_type.partition(";")
    charset = _CHARSET.search(parameters)
    kind = _kind(declared.strip().lower(), body, address)
    if kind == "application/pdf":
        if cut:
            raise UnreadableError("the PDF is larger than what is fetched of a document")
        return _read_pdf(body, limit)
    if not _TEXTS.fullmatch(kind) and kind != "application/xhtml+xml":
        raise UnreadableError(f"the document is of type {kind}, which cannot be shown as text")
    if cut:  # perhaps within a character
        body = body.rstrip(bytes(range(0x80, 0x100)))
    is_markup = kind.endswith(("html", "xml"))
    text = decode(body, charset[1] if charset else None, markup=is_markup)
    page = _read_text(text, "text/plain" if source else kind, address, limit)
    # One line of a page can become longer than the limit: a tab, for instance, becomes 8 spaces.
    is_cut = page.cut or cut or len(page.text) > limit
    return replace(page, text=cut_text(page.text, limit), cut=is_cut)


def _kind(declared: str, body: bytes, address: str) -> str:
    """Choose the type by the body and the address if the header declares none, or a vague one."""
    if body.startswith(b"%PDF-"):
        return "application/pdf"
    kind = declared
    if kind in _UNTYPED:
        if _LOOKS_LIKE_HTML.match(body, 0, 2000):
            return "text/html"
        # Text in UTF-16 has zeros, too, but begins with one of these marks.
        if b"\0" in body[:2000] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
            return kind or "application/octet-stream"
        kind = "text/plain"
    if kind == "text/plain" and re.search(r"\.(md|markdown)$", address, re.IGNORECASE):
        return "text/markdown"
    return kind


def _read_text(text: str, kind: str, address: str, limit: int) -> ReadPage:
    if kind in ("text/html", "application/xhtml+xml"):
        return ReadPage(*read_html(text, address, limit))
    if kind in ("text/markdown", "text/x-markdown"):
        return read_markdown(text, address, limit)
    if kind.endswith("json"):
        with suppress(ValueError, RecursionError):  # cut, JSON lines, or nested too deeply
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return ReadPage("", clean_text(text))


def read_markdown(text: str, address: str, limit: int) -> ReadPage:
    """Read Markdown; the title is its first heading.

    >>> read_markdown("# Top\\nSee [it](b.md)!", "doc://guide/a.md", 100)
    ReadPage(title='Top', text='# Top\\nSee 【0†it】!', links=['doc://guide/b.md'], cut=False)
    """
    links = LinkList(address, limit=limit)
    clean = clean_text(text)
    heading = _MARKDOWN_TITLE.search(clean)
    marked = _MARKDOWN_LINK.sub(lambda link: links.mark(link[1], link[2]), clean[:limit])
    title = clean_line(heading[1], TITLE_LIMIT) if heading else ""
    return ReadPage(title, marked, links.addresses, len(clean) > limit)


def _read_pdf(body: bytes, limit: int) -> ReadPage:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(body))
        title = clean_line((reader.metadata and reader.metadata.title) or "", TITLE_LIMIT)
        pages, length = list[str](), 0
        for page in reader.pages:
            pages.append(clean_text(page.extract_text()).strip())
            length += len(pages[-1])
            if length > limit:
                break
    except NotImplementedError as error:  # an encryption that pypdf does not know
        raise UnreadableError(f"the PDF is encrypted in an unknown way: {error}") from error
    except (PyPdfError, DependencyError, LookupError, TypeError, ValueError) as error:
        raise UnreadableError(f"the PDF is damaged or encrypted: {error}") from error
    text = "\n\n".join(page for page in pages if page)
    if not text:
        raise UnreadableError("the PDF has no text; its pages may be pictures")
    return ReadPage(title, text[:limit], cut=length > limit)
