"""Conversations and tokens full of markup and script: the inspector shows them as they are.

Whatever would be an element has an attribute by which it would be found, and whatever would run
leaves a mark. Dialogs, requests and violations of the policy fail every test anyway.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.page_visitor import Visitor, fragment

pytestmark = pytest.mark.slow

RUN = "window.hostile=1"
MARKUP = [
    f"<script hostile>{RUN}</script>",
    f"<img hostile src=/x onerror={RUN}>",
    f"<svg hostile onload={RUN}><script hostile>{RUN}</script></svg>",
    f'"><b hostile onclick={RUN}>',
    f"' hostile onfocus={RUN} autofocus='",
    f"</textarea></script></style><iframe hostile srcdoc='<script>{RUN}</script>'>",
    f"<a hostile href='javascript:{RUN}'>here</a>",
    "<style hostile>* { display: none }</style>",
    "<base hostile href=//example.com/><meta hostile http-equiv=refresh content='0;url=/x'>",
    "&lt;b hostile&gt; &#60;b hostile&#62; \\u003cb hostile\\u003e",
    "{{constructor.constructor('window.hostile=1')()}} ${window.hostile=1}",
    "<!-- --><![CDATA[ <b hostile> ]]>",
]
ALL = "\n".join(MARKUP)
IN_HEADERS = [  # without white space, "=" and, in channels, "<": headers cannot hold these
    "<script/hostile>Reflect.set(window,'hostile',1)</script>",
    "&lt;img/hostile&gt;",
    "<svg/hostile><script/hostile>Reflect.set(window,'hostile',1)</script></svg>",
    '"><b/hostile>',
    "'/hostile/autofocus/",
    "</textarea></script></style><b/hostile>",
]


def tool(name: str, text: str) -> dict[str, Any]:
    described = {"type": "string", "description": text, "enum": [text], "default": text}
    return {
        "name": name,
        "description": text,
        "parameters": {"type": "object", "properties": {text: described}},
    }


SYSTEM = {"type": "system_content", "model_identity": ALL, "knowledge_cutoff": ALL}
DEVELOPER = {
    "type": "developer_content",
    "instructions": ALL,
    "tools": {"functions": {"name": "functions", "tools": [tool("f", ALL), tool(MARKUP[1], ALL)]}},
}
HARMONY = {
    "messages": [
        {"role": "system", "content": [SYSTEM]},
        {"role": "developer", "content": [DEVELOPER]},
        {"role": "user", "name": IN_HEADERS[0], "content": ALL},
        {"role": "assistant", "channel": "analysis", "content": ALL},
        {"role": "assistant", "channel": IN_HEADERS[1], "recipient": IN_HEADERS[3], "content": ALL},
        {"role": "tool", "name": IN_HEADERS[2], "channel": IN_HEADERS[4], "content": ALL},
        {"role": "assistant", "channel": "final", "content_type": IN_HEADERS[5], "content": ALL},
        {"role": "user", "content": ALL},
    ]
}
CHAT = {
    "model": ALL,
    MARKUP[1]: ALL,
    "messages": [{"role": "user", "name": MARKUP[0], "content": ALL}],
    "tools": [{"type": "function", "function": tool("f", ALL)}],
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "f", "description": ALL, "schema": {"title": ALL}},
    },
}
REFUSED = {"messages": [{"role": MARKUP[1], "channel": "final", "content": ALL}]}
TOKENS = (
    f"<|channel|>{MARKUP[1]}<|message|>{ALL}<|end|><|start|>{MARKUP[0]} to={MARKUP[3]}"
    f"<|channel|>{MARKUP[2]}<|constrain|>{MARKUP[5]}<|message|>{ALL}<|call|>{ALL}"
)


def expect_harmless(page: Page) -> None:
    assert page.evaluate("document.querySelectorAll('[hostile]').length") == 0
    assert page.evaluate("window.hostile") is None
    expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.parametrize("source", [HARMONY, CHAT], ids=["harmony", "chat"])
@pytest.mark.parametrize("tab", ["conversation", "tokens", "grammar", "compare"])
def test_a_conversation_is_text(
    visitor: Visitor, inspector_url: str, source: dict[str, Any], tab: str
) -> None:
    if tab == "grammar":
        visitor.expected.append("status of 4")  # no grammar has a tool with such a name
    page = visitor.open(inspector_url + fragment(tab, source=source))
    panel = page.get_by_role("tabpanel")
    if tab == "tokens":
        page.get_by_role("button", name="Prompt of the conversation").click()
    expect(panel).to_contain_text("onerror=window.hostile=1")
    expect_harmless(page)
    if tab != "conversation":
        return
    page.get_by_role("button", name="JSON", exact=True).click()
    expect(page.get_by_role("textbox", name="Conversation as JSON")).to_have_value(
        re.compile(re.escape(MARKUP[0]))
    )
    expect_harmless(page)


def test_tokens_are_text(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("tokens", input=TOKENS))
    lenient = page.get_by_role("region", name="Lenient", exact=True)
    expect(lenient.get_by_role("article").first).to_contain_text(MARKUP[1])
    expect_harmless(page)
    page.get_by_role("slider", name="Tokens read").focus()
    for key in ("Home", *["PageDown"] * 8, "ArrowLeft"):
        page.keyboard.press(key)
    expect_harmless(page)


def test_a_completion_is_text(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("grammar", source=CHAT, completion=TOKENS))
    expect(page.get_by_role("tabpanel")).to_contain_text("leaves the grammar")
    expect_harmless(page)


def test_an_error_is_text(visitor: Visitor, inspector_url: str) -> None:
    visitor.expected.append("status of 4")
    page = visitor.open(inspector_url + fragment(source=REFUSED))
    expect(page.get_by_role("alert").first).to_contain_text(MARKUP[1])
    expect_harmless(page)


FRAGMENTS = {
    "markup": f"#c={ALL}&tab={MARKUP[1]}",
    "no document": fragment(source=[ALL]),
    "no deflate": "#c=AAAA",
    "a form that there is not": fragment(source=HARMONY, form=MARKUP[1]),
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_fragment_that_is_no_document_is_said(
    visitor: Visitor, inspector_url: str, name: str
) -> None:
    page = visitor.open(inspector_url + FRAGMENTS[name])
    expect(page.get_by_text("The link holds no conversation")).to_be_visible()
    expect_harmless(page)
