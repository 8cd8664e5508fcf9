"""What belongs to one conversation of what a server's tools do: only how many files there were."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["McpSession"]


class McpSession(BaseModel):
    """Counts attachments, so that each has a name of its own; the server keeps the rest.

    >>> McpSession.from_json(McpSession(attachments=2).to_json()).attachments
    2
    """

    model_config = ConfigDict(extra="forbid")

    attachments: int = Field(default=0, ge=0)

    def to_json(self) -> str:
        """Return the session as JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, stored: str) -> McpSession:
        """Read the JSON text of a session; raises `ValueError` where it is none."""
        return cls.model_validate_json(stored)
