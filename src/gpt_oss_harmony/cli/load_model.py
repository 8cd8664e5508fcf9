"""Load the model of a command, or connect to its server, and show how far that is."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..engines.model_names import is_url
from ..errors import without_secrets
from .input import UsageError
from .output import folded

if TYPE_CHECKING:
    from ..engines import Engine


def engine_options(model: str) -> dict[str, str]:
    """Return the options for an engine at a URL: its key, from ``HARMONY_ENGINE_API_KEY``."""
    key = os.environ.get("HARMONY_ENGINE_API_KEY")
    return {"api_key": key} if key and is_url(model) else {}


def let_threads_sleep() -> None:
    """Let threads of PyTorch sleep while they wait for each other, unless a variable forbids it.

    On busy cores, spinning would keep the other threads from their work. PyTorch reads the variable
    when it is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def follow_rank_0(model: str, options: Mapping[str, Any]) -> bool:
    """Compute for rank 0 if ``torchrun`` started this process for that; return whether it did."""
    from ..engines import EngineError, open_engine
    from ..engines.parallel import Processes

    if not Processes.of().is_follower:
        return False
    if is_url(model):
        raise UsageError(
            f"torchrun divides a model among its processes, and {model} is a server; leave it out"
        )
    let_threads_sleep()
    engine = asyncio.run(open_engine(model, **options))
    # Rank 0 is told to end at the same time, and ends the others when its requests are done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    from ..engines import TransformersEngine

    if not isinstance(engine, TransformersEngine):
        raise EngineError(f"{type(engine).__name__} cannot run in several processes")
    engine.follow()
    return True


async def open_watched(model: str, options: Mapping[str, Any] | None = None) -> Engine:
    """Open an engine as `open_engine` does; show progress on a terminal.

    `options` are by default those from the environment. Transformers and the client of the Hugging
    Face hub draw their own bars.
    """
    from ..engines import open_engine

    given = engine_options(model) if options is None else options
    let_threads_sleep()
    if not sys.stderr.isatty():
        return await open_engine(model, **given)
    print(f"loading {without_secrets(model)} ...", file=sys.stderr, flush=True)
    logger = logging.getLogger("gpt_oss_harmony.engines")
    level, handler = logger.level, logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        engine = await open_engine(model, **given)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    print(folded(described(engine)), file=sys.stderr)
    return engine


def described(engine: Engine) -> str:
    """Return the model, its origin and its context in one line."""
    origin = f": {engine.origin}" if engine.origin else ""
    return f"{engine.model}{origin}; {engine.context_length:,} tokens of context"
