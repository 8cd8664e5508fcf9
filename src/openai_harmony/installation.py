"""Errors about how this library is installed: under which name, with which extras."""

import sys

__all__ = [
    "DISTRIBUTION",
    "VERSION",
    "missing_package",
    "mixed_installation",
    "stands_over_the_fork",
]

DISTRIBUTION = "gpt-oss-harmony"  # `make wheel-drop-in` writes another name here
VERSION = "0.1.0"


def missing_package(need: str, error: ImportError, extra: str) -> str:
    """Return an error's text: the `need`, such as "keys need", and how to install the package."""
    return f"{need} {error.name}; pip install '{DISTRIBUTION}[{extra}]'"


def mixed_installation(file: str) -> ImportError:
    """Return the error for a file of another library in the folder of this one."""
    remedy = f"run 'pip install --force-reinstall --no-deps {DISTRIBUTION}'"
    if not _has_vllm():
        remedy = (
            "run 'pip uninstall -y gpt-oss-harmony openai-harmony oss-harmony', "
            f"then 'pip install {DISTRIBUTION}'"
        )
    return ImportError(
        f"two libraries are installed in one folder: {file} belongs to OpenAI's or its fork; "
        f"{remedy}",
        name="openai_harmony",
        path=file,
    )


def stands_over_the_fork() -> bool:
    """Return whether this library was installed over the fork that vLLM requires.

    vLLM needs the fork in the same folder. Python imports whichever `__init__.py` was installed
    last, and only the fork's own `__init__.py` imports its compiled module.
    """
    return _has_vllm() and "openai_harmony.openai_harmony" not in sys.modules


def _has_vllm() -> bool:
    from importlib.util import find_spec

    return find_spec("vllm") is not None
