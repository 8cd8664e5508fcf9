"""What goes wrong with a call, told to the model that made it."""

from __future__ import annotations

from ..errors import HarmonyError

__all__ = ["ToolError"]


class ToolError(HarmonyError):
    """A call cannot be done; the message is for the model, and says what it can do instead."""
