"""A pytest plugin for vLLM's tests: it registers our plugin, as vLLM does when it starts.

Most of vLLM's tests do not start it. They import its parser, so the plugin is registered before
any of them is collected.
"""

from __future__ import annotations

from gpt_oss_harmony_vllm import register

register()
