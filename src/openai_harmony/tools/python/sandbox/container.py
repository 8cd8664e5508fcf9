"""Starts an attendant in a container: the command line for ``docker run`` or ``podman run``.

Nothing of the server's file system is mounted: the attendant comes by standard input, and the
files of the notebook go by its channel. The image needs Python 3.10 or newer with ipykernel.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

from .launch import BOOTSTRAP, Launch, sandbox_environment
from .limits import Limits

__all__ = ["Container", "container_launch"]

_FOLDER = "/mnt/data"
_USER = 65534
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SERVER_VARIABLES = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "XDG_RUNTIME_DIR")


@dataclass(frozen=True)
class Container:
    """Which containers to run: an image that is there already, and the program that runs it.

    `options` are more options for the program: ``("--runtime=runsc",)``, for instance.
    """

    image: str
    program: str = "docker"
    options: tuple[str, ...] = ()
    python: str = "python3"


def container_launch(container: Container, limits: Limits) -> Launch:
    """Write the command line.

    >>> container_launch(Container("notebook", program="podman"), Limits()).command[:4]
    ('podman', 'run', '--rm', '--interactive')
    """
    name = f"notebook-{secrets.token_hex(8)}"
    total = str(limits.memory + limits.disk + 2 * limits.temporary)
    environment = sandbox_environment(limits, _PATH)
    arguments = [
        *("--rm", "--interactive", "--init", "--pull", "never", "--name", name),
        *("--network", "none", "--hostname", "notebook", "--ipc", "private"),
        *("--read-only", "--user", f"{_USER}:{_USER}", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges"),
        *("--memory", total, "--memory-swap", total, "--pids-limit", str(limits.processes)),
        *("--shm-size", str(limits.temporary)),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.temporary},mode=1777"),
        *("--tmpfs", f"{_FOLDER}:rw,nosuid,nodev,size={limits.disk},mode=1777"),
        *("--workdir", _FOLDER, "--log-driver", "none"),
        *(part for name, value in environment.items() for part in ("--env", f"{name}={value}")),
        *("--entrypoint", container.python),
        *container.options,
    ]
    return Launch(
        (container.program, "run", *arguments, container.image, "-I", "-c", BOOTSTRAP),
        {name: os.environ[name] for name in _SERVER_VARIABLES if name in os.environ},
        _FOLDER,
        end_command=(container.program, "kill", name),
    )
