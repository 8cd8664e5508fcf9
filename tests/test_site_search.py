"""The search of the built site, asked in a browser, finds the page that people mean."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from support.playground import ROOT, built_playground, file_server

if find_spec("playwright"):
    from support.inspector_page import browser  # noqa: F401

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

FOUND = {
    "structured output": "guides/structured-output",
    "constrained decoding": "guides/structured-output",
    "json schema": "guides/structured-output",
    "json mode": "guides/structured-output",
    "regex": "guides/structured-output",
    "streaming": "guides/serve",
    "sampling loop": "guides/sampling-loop",
    "stop tokens": "understand/format",
    "developer message": "understand/format",
    "analysis channel": "understand/format",
    "chain of thought": "understand/format",
    "chat template": "understand/format",
    "reasoning effort": "understand/format",
    "tool call": "understand/format",
    "tokenizer": "start",
    "install": "start",
    "openai-harmony": "start/switch",
    "migrate": "start/switch",
    "LoRA": "guides/fine-tune",
    "TRL": "guides/trainers",
    "fine-tune": "guides/training-data",
    "mask": "guides/training-data",
    "loss mask": "guides/training-data",
    "ray": "guides/training-data",
    "OOM": "guides/engines",
    "out of memory": "guides/engines",
    "gpu": "guides/engines",
    "MXFP4": "guides/engines",
    "llama.cpp": "guides/engines",
    "ollama": "guides/engines",
    "sglang": "guides/engines",
    "vllm": "guides/vllm",
    "vLLM tool calling": "guides/vllm",
    "chat completions": "guides/serve",
    "api key": "guides/serve",
    "codex": "guides/serve",
    "claude code": "guides/messages",
    "anthropic": "guides/messages",
    "lm-eval": "guides/evaluate",
    "docker": "guides/deploy",
    "kubernetes": "guides/deploy",
    "sandbox": "guides/python-tool",
    "browser": "guides/browser",
    "mcp": "guides/mcp",
    "malformed": "understand/recovery",
    "truncated output": "guides/sampling-loop",
    "parse tool calls": "guides/sampling-loop",
    "code interpreter": "guides/python-tool",
    "harmony chat": "guides/command",
    "images": "reference/server",
    "rate limit": "guides/serve",
    "context length exceeded": "guides/serve",
    "reasoning_effort": "reference/server",
    "how to disable reasoning": "reference/server",
    "refusal": "reference/server",
    "timeout": "reference/server",
    "temperature default": "reference/server",
    "json_schema strict": "reference/server",
    "tool_choice required": "guides/structured-output",
    "jinja chat template": "guides/command",
    "pip install": "start",
    "parse completion": "start",
    "coding agents": "guides/serve",
    "MCP server": "guides/mcp",
    "finish_reason length": "guides/serve",
    "batch": "reference/server",
    "token count": "reference/api/encoding",
    "count tokens": "reference/api/encoding",
    "train on multiple GPUs": "guides/fine-tune",
    "fine-tune gpt-oss-20b": "guides/fine-tune",
    "QLoRA": "guides/fine-tune",
    "streaming parser": "reference/api/parser",
    "hyperparameters": "guides/fine-tune",
    "resume training": "guides/fine-tune",
    "evaluate my fine-tuned model": "guides/evaluate",
    "open webui": "guides/clients",
    "unexpected tokens remaining in message header": "guides/sampling-loop",
    "unexpected token error": "understand/recovery",
    "model never stops generating": "guides/sampling-loop",
    "empty content in response": "guides/sampling-loop",
    "response has no content only reasoning": "guides/sampling-loop",
    "merge adapter": "guides/fine-tune",
    "tensor parallel": "guides/engines",
    "strict=False": "understand/recovery",
    "learning rate": "guides/fine-tune",
    "save checkpoint": "guides/fine-tune",
    "VRAM": "guides/fine-tune",
    "concurrency": "reference/server",
    "top_p": "reference/server",
    "model not found": "guides/serve",
    "prompt caching": "reference/server",
    "tool call arguments invalid json": "guides/structured-output",
    "image input": "reference/server",
    "parallel tool calls": "guides/structured-output",
    "continue final message": "guides/messages",
    "python 3.9": "start",
    "license": "start",
    "licence": "start",
    "finetune": "guides/training-data",
    "function calling": "guides/structured-output",
    "logprobs": "reference/server",
    "JSON schema unsupported": "reference/json-schema",
    "port already in use": "guides/serve",
    "Authorization header": "guides/serve",
    "gpt-oss-120b memory": "guides/engines",
    "windows support": "start",
    "address in use": "guides/serve",
    "two servers": "guides/serve",
    "another server uses the database": "guides/serve",
    "openai sdk": "guides/serve",
    "tool_choice": "reference/mapping",
    "temperature": "reference/mapping",
    "--reasoning-rule": "reference/command",
    "harmony serve --database": "reference/command",
    "missing-start": "reference/recoveries",
    "n_ctx": "guides/engines",
    "max-running": "reference/command",
    "no-grammar": "guides/command",
    "what is harmony": "understand/format",
    "multi turn": "understand/format",
    "harmony generate": "guides/command",
    "thread safe": "reference/api",
    "thread safety": "reference/api",
    "multithreading": "reference/api",
    "changelog": "changelog",
    "quickstart": "start",
    "authentication": "guides/serve",
    "bearer token": "guides/serve",
    "o200k_harmony": "reference/api/encoding",
    "troubleshooting": "guides/serve",
    "web search tool": "guides/browser",
    "how to count tokens": "reference/api/encoding",
    "multi-gpu": "guides/engines",
    "cancel request": "guides/serve",
    "CORS": "guides/serve",
    "https tls": "guides/deploy",
    "pypi": "start",
    "logging": "guides/deploy",
    "langchain": "guides/clients",
    "openai-harmony differences": "start/switch",
    "knowledge cutoff": "understand/format",
    "eos token": "understand/format",
    "parse tool call": "guides/sampling-loop",
    "--temperature": "reference/command",
    "--port": "reference/command",
    "prepare --pack": "reference/command",
    "harmony doctor": "guides/command",
    "harmony render": "guides/command",
    "lenient": "understand/recovery",
    "training data": "guides/training-data",
    "built-in browser tool": "guides/browser",
    "how to use browser tool": "guides/browser",
    "how to use the python tool": "guides/python-tool",
    "train with tool calls": "guides/training-data",
    "train only on last answer": "guides/training-data",
    "multi turn conversation training": "guides/training-data",
    "mask assistant reasoning": "guides/training-data",
    "count tokens in a prompt": "reference/api/encoding",
    "parse tool call arguments": "guides/sampling-loop",
    "batch inference": "reference/endpoints/batches",
    "which engine should I use?": "guides/choose-engine",
    "use mcp server with gpt-oss": "guides/mcp",
    "multiple workers": "guides/deploy",
    "postgresql database": "guides/deploy",
    "environment variables": "guides/command",
    "safety classifier": "guides/safeguard",
    "upload a file": "reference/endpoints/files-and-containers",
    "speed compared to the reference": "understand/benchmarks",
    "pip install gpt-oss-harmony": "start",
    "eos_token_id": "understand/format",
    "evaluate": "guides/evaluate",
}
"""What people type, and the page that must be among the first three."""

FIRST = {
    "HarmonyError": "reference/api/errors",
    "RenderConversationConfig": "reference/api/encoding",
    "StreamableParser": "reference/api/parser",
    "render_conversation_for_completion": "reference/api/encoding",
    "max_tokens": "guides/sampling-loop",
    "openai-harmony migrate": "start/switch",
    "migrate": "start/switch",
}
"""Names, and the page that must be the first."""

TRANSLATED = {
    "ja": {
        "訓練データ": "guides/training-data",
        "損失マスク": "guides/training-data",
        "ツール呼び出し": "understand/format",
        "構造化出力": "guides/structured-output",
        "サーバー": "guides/serve",
        "移行": "start/switch",
        "推論の強さ": "understand/format",
    },
    "ko": {
        "구조화된 출력": "guides/structured-output",
        "서버": "guides/serve",
        "설치": "start",
        "미세 조정": "guides/training-data",
    },
    "ru": {
        "структурированный вывод": "guides/structured-output",
        "сервер": "guides/serve",
        "установка": "start",
        "стриминг": "guides/serve",
        "рассуждение": "understand/format",
        "токенизация": "start",
        "авторизация": "guides/serve",
        "видеопамять": "guides/fine-tune",
    },
}
"""What people type in other languages, and the page that must be among the first three."""

SHOWN = """async typed => {
  const {base, search} = JSON.parse(document.querySelector('#__config').textContent);
  const folder = new URL(base + '/', location.href);
  const index = await fetch(new URL('search/search_index.json', folder));
  const worker = new Worker(search);
  const answer = message => new Promise(resolve => {
    worker.onmessage = ({data}) => resolve(data);
    worker.postMessage(message);
  });
  await answer({type: 0, data: {...await index.json(), options: {suggest: false}}});
  const shown = {};
  for (const words of typed) {
    const {data} = await answer({type: 2, data: words});
    const pages = data.items.map(([entry]) => new URL(entry.location, folder).pathname);
    shown[words] = pages.slice(0, 3).map(page => page.replace(/^\\/|\\/$/g, ''));
  }
  return shown;
}"""
"""The first three pages that the worker of the site's search finds, in the order shown."""


TITLES = """async () => {
  const {base, search} = JSON.parse(document.querySelector('#__config').textContent);
  const folder = new URL(base + '/', location.href);
  const index = await (await fetch(new URL('search/search_index.json', folder))).json();
  const languages = /^(ja|ko|ru)\\//;
  const worker = await (await fetch(search)).text();
  const common = /generateStopWordFilter\\((\\[[^\\]]+\\])/.exec(worker)[1];
  return [index.docs.filter(entry => !languages.test(entry.location)), JSON.parse(common)];
}"""
"""The pages and sections in the index of English, and the words that the search leaves out."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site; where the playground must be built, so is the site."""
    if os.environ.get("HARMONY_TEST_PLAYGROUND"):
        folder = built_playground()
    else:
        pytest.importorskip("mkdocs")
        folder = tmp_path_factory.mktemp("site")
        build = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder)
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        subprocess.run(build, cwd=ROOT, env=environment, check=True, capture_output=True)
    with file_server(folder) as server:
        yield server.url


def found(browser: Browser, site: str, typed: Iterable[str]) -> dict[str, list[str]]:
    """The first three pages that the site finds for each of the texts."""
    page = browser.new_page()
    page.goto(site)
    shown: dict[str, list[str]] = page.evaluate(SHOWN, [*typed])
    page.close()
    return shown


def test_the_first_three_pages_have_what_people_look_for(site: str, browser: Browser) -> None:
    shown = found(browser, site, FOUND | FIRST)
    missed = {typed: shown[typed] for typed in FOUND if FOUND[typed] not in shown[typed]}
    assert not missed
    assert {typed: shown[typed][:1] for typed in FIRST} == {
        typed: [page] for typed, page in FIRST.items()
    }


def test_titles_and_headings_find_their_pages(site: str, browser: Browser) -> None:
    searcher = browser.new_page()
    searcher.goto(site)
    entries, common = searcher.evaluate(TITLES)
    searcher.close()
    pages: dict[str, set[str]] = {}
    for entry in entries:
        page, _, anchor = entry["location"].partition("#")
        title = html.unescape(re.sub(r"<[^>]+>", "", entry["title"]))
        telling = [word for word in title.lower().split() if word not in common]
        if page and (not anchor or (len(telling) > 1 and not page.startswith("reference/"))):
            pages.setdefault(title, set()).add(page.rstrip("/"))
    shown = found(browser, site, pages)
    assert len(pages) >= 250
    missed = {title: shown[title] for title in pages if pages[title].isdisjoint(shown[title])}
    assert not missed


def test_each_option_of_several_words_is_found_as_written(site: str, browser: Browser) -> None:
    reference = (ROOT / "docs/reference/command.md").read_text("utf-8")
    options = sorted(set(re.findall(r"^\| `(--[a-z]+-[a-z-]+)", reference, re.M)))
    assert len(options) >= 50
    shown = found(browser, site, options)
    assert not {
        option: pages for option, pages in shown.items() if "reference/command" not in pages
    }


@pytest.mark.parametrize("language", ["ja", "ko", "ru"])
def test_translated_pages_are_found_by_their_titles(
    site: str, browser: Browser, language: str
) -> None:
    docs = ROOT / "docs"
    searched = dict(TRANSLATED[language])
    for path in docs.rglob(f"*.{language}.md"):
        name = path.relative_to(docs).as_posix().removesuffix(f".{language}.md")
        if name != "index":
            searched[path.read_text("utf-8").partition("\n")[0][2:]] = name.removesuffix("/index")
    shown = found(browser, f"{site}{language}/", searched)
    missed = {
        typed: pages
        for typed, pages in shown.items()
        if f"{language}/{searched[typed]}" not in pages
    }
    assert not missed
