"""What the hooks of MkDocs do with pages; `make docs` builds the whole site, strictly."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts" / "docs"
CONFIG = {"repo_url": "https://git.example/harmony"}


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return runpy.run_path(str(SCRIPTS / "site_hooks.py"))


def page(path: str) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=path))


def test_links_out_of_docs_lead_to_the_repository(hooks: dict[str, Any]) -> None:
    written = "[a](../../Makefile) [b](../index.md) [c](serve.md)\n```\n[d](../../x)\n```\n"
    shown = hooks["on_page_markdown"](written, page("guides/deploy.md"), CONFIG)
    assert shown == written.replace("../../Makefile", f"{CONFIG['repo_url']}/blob/main/Makefile")


@pytest.mark.parametrize("behind", [True, False])
def test_translations_show_ids_and_a_notice_but_no_record(
    hooks: dict[str, Any], behind: bool
) -> None:
    mark = ", behind" if behind else ""
    written = (
        f'# 題\n\n## <a id="run-it"></a>実行\n\n文。\n\n<!-- translation{mark}\nrun-it 12ab\n-->\n'
    )
    shown = hooks["on_page_markdown"](written, page("guides/serve.ja.md"), CONFIG)
    assert "## 実行 {#run-it}\n" in shown
    assert "translation" not in shown
    assert ('!!! warning "英語版' in shown) is behind


@pytest.mark.parametrize(
    ("html", "loaded"),
    [
        ('<script async src="https://cdn.example/x.js">', "https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/x">', "//fonts.example/x"),
        ('<img alt="" src="http://img.example/x.png">', "http://img.example/x.png"),
        ('<link rel="canonical" href="https://harmony.example/">', None),
        ('<a href="https://harmony.example/">', None),
        ('<script src="../assets/x.js">', None),
    ],
)
def test_a_page_that_loads_from_another_host_is_reported(
    hooks: dict[str, Any], html: str, loaded: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert hooks["on_post_page"](html, page("index.md")) == html
    assert caplog.messages == ([f"index.md loads {loaded}"] if loaded else [])
