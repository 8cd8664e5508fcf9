"""The settings of the plugin, from the environment variables of vLLM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpt_oss_harmony.errors import HarmonyError

__all__ = ["Settings"]

_CHOICES = {
    "HARMONY_VLLM_PLUGIN": ("on", "off"),
    "HARMONY_VLLM_GRAMMAR": ("grammar", "structural-tag", "off"),
    "HARMONY_VLLM_CLOSING": ("on", "off"),
    "HARMONY_VLLM_RENDERING": ("vllm", "harmony"),
    "HARMONY_VLLM_MENDING": ("off", "on"),
}

_STEPS = "HARMONY_VLLM_SCHEMA_STEPS"


@dataclass(frozen=True)
class Settings:
    """The settings of the plugin.

    - `enabled` (``HARMONY_VLLM_PLUGIN``): ``off`` leaves vLLM unchanged.
    - `grammar` (``HARMONY_VLLM_GRAMMAR``): ``grammar`` constrains the whole turn with llguidance,
      ``structural-tag`` with xgrammar. ``off`` leaves constraints to vLLM.
    - `closes` (``HARMONY_VLLM_CLOSING``): ``on`` ends required calls and JSON answers within
      ``max_tokens``; only llguidance does this.
    - `renders` (``HARMONY_VLLM_RENDERING``): ``harmony`` renders prompts with our mapping.
    - `mends` (``HARMONY_VLLM_MENDING``): ``on`` mends arguments that are nearly JSON.
    - `schema_steps` (``HARMONY_VLLM_SCHEMA_STEPS``): the most work to compile the schemas of a
      request, as in `TurnOptions`; None is the default there.

    >>> Settings.from_environment({"HARMONY_VLLM_GRAMMAR": "off"}).grammar
    'off'
    """

    enabled: bool = True
    grammar: Literal["grammar", "structural-tag", "off"] = "grammar"
    closes: bool = True
    renders: bool = False
    mends: bool = False
    schema_steps: int | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings; raise `HarmonyError` for an unknown value."""
        values = {}
        for name, choices in _CHOICES.items():
            value = values[name] = environment.get(name) or choices[0]
            if value not in choices:
                raise HarmonyError(f"{name}={value!r:.80}: set it to {' or '.join(choices)}")
        steps = environment.get(_STEPS) or None
        if steps is not None and not (steps.isdecimal() and steps.isascii() and int(steps)):
            raise HarmonyError(f"{_STEPS}={steps!r:.80}: set it to a number from 1")
        return cls(
            enabled=values["HARMONY_VLLM_PLUGIN"] == "on",
            grammar=values["HARMONY_VLLM_GRAMMAR"],  # type: ignore[arg-type]
            closes=values["HARMONY_VLLM_CLOSING"] == "on",
            renders=values["HARMONY_VLLM_RENDERING"] == "harmony",
            mends=values["HARMONY_VLLM_MENDING"] == "on",
            schema_steps=None if steps is None else int(steps),
        )
