"""The name and version of this library, and the error for an extra that is not installed."""

__all__ = ["DISTRIBUTION", "VERSION", "missing_package"]

DISTRIBUTION = "gpt-oss-harmony"
VERSION = "0.1.0"


def missing_package(need: str, error: ImportError, extra: str) -> str:
    """Return an error's text: the `need`, such as "keys need", and how to install the package."""
    return f"{need} {error.name}; pip install '{DISTRIBUTION}[{extra}]'"
