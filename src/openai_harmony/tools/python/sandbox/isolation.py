"""Chooses how the code of notebooks is kept apart, and makes sandboxes that way."""

from __future__ import annotations

import asyncio
from enum import Enum

from .bare import bare_launch
from .bubblewrap import bubblewrap_launch, find_bubblewrap
from .container import Container, container_launch
from .errors import SandboxError
from .launch import Launch
from .limits import Limits
from .python_environment import PythonEnvironment, find_python
from .sandbox import Sandbox

__all__ = ["Isolation", "SandboxMaker"]


class Isolation(str, Enum):
    """How the code is kept apart from the server."""

    AUTO = "auto"
    """In a container where one is configured, else by bubblewrap; never not at all."""
    BUBBLEWRAP = "bubblewrap"
    CONTAINER = "container"
    NONE = "none"
    """Not at all: the code may do whatever the server may do."""


class SandboxMaker:
    """Makes sandboxes of one kind."""

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
        """Start a sandbox. Raises `SandboxError` where that is not possible."""
        return await Sandbox.start(await self._launch(), self._limits)

    async def _launch(self) -> Launch:
        isolation = self._isolation
        if isolation is Isolation.AUTO and self._container is not None:
            isolation = Isolation.CONTAINER
        if isolation is Isolation.CONTAINER:
            if self._container is None:
                raise SandboxError("isolation='container' needs a container: name its image")
            return container_launch(self._container, self._limits)
        if self._environment is None:
            self._environment = await asyncio.to_thread(find_python, self._python)
        if isolation is Isolation.NONE:
            return bare_launch(self._environment, self._limits)
        program = await asyncio.to_thread(find_bubblewrap)
        if program is None:
            raise SandboxError(
                "the python tool runs code in a sandbox, and there is none here: install "
                "bubblewrap 0.8 or newer (apt install bubblewrap), or name the image of a "
                "container; isolation='none' runs the code without a sandbox, with all the "
                "rights of this process"
            )
        return bubblewrap_launch(program, self._environment, self._limits, readable=self._readable)
