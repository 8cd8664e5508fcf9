"""The public names of openai-harmony 0.0.8, and a way to try a program with them.

The distribution gpt-oss-harmony-drop-in exports these names as ``openai_harmony``. Without
installing it, this module runs a program in which ``import openai_harmony`` finds them::

    python -m gpt_oss_harmony.drop_in program.py [argument ...]
    python -m gpt_oss_harmony.drop_in -m pytest [argument ...]

The name is replaced in this process only: a program that starts other interpreters needs the
distribution.
"""

from __future__ import annotations

import runpy
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from . import (
    Author,
    ChannelConfig,
    Content,
    Conversation,
    DeveloperContent,
    HarmonyEncoding,
    HarmonyEncodingName,
    HarmonyError,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    RenderOptions,
    Role,
    StreamableParser,
    StreamState,
    SystemContent,
    TextContent,
    ToolDescription,
    ToolNamespaceConfig,
    load_harmony_encoding,
)

__all__ = [
    "Author",
    "ChannelConfig",
    "Content",
    "Conversation",
    "DeveloperContent",
    "HarmonyEncoding",
    "HarmonyEncodingName",
    "HarmonyError",
    "Message",
    "ReasoningEffort",
    "RenderConversationConfig",
    "RenderOptions",
    "Role",
    "StreamState",
    "StreamableParser",
    "SystemContent",
    "TextContent",
    "ToolDescription",
    "ToolNamespaceConfig",
    "load_harmony_encoding",
]

_NAME = "openai_harmony"
_USAGE = "usage: python -m gpt_oss_harmony.drop_in (program.py | -m module) [argument ...]"


def register() -> ModuleType:
    """Make ``import openai_harmony`` find these names in this process, and return the module.

    Raises an ImportError if another library is already imported under that name: its objects
    would mix with ours.
    """
    present = sys.modules.get(_NAME)
    if present is not None:
        if getattr(present, "HarmonyEncoding", None) is HarmonyEncoding:
            return present
        raise ImportError(
            f"{_NAME} is already imported from {present.__file__}; register this library first",
            name=_NAME,
        )
    module = ModuleType(_NAME, "The public names of openai-harmony 0.0.8, from gpt-oss-harmony.")
    module.__spec__ = ModuleSpec(_NAME, None, origin=__file__)  # `find_spec` needs one
    module.__file__ = __file__  # people print it to see which library a program has
    module.__dict__.update({name: globals()[name] for name in __all__}, __all__=list(__all__))
    sys.modules[_NAME] = module
    return module


def main(arguments: list[str]) -> None:
    """Register the names and run a program as ``python`` would; exit with 2 for wrong usage."""
    is_module = arguments[:1] == ["-m"]
    program = arguments[is_module:]
    if not program or (program[0].startswith("-") and not is_module):
        print(_USAGE, file=sys.stderr)
        sys.exit(2)
    register()
    sys.argv[:] = program
    if is_module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program[0]).resolve().parent)
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
