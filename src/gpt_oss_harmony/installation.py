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
    "requirement",
]

DISTRIBUTION = "gpt-oss-harmony"
VERSION = "0.1.0"


class MissingPackageError(ModuleNotFoundError, HarmonyError):
    """A package that only an extra installs is missing; the text names the extra."""


def requirement(extras: str) -> str:
    """Return what follows ``pip install`` for extras of this library, such as "serve,tools".

    It is the name that an index has, or the folder or address that this copy was installed from,
    which pip notes down (PEP 610): the extras are then those of the same copy.
    """
    import json
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    wanted = f"{DISTRIBUTION}[{extras}]"
    try:
        noted = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        origin = json.loads(noted or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    folder = unquote(urlsplit(origin.get("url", "")).path)
    if folder[2:3] == ":":
        folder = folder[1:]  # the drive of Windows
    if "dir_info" in origin and Path(folder, "pyproject.toml").exists():
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"{editable}'{folder}[{extras}]'"
    if "vcs_info" in origin:
        version = origin["vcs_info"]
        return f"'{wanted} @ {version['vcs']}+{origin['url']}@{version['commit_id']}'"
    return f"'{wanted} @ {origin['url']}'" if "archive_info" in origin else f"'{wanted}'"


def missing_package(need: str, error: ImportError, extra: str) -> str:
    """Return an error's text: the `need`, such as "keys need", and how to install the package."""
    return f"{need} {error.name}; pip install {requirement(extra)}"


@contextmanager
def needing_extra(need: str, extra: str) -> Generator[None, None, None]:
    """Import what an extra brings; a missing package raises an error with `missing_package`'s text.

    >>> with needing_extra("keys need", "serve"):  # doctest: +ELLIPSIS
    ...     import absent_one
    Traceback (most recent call last):
    gpt_oss_harmony.installation.MissingPackageError: keys need absent_one; pip install ...[serve]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingPackageError(missing_package(need, error, extra), name=error.name) from error
