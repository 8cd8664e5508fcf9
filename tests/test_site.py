"""What the hooks of MkDocs do with pages; `make docs` builds the whole site, strictly."""

from __future__ import annotations

import base64
import json
import re
import runpy
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpt_oss_harmony import RecoveryKind
from gpt_oss_harmony.inspector.calls import answer

DOCS = Path(__file__).parent.parent / "docs"
SCRIPTS = Path(__file__).parent.parent / "scripts" / "docs"
CONFIG = {
    "repo_url": "https://git.example/harmony",
    "extra": {"search_words": {"guides/serve.md": ["streaming"]}},
}
LANGUAGES = ["en", "ja", "ko"]


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return runpy.run_path(str(SCRIPTS / "site_hooks.py"))


def page(path: str, url: str = "") -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=path), meta={}, url=url)


def building(language: str, site: Path | None = None) -> Any:
    i18n = SimpleNamespace(
        current_language=language,
        default_language="en",
        build_languages=LANGUAGES,
        building=False,
    )
    return SimpleNamespace(
        plugins={"i18n": i18n}, site_dir=str(site), site_url="https://example.org/docs/"
    )


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


@pytest.mark.parametrize("name", ["guides/serve.md", "guides/serve.ja.md"])
def test_other_words_for_a_page_are_found_in_each_language(
    hooks: dict[str, Any], name: str
) -> None:
    found = page(name)
    hooks["on_page_markdown"]("# Title\n", found, CONFIG)
    assert found.meta["tags"] == ["streaming"]


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
    assert hooks["on_post_page"](html, page("index.md"), building("en")) == html
    assert caplog.messages == ([f"index.md loads {loaded}"] if loaded else [])


@pytest.mark.parametrize(
    ("language", "url", "base"),
    [
        ("en", "start/switch/", "../.."),
        ("ja", "ja/start/switch/", "../../"),
        ("ja", "ja/start/", "../"),
        ("ja", "ja/", "."),
    ],
)
def test_a_page_searches_the_folder_of_its_language(
    hooks: dict[str, Any], language: str, url: str, base: str
) -> None:
    written = f'{{"base": "{"/".join([".."] * url.count("/"))}", "features": []}}'
    shown = hooks["on_post_page"](written, page("x.md", url), building(language))
    assert json.loads(shown) == {"base": base, "features": []}


@pytest.mark.parametrize(
    ("url", "link"), [("", "./ja/"), ("start/switch/", "../../ja/"), ("ja/", "../ja/")]
)
def test_a_copy_of_the_site_links_its_own_languages(
    hooks: dict[str, Any], url: str, link: str
) -> None:
    shown = hooks["on_post_page"](
        '"base": ".", <a href="/docs/ja/" hreflang="ja"> <a href="/docs/ja/">',
        page("x.md", url),
        building("en"),
    )
    assert shown == f'"base": ".", <a href="{link}" hreflang="ja"> <a href="/docs/ja/">'


def entry(location: str, title: str = "", text: str = "") -> dict[str, str]:
    return {"location": location, "title": title, "text": text}


@pytest.mark.parametrize(
    ("found", "fields"),
    [
        (entry("guides/serve/", "Serve", "<p>an id</p>"), {}),
        (
            entry("guides/serve/", "`max_tokens`", "<code>TokenError</code>, _private HTTP"),
            {"parts": "max tokens token error"},
        ),
        (
            entry("reference/api/errors/#gpt_oss_harmony.TokenError", "TokenError"),
            {"parts": "token error", "name": "TokenError"},
        ),
        (entry("reference/api/errors/#gpt_oss_harmony.TokenError.token", "token"), {}),
    ],
)
def test_names_of_code_are_found_by_their_words(
    hooks: dict[str, Any], found: dict[str, str], fields: dict[str, str]
) -> None:
    assert hooks["_names"](found) == fields


SEPARATOR = re.search(r"separator: '(.+)'\n", (DOCS.parent / "mkdocs.yml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("訓練データ", ["訓練", "データ"]),
        ("ツール呼び出し", ["ツール", "呼", "出"]),
        ("MCPサーバーのツール", ["MCP", "サーバー", "ツール"]),
        ("API를 서빙", ["API", "를", "서빙"]),
        ("StreamableParser, max_tokens 3.9", ["StreamableParser", "max_tokens", "3.9"]),
        ("&lt;|constrain|&gt; json_schema.py", ["constrain", "json_schema", "py"]),
        ("структурированный вывод", ["структурированный", "вывод"]),
    ],
)
def test_what_is_typed_ends_where_words_of_pages_end(typed: str, words: list[str]) -> None:
    assert SEPARATOR
    assert [word for word in re.split(SEPARATOR[1], typed, flags=re.ASCII) if word] == words


def test_a_language_is_searched_with_the_english_pages_that_it_lacks(
    hooks: dict[str, Any], tmp_path: Path
) -> None:
    locations = ["start/", "start/#a", "reference/", "ja/start/", "ja/start/#a", "ko/start/"]
    index = {"config": {"lang": LANGUAGES}, "docs": [entry(name) for name in locations]}
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.json").write_text(json.dumps(index))
    for language in LANGUAGES:
        (tmp_path / language).mkdir()
    hooks["on_post_build"](building("ko", tmp_path))

    def searched(folder: str) -> tuple[list[str], list[str]]:
        index = json.loads((tmp_path / folder / "search" / "search_index.json").read_text())
        return index["config"]["lang"], [doc["location"] for doc in index["docs"]]

    assert searched("") == (["en"], ["start/", "start/#a", "reference/"])
    assert searched("ja") == (["en", "ja"], ["start/", "start/#a", "../reference/"])
    assert searched("ko") == (["en", "ko"], ["start/", "../reference/"])


def linked_documents(shown: str) -> list[dict[str, Any]]:
    """What the links into the playground open."""
    packed = re.findall(r'href="\.\./\.\./playground/#c=([\w-]+)&amp;tab=tokens"', shown)
    assert len(packed) == shown.count('class="playground"')
    texts = [base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) for text in packed]
    return [json.loads(zlib.decompress(text, wbits=-15)) for text in texts]


@pytest.mark.parametrize("language", ["", ".ja", ".ko", ".ru"])
def test_examples_of_the_format_open_in_the_playground(
    hooks: dict[str, Any], language: str
) -> None:
    path = f"understand/format{language}.md"
    shown = hooks["on_page_markdown"](
        (DOCS / path).read_text("utf-8"), page(path, "understand/format/"), CONFIG
    )
    documents = linked_documents(shown)
    assert len(documents) >= 12
    for document in documents:
        body = {"input": document["input"], "role": None}
        if not document["input"].startswith("<|start|>"):
            body["role"] = "assistant"
        status, text = answer("parse", json.dumps(body).encode())
        assert status == 200
        assert json.loads(text)["strict"]["messages"], document


def test_examples_of_recoveries_open_in_the_playground(hooks: dict[str, Any]) -> None:
    text = (DOCS / "reference" / "recoveries.md").read_text("utf-8")
    shown = hooks["on_page_markdown"](text, page("reference/recoveries.md", "a/b/"), CONFIG)
    lines = [line for line in shown.splitlines() if line.startswith("| `")]
    linked = [line for line in lines if 'class="playground"' in line]
    without = {line.split("`")[1] for line in lines if line not in linked}
    on_request = {"refused-call", "mended-arguments"}
    assert without == {*on_request, "body-begins-oddly", "body-has-markers"}
    kinds = [kind.value for kind in RecoveryKind if kind.value not in on_request]
    documents = linked_documents("\n".join(linked))
    tools = ["functions.f", "functions.Web Search"]
    for kind, document in zip(kinds, documents[: len(kinds)], strict=True):
        role = None if document["input"].startswith("<|start|>") else "assistant"
        body = {"input": document["input"], "role": role, "tools": tools}
        parsed = json.loads(answer("parse", json.dumps(body).encode()).text)
        assert kind in {recovery["kind"] for recovery in parsed["lenient"]["recoveries"]}
    rendered = json.loads(
        answer("render", json.dumps({"source": documents[0]["source"]}).encode()).text
    )
    assert "type f = " in rendered["text"]


def test_links_to_the_published_playground_lead_to_the_copy(hooks: dict[str, Any]) -> None:
    config = {**CONFIG, "site_url": "https://site.example/harmony/"}
    written = '<a href="https://site.example/harmony/playground/#tab=live">a</a>'
    shown = hooks["on_page_content"](
        written, page=page("guides/a.md", "ja/guides/a/"), config=config
    )
    assert shown == '<a href="../../../playground/#tab=live">a</a>'
