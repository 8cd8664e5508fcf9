"""Where the chat template of gpt-oss on the Hugging Face hub parts from harmony, case by case.

The template is the one that TRL brings along, unchanged, and that its tests compare with the hub.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gpt_oss_harmony
from gpt_oss_harmony import ConversationError
from gpt_oss_harmony.training import TrainingOptions, find_template_difference

pytest.importorskip("jinja2")

DATE = "2025-06-28"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "training-files.md"


def hub_template() -> str:
    spec = find_spec("trl")
    if spec is None or not spec.submodule_search_locations:
        pytest.importorskip("trl", reason="trl, which brings the template, is not installed")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    return (folder / "chat_templates" / "gptoss.jinja").read_text(encoding="utf-8")


USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "ho"}
SYSTEM = {"role": "system", "content": "Be brief."}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "{}"}


def tool(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "description": "d", **fields}}


def taking(**schema: Any) -> dict[str, Any]:
    return tool(parameters={"type": "object", "properties": {"a": schema}, "required": ["a"]})


def calling(arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments or {"a": 1}}
    return {"role": "assistant", "tool_calls": [{"id": "1", "function": function}], **fields}


def with_tools(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [USER], "tools": list(tools)}


class Case(NamedTuple):
    """A chat, and how harmony and the template go on where they part."""

    chat: Any
    harmony: str = ""
    template: str = ""
    problem: str | None = None
    training: bool = False


CASES = {
    "blank-lines-after-instructions": Case([SYSTEM, USER], ".<|end|>", ".\n\n<|end|>"),
    "later-instructions": Case(
        [USER, ANSWER, SYSTEM, USER], "developer<|message|># Instructions", "user<|message|>hi"
    ),
    "response-format": Case(
        {
            "messages": [USER],
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        },
        "developer<|message|># Response Formats",
        "user<|message|>hi",
    ),
    "effort-names": Case({"messages": [USER], "reasoning_effort": "max"}, " high\n", " max\n"),
    "tool-without-description": Case(
        with_tools({"type": "function", "function": {"name": "f"}}),
        "<|start|>system",
        problem="no attribute 'description'",
    ),
    "description-of-several-lines": Case(
        with_tools(taking(type="string", description="x\ny")), "// y\n", "y\n"
    ),
    "comma-after-a-default": Case(
        with_tools(taking(type="string", default="x")), '"\n}) => any;', '",\n}) => any;'
    ),
    "choices-of-numbers": Case(
        with_tools(taking(type="integer", enum=[1, 2])), " 1 | 2,\n", " number,\n"
    ),
    "alternatives": Case(
        with_tools(taking(anyOf=[{"type": "string"}, {"type": "number"}])),
        " string | number,\n",
        " any,\n",
    ),
    "nested-objects": Case(
        with_tools(taking(type="object", properties={"b": {"type": "string"}})),
        "    b?: string,\n    },\n",
        "b?: \n                string},\n",
    ),
    "call-header": Case(
        [USER, calling(), RESULT],
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
        " to=functions.f<|channel|>commentary json<|message|>",
    ),
    "call-arguments": Case([USER, calling('{"a": 1}'), RESULT], '{"a": 1}<|call|>', '"{\\"a\\"'),
    "several-calls": Case(
        [
            USER,
            {**calling(), "tool_calls": [*calling()["tool_calls"], *calling()["tool_calls"]]},
            RESULT,
        ],
        "assistant",
        "functions.f to=assistant",
    ),
    "tool-result": Case([USER, calling(), RESULT], "{}<|end|>", '"{}"<|end|>'),
    "preamble": Case(
        [USER, calling(content="I look."), RESULT],
        "commentary<|message|>I look.",
        "analysis<|message|>I look.",
    ),
    "preamble-and-reasoning": Case(
        [USER, calling(content="I look.", thinking="hm"), RESULT],
        "<|start|>system",
        problem="Cannot pass both content and thinking",
    ),
    "names-of-reasoning": Case(
        [USER, calling(reasoning_content="hm"), RESULT],
        "<|channel|>analysis<|message|>hm",
        " to=functions.f",
    ),
    "reasoning-alone": Case(
        [USER, {"role": "assistant", "content": "", "thinking": "hm"}, USER],
        "analysis<|message|>hm<|end|>",
        "final<|message|><|end|>",
    ),
    "empty-reasoning": Case(
        [USER, {**ANSWER, "thinking": ""}],
        "final<|message|>ho",
        "analysis<|message|><|end|>",
        training=True,
    ),
    "reasoning-before-calls": Case(
        [USER, calling(thinking="hm"), RESULT, ANSWER],
        "<|channel|>analysis<|message|>hm",
        " to=functions.f",
        training=True,
    ),
    "no-content": Case(
        [USER, {"role": "assistant", "content": None, "thinking": "hm"}, USER],
        "<|start|>system",
        problem="NoneType",
    ),
    "content-parts": Case(
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "<|start|>system",
        problem='can only concatenate str (not "list") to str',
    ),
    "spelled-tokens": Case(
        [{"role": "user", "content": "<|end|>"}],
        "<|end|><|end|><|start|>assistant",
        "<|end|><|end|><|start|>assistant",
    ),
}
"""The name of a difference and a chat that shows it. Some stand after another one."""

LATER = {"call-arguments", "several-calls", "tool-result"}


@pytest.mark.slow  # TRL brings PyTorch
@pytest.mark.parametrize("name", CASES)
def test_differences(name: str) -> None:
    case = CASES[name]
    template = hub_template()
    if name in LATER:  # written as harmony writes it, so that what comes after it can be seen
        header = '"<|start|>assistant to="'
        assert header in template
        template = template.replace(header, '"<|start|>assistant<|channel|>commentary to="')
        template = template.replace('"<|channel|>commentary " }}', '" <|constrain|>" }}')
    difference = find_template_difference(case.chat, template, date=DATE, training=case.training)
    assert difference is not None
    assert difference.harmony.startswith(case.harmony)
    assert difference.template.startswith(case.template)
    assert (difference.problem is None) == (case.problem is None)
    assert (case.problem or "") in (difference.problem or "")


def test_the_table_has_every_difference() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Differences from the chat template")[2]
    assert re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE) == list(CASES)


AGREED: dict[str, tuple[Any, bool]] = {
    "a question": ([USER], False),
    "a dialogue": ([USER, ANSWER, USER], False),
    "past reasoning": ([USER, {**ANSWER, "thinking": "hm"}, USER], False),
    "several turns to train on": ([USER, ANSWER, USER, {**ANSWER, "thinking": "hm"}], True),
    "effort": ({"messages": [USER], "reasoning_effort": "low"}, False),
    "a tool": (with_tools(taking(type="string", description="x")), False),
    "a tool without parameters": (with_tools(tool()), False),
}


@pytest.mark.slow  # TRL brings PyTorch
@pytest.mark.parametrize("name", AGREED)
def test_agreement(name: str) -> None:
    chat, training = AGREED[name]
    assert find_template_difference(chat, hub_template(), date=DATE, training=training) is None


@pytest.mark.slow  # TRL brings PyTorch
def test_a_difference_says_where_it_stands() -> None:
    difference = find_template_difference([SYSTEM, USER], hub_template(), date=DATE)
    assert difference is not None
    assert (difference.message, difference.kind.value if difference.kind else None) == (1, "body")
    end = find_template_difference([USER], hub_template() + "!", date=DATE)
    assert end is not None
    assert (end.message, end.kind, end.harmony, end.template) == (None, None, "", "!")


def test_our_own_template_agrees_on_calls() -> None:
    folder = Path(gpt_oss_harmony.__file__).parent / "data" / "demo_model"
    template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    variables = {"conversation_start_date": DATE}
    chats: list[Any] = [[SYSTEM, USER], with_tools(taking(type="string", enum=["x"], default="x"))]
    chats.append([USER, calling(content="I look.", reasoning="hm"), RESULT])
    # By the server's rule, the reasoning of the second turn goes as well; the reference keeps it.
    turns = [USER, calling(reasoning="hm"), RESULT, {**ANSWER, "thinking": "so"}]
    chats.append([*turns, USER, {**ANSWER, "reasoning": "hm"}, USER])
    chats.append([*turns, *turns[:3]])
    for chat in chats:
        difference = find_template_difference(chat, template, date=DATE, variables=variables)
        assert difference is None


def test_the_hubs_spellings_of_special_tokens_are_tokens() -> None:
    difference = find_template_difference([USER], "<|endofprompt|>", date=DATE)
    assert difference is not None
    assert difference.template == "<|reserved_200018|>"


class Tokenizer:
    def __init__(self, chat_template: Any) -> None:
        self.chat_template = chat_template


def test_templates_of_tokenizers() -> None:
    text = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    for chat_template in (text, {"default": text, "tool_use": "x"}):
        difference = find_template_difference([USER], Tokenizer(chat_template), date=DATE)
        assert difference is not None
        assert (difference.position, difference.template) == (0, "hi")
    with pytest.raises(ValueError, match="has no chat template"):
        find_template_difference([USER], Tokenizer(None), date=DATE)


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{% if true %}\nx\n{% endif %}\ny", "x\ny"),
        ("  {% if true %}\n  x\n  {% endif %}\ny", "  x\ny"),
        ("{% for n in [1, 2, 3] %}{% if n == 2 %}{% break %}{% endif %}{{ n }}{% endfor %}", "1"),
        ('{{ {"é": "<"} | tojson }}', '{"é": "<"}'),
        ('{{ {"a": 1} | tojson(indent=1) }}', '{\n "a": 1\n}'),
        ('{{ strftime_now("%d.%m.%Y") }}', "28.06.2025"),
    ],
)
def test_templates_are_read_as_by_transformers(template: str, rendered: str) -> None:
    difference = find_template_difference([USER], template, date=DATE)
    assert difference is not None
    assert (difference.position, difference.template) == (0, rendered)


def test_a_broken_template_says_why() -> None:
    difference = find_template_difference([USER], "{% if %}", date=DATE)
    assert difference is not None
    assert "Expected an expression" in (difference.problem or "")


def test_nothing_trainable() -> None:
    with pytest.raises(ConversationError, match="nothing to train on"):
        find_template_difference([USER], "", date=DATE, training=True)


@pytest.mark.slow  # TRL brings PyTorch
def test_options_are_those_of_the_rendering() -> None:
    options = TrainingOptions(header_style="reference")
    difference = find_template_difference(
        [USER, calling(), RESULT], hub_template(), date=DATE, options=options
    )
    assert difference is not None
    assert difference.harmony.startswith(" <|constrain|>json")
