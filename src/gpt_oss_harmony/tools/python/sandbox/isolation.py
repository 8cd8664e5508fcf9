"""The ways to isolate the code of notebooks: bubblewrap, a container, or none."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
from dataclasses import dataclass
from enum import Enum

from .bubblewrap import bubblewrap_launch, find_bubblewrap
from .launch import (
    BOOTSTRAP,
    DATA_FOLDER,
    WRITABLE_FOLDERS,
    Launch,
    PythonEnvironment,
    SandboxError,
    find_python,
    sandbox_environment,
)
from .limits import Limits
from .sandbox import Sandbox

_CONTAINER_USER = 65534  # nobody, who owns no file of an image
_CONTAINER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CLIENT_VARIABLES = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "XDG_RUNTIME_DIR")


class Isolation(str, Enum):
    """The isolation of the code from the server."""

    AUTO = "auto"
    """A container if one is configured, else bubblewrap; never no isolation."""
    BUBBLEWRAP = "bubblewrap"
    CONTAINER = "container"
    NONE = "none"
    """No isolation: the code may do whatever the server may do."""


@dataclass(frozen=True)
class Container:
    """A local image for notebooks, and the program that runs it.

    The image needs Python 3.10 or newer with ipykernel. `options` are more options for the program,
    for instance ``("--runtime=runsc",)``.
    """

    image: str
    program: str = "docker"
    options: tuple[str, ...] = ()
    python: str = "python3"


def container_launch(container: Container, limits: Limits) -> Launch:
    """Write the command line of an agent in a container, for ``docker run`` or ``podman run``.

    The container mounts nothing of the server's file system: the agent arrives by standard input,
    and files of the notebook by the agent's channel.

    >>> container_launch(Container("notebook", program="podman"), Limits()).command[:4]
    ('podman', 'run', '--rm', '--interactive')
    """
    name = f"notebook-{secrets.token_hex(8)}"
    total = str(limits.total_memory)
    environment = sandbox_environment(limits, _CONTAINER_PATH)
    arguments = [
        *("--rm", "--interactive", "--pull", "never", "--name", name),
        *("--network", "none", "--hostname", "notebook", "--ipc", "private"),
        *("--read-only", "--user", f"{_CONTAINER_USER}:{_CONTAINER_USER}", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges"),
        # Memory and swap together: as much as the memory means no swap.
        *("--memory", total, "--memory-swap", total, "--pids-limit", str(limits.processes)),
        *("--shm-size", str(limits.temporary)),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.temporary},mode=1777"),
        *("--tmpfs", f"{DATA_FOLDER}:rw,nosuid,nodev,size={limits.disk},mode=1777"),
        *("--workdir", DATA_FOLDER, "--log-driver", "none"),
        *(part for name, value in environment.items() for part in ("--env", f"{name}={value}")),
        *("--entrypoint", container.python),
        *container.options,
    ]
    return Launch(
        (container.program, "run", *arguments, container.image, "-I", "-c", BOOTSTRAP),
        {name: os.environ[name] for name in _CLIENT_VARIABLES if name in os.environ},
        DATA_FOLDER,
        # The container may go on when only the client that runs it is killed.
        end_command=(container.program, "kill", name),
        writable=WRITABLE_FOLDERS,
    )


def bare_launch(python: PythonEnvironment, limits: Limits) -> Launch:
    """Write the command line of an agent without a sandbox, which has all rights of the server.

    Each process has limits, and all end with the server; nothing else is prevented. A temporary
    folder takes the place of ``/mnt/data``.
    """
    own = tempfile.TemporaryDirectory(prefix="notebook-", ignore_cleanup_errors=True)
    folder, temporary = os.path.join(own.name, "data"), os.path.join(own.name, "tmp")
    os.mkdir(folder)
    os.mkdir(temporary)
    path = f"{os.path.dirname(python.program)}:{os.environ.get('PATH', os.defpath)}"
    environment = {**sandbox_environment(limits, path), "HOME": temporary, "TMPDIR": temporary}
    command = (python.program, "-I", "-c", BOOTSTRAP)
    return Launch(command, environment, folder, own_folder=own)


class SandboxMaker:
    """Makes sandboxes with one kind of isolation."""

    def __init__(
        self,
        limits: Limits,
        *,
        isolation: Isolation | str = Isolation.AUTO,
        container: Container | None = None,
        python: str | None = None,
        readable: tuple[str, ...] = (),
    ) -> None:
        self._limits = limits
        self._isolation = Isolation(isolation)
        self._container = container
        self._python = python
        self._readable = readable
        self._environment: PythonEnvironment | None = None

    async def make(self) -> Sandbox:
        """Start a sandbox. Raises `SandboxError` if none can be made."""
        isolation = self._isolation
        if isolation is Isolation.AUTO and self._container is not None:
            isolation = Isolation.CONTAINER
        if isolation is Isolation.CONTAINER:
            if self._container is None:
                raise SandboxError("isolation='container' needs a container: name its image")
            launch = container_launch(self._container, self._limits)
            return await Sandbox.start(launch, self._limits)
        if sys.platform != "linux" and (isolation is not Isolation.NONE or os.name != "posix"):
            raise SandboxError(
                "the python tool's own sandbox needs Linux: name the image of a container, which "
                "Docker or Podman runs on this system, or start the server in WSL or a virtual "
                "machine"
            )
        if self._environment is None:
            self._environment = await asyncio.to_thread(find_python, self._python)
        if isolation is Isolation.NONE:
            return await Sandbox.start(bare_launch(self._environment, self._limits), self._limits)
        program = await asyncio.to_thread(find_bubblewrap)
        if program is None:
            raise SandboxError(
                "the python tool runs code in a sandbox, and there is none here: install "
                "bubblewrap 0.8 or newer (apt install bubblewrap), or name the image of a "
                "container; isolation='none' runs the code without a sandbox, with all the "
                "rights of this process"
            )
        launch = bubblewrap_launch(
            program, self._environment, self._limits, readable=self._readable
        )
        return await Sandbox.start(launch, self._limits)
