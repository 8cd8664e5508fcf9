"""The name and version of this library, and the error for an extra that is not installed."""

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["DISTRIBUTION", "VERSION", "missing_package", "needing_extra"]

DISTRIBUTION = "gpt-oss-harmony"
VERSION = "0.1.0"


def missing_package(need: str, error: ImportError, extra: str) -> str:
    """Return an error's text: the `need`, such as "keys need", and how to install the package."""
    return f"{need} {error.name}; pip install '{DISTRIBUTION}[{extra}]'"


@contextmanager
def needing_extra(need: str, extra: str) -> Generator[None, None, None]:
    """Import what an extra brings; a missing package raises an error with `missing_package`'s text.

    >>> with needing_extra("keys need", "serve"):
    ...     import no_such_package
    Traceback (most recent call last):
    ModuleNotFoundError: keys need no_such_package; pip install 'gpt-oss-harmony[serve]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(missing_package(need, error, extra), name=error.name) from error
