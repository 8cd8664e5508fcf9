"""What kind of document a body is, and how each kind is read."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from .charset import decode
from .html_page import read_html
from .pdf_page import read_pdf
from .text_page import read_json, read_markdown, read_text

__all__ = ["ReadPage", "UnreadableError", "read_body"]

_TEXTS = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-sh|sql|x-tex"
    r"|rtf|x-ndjson|jsonl|graphql|x-httpd-php|x-python-code)|image/svg\+xml|message/rfc822"
)
_LOOKS_LIKE_HTML = re.compile(  # what browsers take for it (WHATWG, MIME Sniffing)
    rb"\s*<(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body"
    rb"|br|p)[\s>])",
    re.IGNORECASE,
)
_UNTYPED = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")


class UnreadableError(ValueError):
    """A document cannot be shown as text; the message says why."""


@dataclass(frozen=True)
class ReadPage:
    """A page as it was read: `links` are addresses, each at its number in the text."""

    title: str
    text: str
    links: list[str] = field(default_factory=list)
    cut: bool = False
    """Whether the text ends before the document does."""

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
    """Read a document of any kind.

    `content_type` is the header, or empty; `address` where it was found; `limit` how many
    characters of text are wanted; `source` asks for HTML and Markdown as they are written; `cut`
    says that the body is only the beginning. Raises `UnreadableError`.
    """
    kind, charset = _parse(content_type)
    kind = _kind(kind, body, address)
    if kind == "application/pdf":
        return _read_pdf(body, limit, cut=cut)
    if not _TEXTS.fullmatch(kind) and kind != "application/xhtml+xml":
        raise UnreadableError(f"the document is of type {kind}, which cannot be shown as text")
    if cut:  # perhaps within a character
        body = body.rstrip(bytes(range(0x80, 0x100)))
    page = _read_text(
        decode(body, charset, markup=kind.endswith(("html", "xml"))),
        "text/plain" if source else kind,
        address,
        limit,
    )
    return ReadPage(page.title, page.text, page.links, page.cut or cut)


def _read_text(text: str, kind: str, address: str, limit: int) -> ReadPage:
    if kind in ("text/html", "application/xhtml+xml"):
        return ReadPage(*read_html(text, address, limit))
    if kind in ("text/markdown", "text/x-markdown"):
        return ReadPage(*read_markdown(text, address, limit))
    read = read_json if kind.endswith("json") else read_text
    shown, was_cut = read(text, limit)
    return ReadPage("", shown, [], was_cut)


def _read_pdf(body: bytes, limit: int, *, cut: bool) -> ReadPage:
    if cut:
        raise UnreadableError("the PDF is larger than what is fetched of a document")
    try:
        title, text, was_cut = read_pdf(body, limit)
    except ValueError as error:
        raise UnreadableError(str(error)) from error
    return ReadPage(title, text, [], was_cut)


def _parse(content_type: str) -> tuple[str, str | None]:
    """Split the header into the type and the character set that it names."""
    kind, _, parameters = content_type.partition(";")
    found = re.search(r"charset\s*=\s*[\"']?([^\s\"';]+)", parameters, re.IGNORECASE)
    return kind.strip().lower(), found[1] if found else None


def _kind(kind: str, body: bytes, address: str) -> str:
    """Settle the type by what the body shows, where the header says nothing or too little."""
    if body.startswith(b"%PDF-"):
        return "application/pdf"
    if kind in _UNTYPED:
        if _LOOKS_LIKE_HTML.match(body, 0, 2000):
            return "text/html"
        if b"\0" in body[:2000] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
            return kind or "application/octet-stream"
        kind = "text/plain"
    if kind == "text/plain" and re.search(r"\.(md|markdown)$", address, re.IGNORECASE):
        return "text/markdown"
    return kind
