"""The settings of the python tool."""

from __future__ import annotations

from dataclasses import dataclass, field

from .sandbox import Container, Isolation, Limits

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
    """`auto`, `bubblewrap`, `container`, or `none`, which is never chosen automatically."""
    container: Container | None = None
    """The image in whose containers notebooks run, and its program; None for bubblewrap."""
    python: str | None = None
    """The Python of the notebooks, with ipykernel installed; by default, the server's own."""
    readable: tuple[str, ...] = ()
    """Folders that notebooks may read, besides those of the system and of their Python."""
    limits: Limits = field(default_factory=Limits)

    seconds: float = 120.0
    """Wall-clock time of a call. The prompt of the tool says 120."""
    grace_seconds: float = 5.0
    """Time that interrupted code has to end before the kernel is killed."""
    output_characters: int = 20_000
    """The most characters of a call's text; the rest is cut out of its middle."""
    attachments: int = 20
    """The most attachments of a call: images and files."""
    attachment_bytes: int = 10 * _MIB
    """The most bytes of an attachment; all those of a call have at most three times as many."""

    notebooks: int = 8
    """The most notebooks at a time."""
    prestarted: int = 1
    """Notebooks that are started before a conversation needs them."""
    wait_seconds: float = 30.0
    """Time that a call waits for a free notebook before it fails."""
    settled_seconds: float = 60.0
    """Time after a call during which no other conversation can displace the notebook."""
    idle_seconds: float = 1200.0
    """Time without calls after which a notebook ends."""
    state_bytes: int = 4 * _MIB
    """The most bytes of files and their paths in a session; these files outlive the notebook."""

    def __post_init__(self) -> None:
        Isolation(self.isolation)
        if not 100 <= self.output_characters <= _MOST_CHARACTERS:
            raise ValueError(f"output_characters must be from 100 to {_MOST_CHARACTERS:,}")
        if not 0 <= self.attachment_bytes <= _MOST_ATTACHED:
            raise ValueError(f"attachment_bytes must be from 0 to {_MOST_ATTACHED:,}")
        if self.notebooks < 1:
            raise ValueError("notebooks must be 1 or more")
