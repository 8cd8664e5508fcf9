"""The page's copy of the built-in tools is what the library declares."""

from __future__ import annotations

import json
from importlib import resources

from openai_harmony import ToolNamespaceConfig


def test_the_page_declares_the_tools_of_the_library() -> None:
    page = resources.files("openai_harmony.inspector") / "page"
    script = (page / "built-in-tools.js").read_text(encoding="utf-8")
    declared = script.partition("export const BUILT_IN_TOOLS = ")[2].rstrip().removesuffix(";")
    tools = (ToolNamespaceConfig.browser(), ToolNamespaceConfig.python())
    assert json.loads(declared) == {tool.name: tool.model_dump() for tool in tools}
