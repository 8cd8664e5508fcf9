"""Tables in the scripts of the page agree with the library."""

from __future__ import annotations

import json
import re
from importlib import resources

from gpt_oss_harmony import RecoveryKind
from gpt_oss_harmony.conversation.built_in_tools import BUILT_IN_TOOLS

PAGE = resources.files("gpt_oss_harmony.inspector") / "page"


def test_the_page_declares_the_tools_of_the_library() -> None:
    script = (PAGE / "built-in-tools.js").read_text(encoding="utf-8")
    declared = script.partition("export const BUILT_IN_TOOLS = ")[2].rstrip().removesuffix(";")
    tools = BUILT_IN_TOOLS.items()
    assert json.loads(declared) == {name: tool.namespace.model_dump() for name, tool in tools}


def test_the_page_explains_each_kind_of_recovery() -> None:
    script = (PAGE / "recovery-words.js").read_text(encoding="utf-8")
    explained = re.findall(r'^  "([a-z0-9-]+)": "[^"]+",$', script, re.MULTILINE)
    assert sorted(explained) == sorted(kind.value for kind in RecoveryKind)
