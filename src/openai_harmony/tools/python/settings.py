"""What can be set about notebooks."""

from __future__ import annotations

from dataclasses import dataclass, field

from .sandbox import Container, Isolation, Limits

__all__ = ["PythonSettings"]

_MIB = 1 << 20
_MOST_CHARACTERS = 100_000
_MOST_ATTACHED = 32 * _MIB


@dataclass(frozen=True)
class PythonSettings:
    """The settings of the python tool; times in seconds, sizes in bytes.

    >>> PythonSettings(seconds=10).limits.disk
    268435456
    """

    isolation: Isolation | str = Isolation.AUTO
    """`auto`, `bubblewrap`, `container`, or `none`, which has to be asked for."""
    container: Container | None = None
    """Where it is set, notebooks run in containers of its image."""
    python: str | None = None
    """The Python of the notebooks, which has ipykernel; by default, that of the server."""
    readable: tuple[str, ...] = ()
    """Folders that notebooks may read, besides those of the system and of their Python."""
    limits: Limits = field(default_factory=Limits)

    seconds: float = 120.0
    """How long a call may take, by the clock on the wall. The prompt of the tool says 120."""
    grace_seconds: float = 5.0
    """How long code may take to end when it is interrupted, before the kernel is killed."""
    output_characters: int = 20_000
    """Of a call's output, at most; the rest is cut out of its middle."""
    attachments: int = 20
    """Of a call, at most."""
    attachment_bytes: int = 10 * _MIB
    """Of each of them, at most; three times as many for all of a call."""

    notebooks: int = 8
    """At a time, at most."""
    prestarted: int = 1
    """Notebooks that wait for new conversations."""
    wait_seconds: float = 30.0
    """How long a call waits for a place, before it is told that all are busy."""
    settled_seconds: float = 60.0
    """How long a notebook is left to its conversation when others want its place."""
    idle_seconds: float = 1200.0
    """How long a notebook waits for the next call before it ends."""
    state_bytes: int = 4 * _MIB
    """Of the files that are kept in the session, with which they outlive the notebook."""

    def __post_init__(self) -> None:
        Isolation(self.isolation)
        if not 100 <= self.output_characters <= _MOST_CHARACTERS:
            raise ValueError(f"output_characters is to be from 100 to {_MOST_CHARACTERS:,}")
        if not 0 <= self.attachment_bytes <= _MOST_ATTACHED:
            raise ValueError(f"attachment_bytes is to be from 0 to {_MOST_ATTACHED:,}")
        if self.notebooks < 1:
            raise ValueError("notebooks is to be 1 or more")
