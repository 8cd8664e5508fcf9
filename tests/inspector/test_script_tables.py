"""Tables in the scripts of the page agree with the library."""

from __future__ import annotations

import json
import re
from importlib import resources

from gpt_oss_harmony import RecoveryKind
from gpt_oss_harmony.conversation.built_in_tools import BUILT_IN_TOOLS
from support.inspector_client import client

PAGE = resources.files("gpt_oss_harmony.inspector") / "page"


def test_the_page_declares_the_tools_of_the_library() -> None:
    sent = client.get("/inspector/built-in-tools.js")
    assert sent.headers["content-type"].startswith("text/javascript")
    declared = sent.text.removeprefix("export const BUILT_IN_TOOLS = ").rstrip().removesuffix(";")
    tools = BUILT_IN_TOOLS.items()
    assert json.loads(declared) == {name: tool.namespace.model_dump() for name, tool in tools}
    assert (
        client.get(
            "/inspector/built-in-tools.js", headers={"if-none-match": sent.headers["etag"]}
        ).status_code
        == 304
    )


def test_the_page_explains_each_kind_of_recovery() -> None:
    script = (PAGE / "recovery-words.js").read_text(encoding="utf-8")
    explained = re.findall(r'^  "([a-z0-9-]+)": phrase\("[^"]+"\),$', script, re.MULTILINE)
    assert sorted(explained) == sorted(kind.value for kind in RecoveryKind)
