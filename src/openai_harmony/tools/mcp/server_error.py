"""What goes wrong with a server as a whole."""

from __future__ import annotations

from ...errors import HarmonyError

__all__ = ["McpServerError"]


class McpServerError(HarmonyError):
    """A server cannot be started or reached, or does not answer as the protocol asks."""
