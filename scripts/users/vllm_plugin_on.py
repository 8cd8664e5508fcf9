"""A pytest plugin for vLLM's tests: with ``HARMONY_VLLM_PLUGIN=on``, our plugin for vLLM is on.

vLLM loads it when it starts, which most of its tests do not do.
"""

from __future__ import annotations

import os

if os.environ.get("HARMONY_VLLM_PLUGIN") == "on":
    try:
        from gpt_oss_harmony_vllm import register
    except ImportError:  # the reference or its fork
        pass
    else:
        register()
