"""The page says what every kind of recovery means, and of no other."""

from __future__ import annotations

import re
from importlib import resources

from openai_harmony import RecoveryKind


def test_the_page_explains_each_kind_of_recovery() -> None:
    page = resources.files("openai_harmony.inspector") / "page"
    script = (page / "recovery-words.js").read_text(encoding="utf-8")
    explained = re.findall(r'^  "([a-z0-9-]+)": "[^"]+",$', script, re.MULTILINE)
    assert sorted(explained) == sorted(kind.value for kind in RecoveryKind)
