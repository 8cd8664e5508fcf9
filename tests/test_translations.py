"""Translations have the English code, links and headings, and those that are behind are known."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "docs" / "translations.py"))
Translation: Any = SCRIPT["Translation"]
PAGES: list[Path] = SCRIPT["translated_pages"]()


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_translations_have_the_structure_and_links_of_the_english_page(page: Path) -> None:
    assert list(Translation(page).problems()) == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_translations_have_the_english_code_and_anchors(page: Path) -> None:
    translation = Translation(page)
    assert translation.with_shared_parts() == translation.text, "run `make translations`"


def test_no_translation_is_behind_without_saying_so() -> None:
    translations = [Translation(page) for page in PAGES]
    behind = [
        f"{page_name(page.path)}: {', '.join(page.changed)}"
        for page in translations
        if page.changed and not page.is_marked
    ]
    assert not behind, (
        "English sections changed. Translate them and run `make translations DONE=PAGE`, or run "
        "`make translations BEHIND=PAGE`, which puts a notice on the page:\n" + "\n".join(behind)
    )


def test_a_page_is_translated_into_every_language() -> None:
    for page in PAGES:
        original = Translation(page).original
        for language in SCRIPT["LANGUAGES"]:
            assert original.with_suffix(f".{language}.md") in PAGES, (page_name(page), language)


# The machinery

ENGLISH = """# Guide

Text with [a link](other.md#limits).

## Run it

```sh
# not a heading
harmony serve demo
```

Done.
"""
JAPANESE = """# ガイド

[リンク](other.md#limits)のある文。

## 実行

```sh
古い
```

終わり。
"""


@pytest.fixture
def guide(tmp_path: Path) -> Path:
    (tmp_path / "guide.md").write_text(ENGLISH, encoding="utf-8")
    (tmp_path / "guide.ja.md").write_text(JAPANESE, encoding="utf-8")
    (tmp_path / "other.md").write_text("# Other\n", encoding="utf-8")
    (tmp_path / "other.ja.md").write_text("# 別\n", encoding="utf-8")
    return tmp_path / "guide.ja.md"


def write_record(page: Path, *, behind: bool = False) -> None:
    page.write_text(Translation(page).with_shared_parts(), encoding="utf-8")
    page.write_text(Translation(page).with_record(behind=behind), encoding="utf-8")


def test_shared_parts_are_copied_once(guide: Path) -> None:
    shared = Translation(guide).with_shared_parts()
    assert shared == (
        JAPANESE.replace("other.md", "other.ja.md")
        .replace("## 実行", '## <a id="run-it"></a>実行')
        .replace("古い", "# not a heading\nharmony serve demo")
    )
    guide.write_text(shared, encoding="utf-8")
    assert Translation(guide).with_shared_parts() == shared
    assert not list(Translation(guide).problems())


def test_a_record_shows_which_sections_changed(guide: Path) -> None:
    assert Translation(guide).changed == ["guide", "run-it"]
    write_record(guide)
    assert Translation(guide).changed == []
    original = guide.with_name("guide.md")
    changed_code = ENGLISH.replace("serve demo", "serve MODEL").replace("Text with", "Text\nwith")
    original.write_text(changed_code, encoding="utf-8")
    assert Translation(guide).changed == []
    assert Translation(guide).with_shared_parts() != Translation(guide).text
    original.write_text(ENGLISH.replace("Done.", "It is done.") + "\n## More\n", encoding="utf-8")
    assert Translation(guide).changed == ["run-it", "more"]


def test_a_page_can_be_marked_as_behind_and_done_again(guide: Path) -> None:
    write_record(guide)
    guide.with_name("guide.md").write_text(ENGLISH.replace("Done.", "End."), encoding="utf-8")
    write_record(guide, behind=True)
    assert (Translation(guide).is_marked, Translation(guide).changed) == (True, ["run-it"])
    write_record(guide)
    assert (Translation(guide).is_marked, Translation(guide).changed) == (False, [])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("## 実行", "### 実行", "its headings have the levels 1 3; the English page has 1 2"),
        ("(other.md#limits)", "", "#guide: the link to other.md#limits is missing"),
        ("終わり。", "[x](y.md)", "#run-it: the English section has no link to y.md"),
        ("```sh\n古い\n```", "", "#run-it: 0 code blocks; the English section has 1"),
    ],
)
def test_what_a_translator_must_repair_is_named(
    guide: Path, old: str, new: str, problem: str
) -> None:
    guide.write_text(JAPANESE.replace(old, new), encoding="utf-8")
    assert list(Translation(guide).problems()) == [problem]


def test_bars_in_the_code_of_tables_lose_their_backslashes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(ROOT / "scripts" / "docs")
    hooks = runpy.run_path(str(ROOT / "scripts" / "docs" / "site_hooks.py"))
    code = r"<code>a\|b</code>"
    html = f"<table><tr><td>{code}</td></tr></table><p>{code}</p>"
    shown = html.replace(r"<td><code>a\|b", "<td><code>a|b")
    page = SimpleNamespace(url="")
    assert hooks["on_page_content"](html, page=page, config={"site_url": "https://a/"}) == shown
