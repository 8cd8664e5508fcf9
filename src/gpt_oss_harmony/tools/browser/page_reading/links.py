"""Links of a page: their numbers, and their marks in the text."""

from __future__ import annotations

from urllib.parse import urldefrag, urljoin, urlsplit

from .characters import clean_label

LINK_LIMIT = 10_000
"""The most links of a page that get a number; further links stay as text."""

_ADDRESS_LIMIT = 4_000  # characters


class LinkList:
    """The links of a page, numbered in order; the same address has one number.

    References are relative to `base` if the page declares one. Only local documents may link to
    local documents. All addresses together have at most `limit` characters; further links stay as
    text.

    >>> links = LinkList("https://example.com/a/")
    >>> links.mark("Next", "b#top"), links.mark("Other", "https://example.org/")
    ('【0†Next】', '【1†Other†example.org】')
    >>> links.addresses
    ['https://example.com/a/b', 'https://example.org/']
    """

    def __init__(self, page: str, base: str | None = None, *, limit: int = 1_000_000) -> None:
        self._domain = domain_of(page)
        self._schemes = ("http", "https", *(("doc",) if page.startswith("doc://") else ()))
        self._base = page if base is None else base
        self._numbers: dict[str, int] = {}
        self._room = limit

    @property
    def addresses(self) -> list[str]:
        """The addresses, by their numbers."""
        return list(self._numbers)

    def mark(self, text: str, reference: str) -> str:
        """Return the mark of a link; if the link has no valid address, only its text."""
        label = clean_label(text)
        address = self._resolve(reference)
        if not label or address is None:
            return label
        number = self._numbers.get(address)
        if number is None:
            if len(self._numbers) == LINK_LIMIT or len(address) > self._room:
                return label
            self._room -= len(address)
            number = self._numbers[address] = len(self._numbers)
        domain = domain_of(address)
        elsewhere = "" if domain == self._domain else f"†{domain}"
        return f"【{number}†{label}{elsewhere}】"

    def _resolve(self, reference: str) -> str | None:
        reference = "".join(reference.split())
        if not reference or reference.startswith("#") or len(reference) > _ADDRESS_LIMIT:
            return None
        try:
            address = join(self._base, reference)
            is_valid = urlsplit(address).scheme in self._schemes
        except ValueError:  # such as an unfinished IPv6 address
            return None
        if not is_valid or not domain_of(address) or len(address) > _ADDRESS_LIMIT:
            return None
        return address


def cut_text(text: str, limit: int) -> str:
    """Return the beginning of a text, at most `limit` characters; no mark of a link is cut in two.

    >>> cut_text("See 【0†it】.", 8), cut_text("See 【0†it】.", 10)
    ('See ', 'See 【0†it】')
    """
    if len(text) <= limit:
        return text
    text = text[:limit]
    start = text.rfind("【")
    return text[:start] if start > text.rfind("】") else text


def join(base: str, reference: str) -> str:
    """Resolve a reference, also within ``doc://``, which `urljoin` does not support.

    >>> join("doc://guide/a/b.md", "../c.md#d")
    'doc://guide/c.md'
    """
    if base.startswith("doc://"):
        joined = urljoin("http" + base[3:], reference)
        if not urlsplit(reference).scheme and not reference.startswith("//"):
            joined = "doc" + joined[4:]
    else:
        joined = urljoin(base, reference)
    return urldefrag(joined).url


def domain_of(address: str) -> str:
    """Return the host of an address, with its port if there is one; empty without a host.

    >>> domain_of("https://user@Example.com:8080/a")
    'example.com:8080'
    """
    try:
        host = urlsplit(address).netloc
    except ValueError:
        return ""
    # Without a user's name, which could look like the host: `https://bank.com@evil.com`.
    return clean_label(host.rpartition("@")[2].lower())
