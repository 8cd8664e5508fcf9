"""A pytest plugin: a stand-in for the model that only exo's own mlx-lm has.

exo's tests of harmony import it for types alone. Every name in it is an empty class.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Names(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


_NAME = "mlx_lm.models.deepseek_v4"
sys.modules[_NAME] = _Names(_NAME)
