"""What a server's tool answers, as the text that the model reads, and files."""

from __future__ import annotations

import base64
import json
import mimetypes
from dataclasses import dataclass, field

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from ..python.attachment import Attachment
from ..python.output import joined_output
from .session import McpSession

__all__ = ["McpResult"]


@dataclass
class McpResult:
    """Reads one result; the files get names that the `session` counts.

    The model reads text only: what is something else becomes a file, and a note in its place.
    """

    tool: str
    session: McpSession
    attachment_bytes: int
    attachments: list[Attachment] = field(default_factory=list)

    def text(self, result: CallToolResult, characters: int) -> str:
        """Return the text of a result, at most so many characters, and collect its files.

        What is structured is shown where there is no text, as that should say the same.
        """
        parts = [self._part(block) for block in result.content]
        has_text = any(isinstance(block, TextContent) for block in result.content)
        if result.structured_content is not None and not has_text:
            parts.append(json.dumps(result.structured_content, ensure_ascii=False))
        text = joined_output("\n".join(part for part in parts if part), 0, "", characters)
        if result.is_error:
            return f"Error: {text or 'the tool does not say what is wrong'}"
        return text or "[no output]"

    def _part(self, block: ContentBlock) -> str:
        if isinstance(block, TextContent):
            return block.text
        if isinstance(block, (ImageContent, AudioContent)):
            return self._file(block.type, block.data, block.mime_type)
        if isinstance(block, ResourceLink):
            about = f": {block.description}" if block.description else ""
            return f"[resource {block.name}, {block.uri}{about}]"
        return self._resource(block)

    def _resource(self, block: EmbeddedResource) -> str:
        inside = block.resource
        if isinstance(inside, BlobResourceContents):
            kind = inside.mime_type or "application/octet-stream"
            return self._file(f"resource {inside.uri}", inside.blob, kind)
        return f"[resource {inside.uri}]\n{inside.text}"

    def _file(self, what: str, encoded: str, mime_type: str) -> str:
        try:
            data = base64.b64decode(encoded, validate=True)
        except ValueError:
            return f"[{what}: cannot be read]"
        room = self.attachment_bytes - sum(len(each.data) for each in self.attachments)
        if len(data) > room:
            return f"[{what}: {len(data):,} bytes are too many, and left out]"
        self.session.attachments += 1
        end = mimetypes.guess_extension(mime_type) or ""
        name = f"{self.tool}-{self.session.attachments}{end}"
        self.attachments.append(Attachment(name, data, mime_type))
        return f"[{what}: not shown, this model reads text only; the user has it as {name}]"
