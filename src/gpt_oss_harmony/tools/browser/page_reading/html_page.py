"""HTML: the title, text and links of a page."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from selectolax.lexbor import LexborHTMLParser, LexborNode

from .characters import clean_line, clean_text
from .html_layout import Layout
from .links import LinkList, join

TITLE_LIMIT = 300
"""Characters of a title."""

# fmt: off
_SKIPPED = (
    "audio", "canvas", "datalist", "dialog", "embed", "frameset", "head", "iframe", "input", "map",
    "noscript", "object", "script", "select", "style", "svg", "template", "textarea", "video",
)
_BLOCKS = (
    "address", "article", "aside", "body", "caption", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "html", "legend",
    "main", "nav", "p", "search", "section", "summary", "table",
)
_LAYOUT = frozenset((
    "blockquote", "center", "dl", "form", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol", "p",
    "pre", "table", "ul",
))
# fmt: on
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_RAISED = re.compile(r"[\w+-]{1,20}")  # superscripts and subscripts
_LABEL_LIMIT = 500  # characters; a longer link is part of the page
_Ending = Callable[[], None]


def read_html(html: str, address: str, limit: int) -> tuple[str, str, list[str], bool]:
    """Return the title, the text, the addresses of its links, and whether the text was cut.

    `address` is the address of the page; its text ends soon after `limit` characters.

    >>> read_html("<title>T</title><h1>Hi</h1><p>See <a href=b>it</a>.", "https://a.example/", 99)
    ('T', '# Hi\\n\\nSee 【0†it】.', ['https://a.example/b'], False)
    """
    tree = LexborHTMLParser(html)
    heading = tree.css_first("title")
    title = clean_line(heading.text(), TITLE_LIMIT) if heading is not None else ""
    base, element = address, tree.css_first("base[href]")
    if element is not None:
        with suppress(ValueError):
            base = join(address, element.attributes["href"] or "")
    writer = _Writer(LinkList(address, base, limit=limit), limit)
    cut = tree.root is not None and not _walk(tree.root, writer)
    return title, writer.layout.text(), writer.links.addresses, cut


def _walk(root: LexborNode, writer: _Writer) -> bool:
    """Write everything below `root`; return False if the writer is full before the end.

    There is no recursion, because pages may be nested deeply; `traverse` does not report where an
    element ends.
    """
    node, endings = root, list[_Ending]()
    while not writer.is_full:
        ending = writer.begin(node)
        child = None if ending is None else node.first_child
        if child is not None and ending is not None:
            endings.append(ending)
            node = child
            continue
        if ending is not None:
            ending()
        while (following := node.next) is None:
            parent = node.parent
            if not endings or parent is None:
                return True
            endings.pop()()
            node = parent
        if not endings:
            return True
        node = following
    return False


def _label(link: LexborNode) -> str | None:
    """Return the text of a link with the spaces at its ends; None if it is too long."""
    pieces = list[str]()
    length = 0
    for node in link.traverse(include_text=True):
        text = node.text_content if node.is_text_node else None
        if node.tag == "img":
            text = node.attributes.get("alt")
        if text:
            pieces.append(text)
            length += len(text)
            if length > _LABEL_LIMIT:
                break
        elif node.tag in _BLOCKS:
            pieces.append(" ")
    return "".join(pieces) if length <= _LABEL_LIMIT else None


class _Writer:
    """Lays out each element.

    `begin` returns a function to call at the end of the element, or None to skip its children.
    """

    def __init__(self, links: LinkList, limit: int) -> None:
        self.layout = Layout()
        self.links = links
        self._limit = limit
        self._cells = 0  # open cells of tables, which contain no blocks
        self._first_cell = False
        self._elements: dict[str, Callable[[LexborNode], _Ending | None]] = {
            "a": self._link,
            "blockquote": self._quote,
            "br": self._line_break,
            "hr": self._rule,
            "img": self._image,
            "li": self._item,
            "math": self._formula,
            "ol": self._list,
            "pre": self._verbatim,
            "sub": self._raised,
            "sup": self._raised,
            "td": self._cell,
            "th": self._cell,
            "tr": self._row,
            "ul": self._list,
            **dict.fromkeys((f"h{level}" for level in range(1, 7)), self._heading),
            **dict.fromkeys(_BLOCKS, self._block),
            **dict.fromkeys(_SKIPPED, lambda _: None),
        }

    @property
    def is_full(self) -> bool:
        """True if the limit is reached."""
        return self.layout.characters + self.layout.inline.characters > self._limit

    def begin(self, node: LexborNode) -> _Ending | None:
        """Write a text, or the beginning of an element."""
        if node.is_text_node:
            self.layout.inline.add(clean_text(node.text_content or ""))
            return None
        tag = node.tag
        if tag is None or not node.is_element_node:
            return None
        attributes = node.attributes
        if "hidden" in attributes or _HIDDEN.search(attributes.get("style") or ""):
            return None
        begin = self._elements.get(tag)
        return _nothing if begin is None else begin(node)

    def _block(self, _: LexborNode) -> _Ending:
        self._break()
        return self._break

    def _break(self) -> None:
        if self._cells:
            self.layout.inline.add(" ")
        else:
            self.layout.begin_block()

    def _heading(self, node: LexborNode) -> _Ending:
        if self._cells:
            return self._block(node)
        self.layout.begin_heading(int((node.tag or "h1")[1]))
        return self._break

    def _list(self, node: LexborNode) -> _Ending:
        if self._cells:
            return self._block(node)
        start = node.attributes.get("start") or "1"
        first = int(start) if re.fullmatch(r"-?[0-9]{1,6}", start) else 1
        self.layout.begin_list(first if node.tag == "ol" else None)
        return self.layout.end_list

    def _item(self, node: LexborNode) -> _Ending:
        if self._cells:
            return self._block(node)
        self.layout.begin_item()
        return self.layout.end_item

    def _quote(self, node: LexborNode) -> _Ending:
        if self._cells:
            return self._block(node)
        self.layout.begin_quote()
        return self.layout.end_quote

    def _row(self, _: LexborNode) -> _Ending:
        self._first_cell = True
        if not self._cells:
            self.layout.begin_block(gap=False)
        return _nothing

    def _cell(self, node: LexborNode) -> _Ending:
        """Separate cells by bars; a cell that contains a layout instead of data is a block."""
        if not self._cells and _is_layout(node):
            return self._block(node)
        if not self._first_cell:
            self.layout.inline.add(" | ")
        self._first_cell = False
        self._cells += 1
        return self._end_cell

    def _end_cell(self) -> None:
        self._cells -= 1
        self._first_cell = False

    def _line_break(self, _: LexborNode) -> None:
        if self._cells:
            self.layout.inline.add(" ")
        else:
            self.layout.inline.end_line()

    def _rule(self, _: LexborNode) -> None:
        if not self._cells:
            self.layout.write_block("* * *")

    def _verbatim(self, node: LexborNode) -> None:
        text = clean_text(node.text())
        if self._cells:
            self.layout.inline.add(text)
        else:
            self.layout.write_block(text)

    def _image(self, node: LexborNode) -> None:
        about = clean_line(node.attributes.get("alt") or "", TITLE_LIMIT)
        if about:
            self.layout.inline.add(f"[Image: {about}]")

    def _formula(self, node: LexborNode) -> None:
        source = node.css_first("annotation[encoding='application/x-tex']")
        text = node.attributes.get("alttext") or (source or node).text()
        self.layout.inline.add(f" {clean_line(text, TITLE_LIMIT)} ")

    def _raised(self, node: LexborNode) -> _Ending | None:
        text = node.text().strip()
        if node.css_first("a[href]") is not None or not _RAISED.fullmatch(text):
            return _nothing
        # As the browser of openai/gpt-oss writes them.
        self.layout.inline.add_verbatim(("^{" if node.tag == "sup" else "_{") + text + "}")
        return None

    def _link(self, node: LexborNode) -> _Ending | None:
        reference = node.attributes.get("href")
        label = None if reference is None else _label(node)
        if reference is None or label is None:
            return _nothing
        inline = self.layout.inline
        # The label loses the spaces at its ends, which separate it from the words beside it.
        inline.add(" " if label[:1].isspace() else "")
        inline.add_verbatim(self.links.mark(label, reference))
        inline.add(" " if label[-1:].isspace() else "")
        return None


def _nothing() -> None:
    pass


def _is_layout(cell: LexborNode) -> bool:
    blocks, child = 0, cell.first_child
    while child is not None:
        blocks += 2 if child.tag == "table" else child.tag in _LAYOUT
        child = child.next
    return blocks > 1
