"""A notebook's kernel, alone in a sandbox.

The layers, each importing only those above it::

    errors, limits, frames           what can go wrong; how much may be used; what is said
    launch                           a command that starts an attendant
    bubblewrap, container, bare      the ways to make one
    memory_watch, control_group      limits for all processes together
    sandbox                          a started one: requests and answers
    isolation                        chooses one of the ways

Inside run `attendant` and `notebook_kernel`, which import nothing of this package. The server never
speaks to the kernel: only to the attendant, by a pipe, and believes neither.
"""

from .container import Container
from .errors import SandboxError, SandboxGone
from .isolation import Isolation, SandboxMaker
from .limits import Limits
from .sandbox import Sandbox

__all__ = [
    "Container",
    "Isolation",
    "Limits",
    "Sandbox",
    "SandboxError",
    "SandboxGone",
    "SandboxMaker",
]
