"""Errors about how this library is installed: under which name, with which extras."""

__all__ = ["DISTRIBUTION", "VERSION", "missing_package", "mixed_installation"]

DISTRIBUTION = "gpt-oss-harmony"  # `make wheel-drop-in` writes another name here
VERSION = "0.1.0"


def missing_package(need: str, error: ImportError, extra: str) -> str:
    """Return the text of an error: a `need`, such as "keys need", the package, how to get it."""
    return f"{need} {error.name}; pip install '{DISTRIBUTION}[{extra}]'"


def mixed_installation(file: str) -> ImportError:
    """Return the error for a file of another library in the folder of this one."""
    return ImportError(
        f"two libraries are installed in one folder: {file} belongs to OpenAI's or its fork; "
        "run 'pip uninstall -y gpt-oss-harmony openai-harmony oss-harmony', "
        f"then 'pip install {DISTRIBUTION}'",
        name="openai_harmony",
        path=file,
    )
