"""A sandbox with the kernel of one notebook.

The layers, each importing only those above it::

    limits                       limits of the code, and their enforcement for all processes
    agent                        the program inside the sandbox, which starts the kernel there
    launch                       errors; a command that starts a sandbox agent
    system_calls → bubblewrap    isolation by namespaces and a system call filter
    sandbox                      a running sandbox: requests and responses
    isolation                    a container, or none; chooses one of the ways

`agent` and `notebook_kernel` run inside the sandbox, and import nothing of the other modules. The
server speaks only to the agent, by a pipe, and trusts neither.
"""

from .isolation import Container, Isolation, SandboxMaker
from .launch import SandboxError, SandboxGone
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
