"""The name and version of this library, and the error for an extra that is not installed."""

from collections.abc import Generator
from contextlib import contextmanager

from .errors import HarmonyError

__all__ = [
    "DISTRIBUTION",
    "VERSION",
    "MissingPackageError",
    "missing_package",
    "needing_extra",
]

DISTRIBUTION = "gpt-oss-harmony"
VERSION = "0.1.0"


class MissingPackageError(ModuleNotFoundError, HarmonyError):
    """A package that only an extra installs is missing; the text names the extra."""


def missing_package(need: str, error: ImportError, extra: str) -> str:
    """Return an error's text: the `need`, such as "keys need", and how to install the package."""
    return f"{need} {error.name}; pip install '{DISTRIBUTION}[{extra}]'"


@contextmanager
def needing_extra(need: str, extra: str) -> Generator[None, None, None]:
    """Import what an extra brings; a missing package raises an error with `missing_package`'s text.

    >>> with needing_extra("keys need", "serve"):  # doctest: +ELLIPSIS
    ...     import no_such_package
    Traceback (most recent call last):
    gpt_oss_harmony.installation.MissingPackageError: keys need no_such_package; pip install '...'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingPackageError(missing_package(need, error, extra), name=error.name) from error
