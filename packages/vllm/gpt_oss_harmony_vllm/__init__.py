"""A vLLM plugin: our parser and our grammar for gpt-oss inside vLLM's own server.

When vLLM starts, it calls `register` in each of its processes (the entry point
``vllm.general_plugins``). The plugin changes four modules of vLLM when they are imported:

- ``vllm.parser.harmony``: a subclass replaces `HarmonyParser` (`parser`, `turn`).
- ``vllm.renderers.online_renderer``: the parser gets the name of the backend that enforces grammars
  (`constraint`), and our code renders prompts if a setting requests it (`rendering`).
- ``vllm.entrypoints.openai.chat_completion.batch_serving``: grammars are compiled in a thread.
- ``vllm.v1.structured_output``: our matcher enforces our grammars and counts
  tokens (`enforcement`).

The plugin never prevents vLLM from starting: an error becomes one line of vLLM's log.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from .parser import RecoveringParser
from .patches import patch_batches, patch_enforcement, patch_parser, patch_renderer
from .settings import Settings

__all__ = ["SUPPORTED", "register"]

SUPPORTED = ((0, 32), (0, 33))
"""The first and the last supported version of vLLM."""

_PARSER = "vllm.parser.harmony"

logger = logging.getLogger("vllm.plugins.harmony")  # vLLM shows the loggers below its own name


def register() -> None:
    """Install our parser in vLLM; if that is impossible, log the reason and change nothing."""
    try:
        _register()
    except Exception as error:  # noqa: BLE001 - vLLM starts without the plugin
        logger.warning("harmony: the plugin is off: %s", error)


def _register() -> None:
    settings = Settings.from_environment(os.environ)
    if not settings.enabled:
        logger.info("harmony: the plugin is off: HARMONY_VLLM_PLUGIN=off")
        return
    import vllm  # type: ignore[import-not-found]

    version = re.match(r"(\d+)\.(\d+)", vllm.__version__)
    first, last = SUPPORTED
    if version is None or not first <= (int(version[1]), int(version[2])) <= last:
        text = "harmony: the plugin is off: it supports vLLM %d.%d to %d.%d, but this is %s"
        logger.warning(text, *first, *last, vllm.__version__)
        return
    if os.environ.get("VLLM_USE_RUST_FRONTEND", "0").lower() in ("1", "true"):
        text = (
            "harmony: the plugin is off: vLLM's Rust front end (VLLM_USE_RUST_FRONTEND) renders "
            "and parses outside Python"
        )
        logger.warning(text)
        return
    users = _users_of_own_parser()
    if users:
        text = (
            "harmony: the plugin is off: vLLM's own parser is already in use (%s); register first"
        )
        logger.warning(text, ", ".join(users))
        return
    _when_imported(_PARSER, lambda module: patch_parser(module, settings))
    _when_imported(
        "vllm.renderers.online_renderer", lambda module: patch_renderer(module, settings)
    )
    _when_imported("vllm.entrypoints.openai.chat_completion.batch_serving", patch_batches)
    _when_imported("vllm.v1.structured_output", patch_enforcement)


def _users_of_own_parser() -> list[str]:
    """Return what already holds vLLM's `HarmonyParser`, and would keep it beside ours.

    vLLM's package `vllm.parser` is not among them, because `patch_parser` changes it, too.
    """
    module = sys.modules.get(_PARSER)
    own = getattr(module, "HarmonyParser", None)
    if own is None or issubclass(own, RecoveringParser):
        return []
    changed = (_PARSER, _PARSER.rpartition(".")[0])
    users = [
        name
        for name, other in [*sys.modules.items()]
        if name not in changed and any(value is own for value in [*vars(other).values()])
    ]
    if vars(own).get("reasoning_parser_cls") is not None:
        users.append("a server that was started")  # vLLM has chosen the parser of its model
    return users


def _when_imported(name: str, patch: Callable[[ModuleType], None]) -> None:
    """Patch a module now or when it is imported; most of vLLM's processes never import it."""

    def patch_or_log(module: ModuleType) -> None:
        try:
            patch(module)
        except Exception as error:  # noqa: BLE001 - vLLM continues with its own module
            logger.warning("harmony: vLLM's own %s is used: %r", name, error)

    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _PatchedImport(name, patch_or_log))
    else:
        patch_or_log(module)


class _PatchedImport(MetaPathFinder):
    """Finds one module in its usual place and patches it after it has run."""

    def __init__(self, name: str, patch: Callable[[ModuleType], None]) -> None:
        self._name, self._patch = name, patch

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_patch(module: ModuleType) -> None:
                run(module)
                self._patch(module)

            loader: Any = spec.loader
            loader.exec_module = run_and_patch
        return spec
