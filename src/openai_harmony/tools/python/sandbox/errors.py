"""What can go wrong with a sandbox."""

from __future__ import annotations

from ....errors import HarmonyError

__all__ = ["SandboxError", "SandboxGone"]


class SandboxError(HarmonyError):
    """No sandbox can be made; the message names what to install or to set."""


class SandboxGone(HarmonyError):
    """The sandbox has ended, or said what no attendant says, and was ended for it."""
