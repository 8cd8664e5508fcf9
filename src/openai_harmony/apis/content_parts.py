"""The content of a message in either API: parts come in, texts for the model come out."""

from __future__ import annotations

from ..conversation.json_field import JsonField

__all__ = ["content_texts"]

_TEXT_TYPES = {"text", "input_text", "output_text", "reasoning_text", "summary_text"}

_NOT_SHOWN = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "computer_screenshot": "image",
    "file": "file",
    "input_file": "file",
    "input_audio": "audio",
    "audio_url": "audio",
    "input_video": "video",
    "video_url": "video",
}


def content_texts(content: JsonField) -> list[str]:
    """Read a content: text, or a list of parts. What is no text becomes a note in its place.

    >>> content_texts(JsonField([{"type": "text", "text": "See:"}, {"type": "image_url"}]))
    ['See:', '[image: not shown, this model reads text only]']
    """
    if isinstance(content.value, str):
        return [content.value]
    if not isinstance(content.value, list):
        raise content.unexpected("text or a list of parts")
    return [_part_text(part) for part in content.items()]


def _part_text(part: JsonField) -> str:
    kind = part["type"].text()
    if kind == "refusal":
        return part["refusal"].text()
    if kind in _TEXT_TYPES:
        return part["text"].text()
    # Agents send screenshots beside their texts: the model has to know that it does not see them.
    return f"[{_NOT_SHOWN.get(kind, 'attachment')}: not shown, this model reads text only]"
