"""The options that say how a model samples."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engines import Sampling

__all__ = ["add_sampling", "sampling_of"]

_OPTIONS: tuple[tuple[str, type, str], ...] = (
    ("temperature", float, "0 takes the likeliest token each time"),
    ("top-p", float, "sample among the likeliest tokens that make up this probability"),
    ("top-k", int, "sample among so many of the likeliest tokens"),
    ("min-p", float, "sample among tokens with this share of the likeliest one's probability"),
    ("seed", int, "the same seed gives the same completion"),
    ("max-tokens", int, "tokens at most"),
)


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Add the options; what is not given is left to the defaults."""
    for name, kind, text in _OPTIONS:
        parser.add_argument(f"--{name}", type=kind, metavar="N", help=text)


def sampling_of(arguments: argparse.Namespace, grammar: str | None = None) -> Sampling:
    """Read the options."""
    from ..engines import Sampling

    names = [name.replace("-", "_") for name, _, _ in _OPTIONS]
    given = {name: getattr(arguments, name) for name in names}
    return Sampling(grammar=grammar, **{k: v for k, v in given.items() if v is not None})
