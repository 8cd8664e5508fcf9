"""The output of one cell: what is kept of its texts and images, within limits."""

from __future__ import annotations

import binascii
import json
from collections import deque
from typing import Any

_IMAGES = 20
_IMAGE_TYPES = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "application/pdf",
)
_SOURCES = ("text/markdown", "text/latex", "text/html", "application/json")


class Piece:
    """A piece of the output: text, and the id of the display that shows it, if any."""

    def __init__(self, text: str, display: str | None = None) -> None:
        self.text = text
        self.display = display


class Output:
    """The output of a cell: the first and last `characters // 2` of its text, and its images."""

    def __init__(self, characters: int, image_bytes: int) -> None:
        self._half = characters // 2
        self._image_bytes = image_bytes
        self._clear()

    def _clear(self) -> None:
        self._first: list[Piece] = []
        self._first_size = 0
        self._last: deque[Piece] = deque()
        self._last_size = 0
        self._cut = 0
        self._at_line_start = True
        self._images: list[tuple[str, bytes, str | None]] = []
        self._images_left_out = 0
        self._clear_at_next = False

    def add_message(self, kind: str, content: dict[str, Any]) -> None:
        """Add the content of one message of the kernel's output channel."""
        if kind == "clear_output":
            if content.get("wait"):
                # What is shown stays until there is something else to show.
                self._clear_at_next = True
            else:
                self._clear()
            return
        if kind not in ("stream", "error", "execute_result", "display_data", "update_display_data"):
            return
        if self._clear_at_next:
            self._clear()
        if kind == "stream":
            self._add(str(content.get("text", "")))
        elif kind == "error":
            self.add_block("\n".join(map(str, content.get("traceback", ()))))
        else:
            self._add_display(kind, content)

    def _add_display(self, kind: str, content: dict[str, Any]) -> None:
        data = content.get("data", {})
        display = content.get("transient", {}).get("display_id")
        text = shown_text(data)
        image = shown_image(data)
        if kind == "update_display_data":
            for piece in (*self._first, *self._last):
                if display is not None and piece.display == display:
                    piece.text = _block(text[: self._half])
            for index, (_, _, shown) in enumerate(self._images):
                if image is not None and display is not None and shown == display:
                    self._images[index] = (*image, shown)
            return
        if text:
            self.add_block(text, display)
        if image is not None:
            self._add_image(*image, display)

    def _add_image(self, mime_type: str, data: bytes, display: str | None) -> None:
        size = sum(len(image) for _, image, _ in self._images) + len(data)
        if len(self._images) >= _IMAGES or size > self._image_bytes:
            self._images_left_out += 1
        else:
            self._images.append((mime_type, data, display))

    def add_block(self, text: str, display: str | None = None) -> None:
        """Add text on lines of its own."""
        self._add(_block(text) if self._at_line_start else "\n" + _block(text), display)

    def _add(self, text: str, display: str | None = None) -> None:
        if not text:
            return
        self._at_line_start = text.endswith("\n")
        room = self._half - self._first_size
        if room > 0:
            self._first.append(Piece(text[:room], display))
            self._first_size += len(text[:room])
            text = text[room:]
        if text:
            self._cut += max(0, len(text) - self._half)
            text = text[-self._half :]
            self._last.append(Piece(text, display))
            self._last_size += len(text)
        while self._last and self._last_size - len(self._last[0].text) >= self._half:
            gone = self._last.popleft()
            self._last_size -= len(gone.text)
            self._cut += len(gone.text)

    def response(self) -> tuple[dict[str, Any], bytes]:
        """Return the texts and the sizes of images as JSON, and the bytes of all images."""
        last = "".join(piece.text for piece in self._last)
        cut = self._cut + max(0, len(last) - self._half)
        return {
            "first": "".join(piece.text for piece in self._first)[: 2 * self._half],
            "cut": cut,
            "last": last[-self._half :] if last else "",
            "images": [{"type": kind, "size": len(data)} for kind, data, _ in self._images],
            "images_left_out": self._images_left_out,
        }, b"".join(data for _, data, _ in self._images)


def _block(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def shown_text(data: dict[str, Any]) -> str:
    """Choose the text of a display: written for people if possible, else as Python shows it."""
    plain = str(data.get("text/plain", ""))
    # This is all that IPython says in plain text of an object such as HTML.
    if plain and not plain.startswith("<IPython.core.display."):
        return plain
    source = next((data[kind] for kind in _SOURCES if kind in data), None)
    if source is None:
        return "" if shown_image(data) else plain
    return source if isinstance(source, str) else json.dumps(source)


def shown_image(data: dict[str, Any]) -> tuple[str, bytes] | None:
    """Return the type and the bytes of the image of a display, if there is one."""
    for kind in _IMAGE_TYPES:
        text = data.get(kind)
        if not isinstance(text, str):
            continue
        if kind == "image/svg+xml":
            return kind, text.encode("utf-8", "replace")
        try:
            return kind, binascii.a2b_base64(text)
        except ValueError:
            continue
    return None
