"""The sandbox agent: runs inside the sandbox, starts the kernel there, and speaks for it.

The layers, each importing only those above it::

    cell_output     the texts and images of a cell, within limits
    processes       signals to the other processes of the sandbox; which of them run
    kernel          the kernel's process, and the channels to it
    requests        the requests of the server; the notebook's folder; the program itself

The server sends these files to a Python inside the sandbox, which has nothing else of this library:
`launch.agent_source` is what it sends, `launch.BOOTSTRAP` reads it there. So they import only each
other, the standard library, and jupyter_client.
"""

from __future__ import annotations

__all__ = ["MODULES"]

MODULES = ("cell_output", "processes", "kernel", "requests")
"""The modules of the agent, each after those that it imports."""
