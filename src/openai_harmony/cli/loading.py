"""Loading a model while a person watches: progress on standard error, if that is a terminal."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engines import Engine

__all__ = ["open_watched"]


async def open_watched(model: str) -> Engine:
    """Open an engine, and say what it is; raises what `open_engine` raises.

    Transformers and the client of the Hugging Face hub draw their own bars.
    """
    from ..engines import open_engine

    if not sys.stderr.isatty():
        return await open_engine(model)
    print(f"loading {model} ...", file=sys.stderr, flush=True)
    with _steps_shown():
        engine = await open_engine(model)
    of_it = f": {engine.origin}" if engine.origin else ""
    print(f"{engine.model}{of_it}; {engine.context_length:,} tokens of context", file=sys.stderr)
    return engine


@contextlib.contextmanager
def _steps_shown() -> Iterator[None]:
    """Show what the engines log on the way."""
    logger = logging.getLogger("openai_harmony.engines")
    level, handler = logger.level, logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
