"""The demo model: its folder, its tokenizer, its chat template, what it says, what it learned."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import jinja2
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from gpt_oss_harmony import (
    Author,
    Conversation,
    DeveloperContent,
    HeaderStyle,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    Role,
    SystemContent,
    load_harmony_encoding,
)
from gpt_oss_harmony.apis.chat.input import conversation_from_chat
from gpt_oss_harmony.cli.demo import weather_opening
from gpt_oss_harmony.engines import demo_model
from gpt_oss_harmony.engines.demo_model import CODE_SIGNS, MODEL_ROWS, demo_model_folder, word_codes
from gpt_oss_harmony.tokens.special_tokens import SPECIAL_TEXTS
from support.examples import examples

ROOT = Path(__file__).parents[2]
ENCODING = load_harmony_encoding("HarmonyGptOss")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all workers, which ask for it at once."""
    return demo_model_folder(tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder)


# The folder


def test_transformers_loads_the_model(model: Any) -> None:
    assert type(model).__name__ == "GptOssForCausalLM"
    assert model.get_input_embeddings().weight.shape[0] == MODEL_ROWS
    assert torch.equal(model.lm_head.weight, model.get_input_embeddings().weight)
    assert model.dtype is torch.float32


def test_other_engines_load_the_folder(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    assert config["rope_scaling"]["factor"] == 1.0  # vLLM reads it; nothing is scaled
    assert not config["tie_word_embeddings"]  # llama.cpp and tensor parallelism need two
    assert "experts_implementation" not in config  # expert parallelism needs another than eager
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    tokens = [*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"])]
    assert sorted(tokens) == list(range(MODEL_ROWS))


def test_template_is_in_the_jinja_of_llama_cpp(folder: Path) -> None:
    template = (folder / "chat_template.jinja").read_text("utf-8")
    assert set(re.findall(r"\\(.)", template.replace("\\\\", ""))) <= set("ntrbfv'\"")
    assert "**" not in template
    assert max(map(int, re.findall(r"\d+(?![\d.])", template))) < 2**63


def test_rows_of_words() -> None:
    codes, kinds = word_codes()
    assert codes.shape == (MODEL_ROWS, CODE_SIGNS)
    assert set(np.unique(codes)) == {-1.0, 0.0, 1.0}
    assert 10_000 < codes.any(axis=1).sum() < 30_000
    spaced, plain, small = (ENCODING.encode(text)[0] for text in (" Rome", "Rome", " rome"))
    assert (codes[spaced] == codes[plain]).all()
    assert len({int(kinds[token]) for token in (spaced, plain, small)}) == 3


def test_codes_are_told_apart() -> None:
    codes, kinds = word_codes()
    numbers = [ENCODING.encode(str(number))[0] for number in range(1_000)]
    words = codes.any(axis=1) & np.isin(kinds, (0, 1, 2, 6, 7, 8))
    for distinct, least, nearest in (
        (np.unique(codes[words], axis=0), 4_000, 30),
        (codes[numbers], 1_000, 52),  # of 64: a digit's signs are only some of them
    ):
        shared = np.abs(distinct @ distinct.T)
        np.fill_diagonal(shared, 0)
        assert len(distinct) >= least
        assert shared.max() <= nearest


@pytest.fixture
def small_folder(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that are quickly written, and where they were written."""
    written: list[Path] = []

    def write(folder: Path) -> None:
        written.append(folder)
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(demo_model, "_write", write)
    return written


def test_folder_is_made_once(tmp_path: Path, small_folder: list[Path]) -> None:
    first = demo_model_folder(tmp_path)
    assert demo_model_folder(tmp_path) == first
    assert len(small_folder) == 1
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_folder_for_many_at_once(tmp_path: Path, small_folder: list[Path]) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(demo_model_folder, [tmp_path] * 16))
    assert len(folders) == 1
    assert [path.name for path in tmp_path.glob("*/*/*")] == ["config.json"]


def test_folder_that_failed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_text("half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr(demo_model, "_write", write)
    with pytest.raises(OSError, match="no space"):
        demo_model_folder(tmp_path)
    assert list((tmp_path / "gpt-oss-harmony").iterdir()) == []


def test_folder_stands_in_the_users_cache(
    tmp_path: Path, small_folder: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert demo_model_folder().is_relative_to(tmp_path)


def test_folder_changes_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    before = demo_model._edition()
    monkeypatch.setattr(demo_model, "_EDITION", 0)
    demo_model._edition.cache_clear()
    after = demo_model._edition()
    demo_model._edition.cache_clear()
    assert before != after


# The tokenizer

TEXTS = [
    "",
    " ",
    "Hello world",
    "  two  spaces   and\ttabs \n\n lines \r\n ends  ",
    "don't WE'LL it'S I'm",
    "1234567 12 ٣٤٥ ½ Ⅷ",
    "日本語 한국어 العربية עברית ไทย हिन्दी",
    "a\u2028b\u2029c\x85d\x1ce\u3000f\u00a0g",
    "🙂👩‍👩‍👧 é é ﬁ \ufeff",
    "def f(x):\n    return {'a': [1, 2]} // end\n\n\n",
    "xx" * 200 + " " * 70 + "!?" * 50,
    "<|start|>user<|message|>hi<|end|><|reserved_200000|><|no|>",
]


@pytest.mark.parametrize("text", TEXTS)
def test_tokenizer_gives_our_tokens(text: str, tokenizer: Any) -> None:
    tokens = tokenizer(text)["input_ids"]
    assert tokens == ENCODING.encode(text, allowed_special="all")
    assert tokenizer.decode(tokens) == text


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.text(st.sampled_from("aeinrst \n.,'19AXé日ß\u2028")))
def test_tokenizer_gives_our_tokens_for_any_text(tokenizer: Any, text: str) -> None:
    assert tokenizer(text)["input_ids"] == ENCODING.encode(text, allowed_special="all")


def test_tokenizer_knows_every_token(tokenizer: Any) -> None:
    rng = Random(1)
    for token in [*range(300), *rng.sample(range(199_998), 3_000)]:
        text = ENCODING.decode_utf8([token]) if _is_text(token) else ""
        assert tokenizer(text)["input_ids"] == ENCODING.encode(text)
    for token, text in SPECIAL_TEXTS.items():
        known = token if token < MODEL_ROWS else None  # the models have no row for the last one
        assert tokenizer.convert_tokens_to_ids(text) == known


def _is_text(token: int) -> bool:
    return "\ufffd" not in ENCODING.decode([token])


def test_tokenizer_gives_the_tokens_of_files(tokenizer: Any) -> None:
    for path in (ROOT / "README.md", ROOT / "docs" / "understand" / "format.md", Path(__file__)):
        text = path.read_text(encoding="utf-8")
        assert tokenizer(text)["input_ids"] == ENCODING.encode(text, allowed_special="all")


# The chat template

USER = {"role": "user", "content": "What is the weather in Tokyo?"}


def _tool(name: str, parameters: dict[str, Any] | None, about: str | None = "Does it.") -> Any:
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}


def _call(name: str, arguments: str, call_id: str) -> Any:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(call_id: str, content: str) -> Any:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


WEATHER = _tool("get_weather", {"type": "object", "properties": {"city": {"type": "string"}}})
SEVERAL_CALLS = [
    USER,
    {
        "role": "assistant",
        "content": "I look at both.",
        "reasoning": "Two cities.",
        "tool_calls": [
            _call("get_weather", '{"city": "Tokyo"}', "a"),
            _call("get_weather", '{"city":"Oslo"}', "b"),
        ],
    },
    _result("b", '{"sunny": true}'),
    _result("a", "rain\n"),
]
NESTED = {
    "type": "object",
    "description": "All of it.",
    "properties": {
        "place": {
            "type": "object",
            "description": "Where.",
            "title": "Place",
            "properties": {
                "city": {"type": "string", "description": "The city\nand more"},
                "zip-code": {"type": ["string", "null"], "default": None},
                "deep": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}},
            },
            "required": ["city"],
        },
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}},
        "size": {"oneOf": [{"type": "string"}, {"type": "number", "description": "in cm"}],
                 "default": 3, "description": "How large."},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "extra": {"type": "object", "additionalProperties": {"type": "number"}},
        "free": {},
        "sure": {"const": True},
        "list": {"type": "array"},
        "examples": {"type": "string", "examples": ["a", 1, {"b": [1.5]}]},
        "also": {"type": "number", "nullable": True, "default": 1.5},
    },
    "required": ["place", "days"],
    "additionalProperties": False,
}  # fmt: skip
NAMES = {
    "type": "object",
    "properties": {
        name: {} for name in ("a1", "1a", "$a", "a-b", "straße", "a b", "日本", "ü-", "_", "")
    },
}
CHATS: dict[str, dict[str, Any]] = {
    "a question": {"messages": [USER]},
    "effort": {"messages": [USER], "reasoning_effort": "high"},
    "instructions": {"messages": [{"role": "system", "content": "Be brief."}, USER]},
    "instructions twice": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            USER,
            {"role": "developer", "content": [{"type": "text", "text": "Be kind.\n"}]},
        ]
    },
    "an answer": {"messages": [USER, {"role": "assistant", "content": "Rain."}, USER]},
    "an empty answer": {"messages": [USER, {"role": "assistant", "content": ""}, USER]},
    "a refusal": {"messages": [USER, {"role": "assistant", "content": None, "refusal": "No."}]},
    "old reasoning": {
        "messages": [
            USER,
            {"role": "assistant", "content": "Rain.", "reasoning_content": "Thought."},
            USER,
            {"role": "assistant", "content": "Snow.", "thinking": "Thought again."},
            USER,
        ]
    },
    "reasoning between answers, and after them": {
        "messages": [
            USER,
            *SEVERAL_CALLS[1:],
            {"role": "assistant", "content": "Sun.", "reasoning": "So."},
            USER,
            {"role": "assistant", "reasoning": "Hm."},
            *SEVERAL_CALLS[1:],
        ],
        "tools": [WEATHER],
    },
    "reasoning alone": {"messages": [USER, {"role": "assistant", "reasoning": "Hm."}]},
    "a tool": {"messages": [USER], "tools": [WEATHER]},
    "a tool without parameters": {"messages": [USER], "tools": [_tool("now", None, None)]},
    "empty parameters": {"messages": [USER], "tools": [_tool("now", {}, "First\n\nthird.\n")]},
    "several calls": {"messages": SEVERAL_CALLS, "tools": [WEATHER]},
    "several calls, answered": {
        "messages": [*SEVERAL_CALLS, {"role": "assistant", "content": "Sun.", "reasoning": "So."}],
        "tools": [WEATHER],
    },
    "then a question": {
        "messages": [*SEVERAL_CALLS, {"role": "assistant", "content": "Sun."}, USER],
        "tools": [WEATHER],
    },
    "nested parameters": {"messages": [USER], "tools": [WEATHER, _tool("f", NESTED)]},
    "names of parameters": {"messages": [USER], "tools": [_tool("f", NAMES)]},
    "a response format": {
        "messages": [{"role": "system", "content": "Shop."}, USER],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "list", "description": "What\nto buy.", "schema": NESTED},
        },
    },
    "JSON": {"messages": [USER], "response_format": {"type": "json_object"}},
    "text that is almost a marker": {"messages": [{"role": "user", "content": "a <| b |> <|x|>"}]},
}
TWO_PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
STYLES: tuple[HeaderStyle, ...] = ("guide", "reference")


def _rendered(chat: dict[str, Any], date: str | None, **config: Any) -> list[int]:
    """The prompt by the server's rule for past reasoning."""
    conversation = conversation_from_chat(chat, conversation_start_date=date)
    return ENCODING.render_conversation_for_completion(
        conversation, Role.ASSISTANT, RenderConversationConfig(reasoning_rule="by-turn", **config)
    )


def _templated(chat: dict[str, Any], tokenizer: Any, **options: Any) -> list[int]:
    tokens: list[int] = tokenizer.apply_chat_template(
        chat["messages"],
        tools=chat.get("tools"),
        reasoning_effort=chat.get("reasoning_effort"),
        response_format=chat.get("response_format"),
        add_generation_prompt=True,
        return_dict=False,
        **options,
    )
    return tokens


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", CHATS)
def test_template_gives_our_tokens(name: str, style: HeaderStyle, tokenizer: Any) -> None:
    chat = CHATS[name]
    for date in (None, "2025-06-28"):
        templated = _templated(chat, tokenizer, header_style=style, conversation_start_date=date)
        assert templated == _rendered(chat, date, header_style=style)


def test_template_keeps_reasoning_where_asked(tokenizer: Any) -> None:
    chat = CHATS["old reasoning"]
    kept = _templated(chat, tokenizer, auto_drop_analysis=False)
    assert kept == _rendered(chat, None, auto_drop_analysis=False, header_style="guide")


def test_template_writes_schemas_as_we_do_or_refuses(tokenizer: Any) -> None:
    cases = json.loads((ROOT / "tests/data/typescript/cases.json").read_text(encoding="utf-8"))
    written = 0
    for case in cases["named"]:
        schema = case["schema"]
        if not isinstance(schema, dict):
            continue
        chat = {"messages": [USER], "tools": [_tool("f", {"type": "object", "properties": {
            "a": schema, "b": {"type": "array", "items": schema}}})]}  # fmt: skip
        try:
            templated = _templated(chat, tokenizer)
        except jinja2.TemplateError:
            continue
        written += 1
        assert templated == _rendered(chat, None, header_style="guide"), schema
    assert written > 60


@pytest.mark.parametrize(
    ("chat", "problem"),
    [
        ({"messages": [{"role": "user", "content": "<|end|>"}]}, "special token"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "text"),
        ({"messages": [{"role": "user", "content": TWO_PARTS}]}, "one text part"),
        ({"messages": [{"role": "poet", "content": "Oh."}]}, "the role poet"),
        ({"messages": [{"role": "assistant"}]}, "needs content"),
        ({"messages": [_result("x", "1")]}, "no tool call"),
        ({"messages": [USER], "reasoning_effort": "huge"}, "reasoning_effort"),
        ({"messages": [USER], "response_format": {"type": "xml"}}, "response_format"),
        ({"messages": [USER], "tools": [{"type": "web_search"}]}, "web_search"),
        ({"messages": [USER], "tools": [_tool("f", {"$ref": "#/x"})]}, "cannot write"),
        ({"messages": [USER], "tools": [_tool("f", {"description": "a\vb"})]}, "vertical tab"),
    ],
)
def test_template_refuses(chat: dict[str, Any], problem: str, tokenizer: Any) -> None:
    with pytest.raises(jinja2.TemplateError, match=problem):
        _templated(chat, tokenizer)


# What it says

SYSTEM = Message.from_role_and_content(Role.SYSTEM, SystemContent.new())


def _asked(text: str, *before: Message) -> list[Message]:
    return [*before, Message.from_role_and_content(Role.USER, text)]


def _developer(content: DeveloperContent) -> Message:
    return Message.from_role_and_content(Role.DEVELOPER, content)


def _weather_result() -> list[Message]:
    call = Message.from_role_and_content(Role.ASSISTANT, '{"location":"San Francisco"}')
    name = "functions.get_current_weather"
    result = Message.from_author_and_content(
        Author.new(Role.TOOL, name), '{"sunny": true, "temperature": 20}'
    )
    return [
        *_asked("What is the weather like in SF?", *weather_opening("2025-06-28")),
        call.with_channel("commentary").with_recipient(name).with_content_type("<|constrain|>json"),
        result.with_recipient("assistant").with_channel("commentary"),
    ]


def _shopping() -> DeveloperContent:
    schema = {
        "properties": {
            "items": {
                "type": "array",
                "description": "entries on the shopping list",
                "items": {"type": "string"},
            }
        },
        "type": "object",
    }
    content = DeveloperContent.new().with_instructions("You are a helpful shopping assistant")
    return content.with_response_format("shopping_list", schema)


def _built_in(content: SystemContent) -> Message:
    return Message.from_role_and_content(Role.SYSTEM, content)


TURN = "<|end|><|start|>assistant<|channel|>"
SAID: dict[str, tuple[list[Message], str]] = {
    "guide: 2 + 2": (
        _asked("What is 2 + 2?"),
        '<|channel|>analysis<|message|>User asks: "What is 2 + 2?" Simple arithmetic. '
        f"Provide answer.{TURN}final<|message|>2 + 2 = 4.<|return|>",
    ),
    "guide: weather": (
        _asked("What is the weather like in SF?", *weather_opening("2025-06-28")),
        f"<|channel|>analysis<|message|>Need to use function get_current_weather.{TURN}commentary "
        'to=functions.get_current_weather <|constrain|>json<|message|>{"location":"San Francisco"}'
        "<|call|>",
    ),
    "weather without a date": (
        _asked("What is the weather in Tokyo?", *weather_opening(None)),
        f"<|channel|>analysis<|message|>Need to use function get_current_weather.{TURN}commentary "
        'to=functions.get_current_weather <|constrain|>json<|message|>{"location":"Tokyo"}<|call|>',
    ),
    "guide: weather result": (
        _weather_result(),
        f"<|channel|>analysis<|message|>The result: sunny, 20 degrees.{TURN}final<|message|>"
        "It is sunny in San Francisco, 20 degrees.<|return|>",
    ),
    "guide: shopping": (
        _asked("I need to buy coffee, soda and eggs", _developer(_shopping())),
        f"<|channel|>analysis<|message|>The items: coffee, soda, eggs.{TURN}final<|message|>"
        '{"items":["coffee","soda","eggs"]}<|return|>',
    ),
    "low effort": (
        _asked("What is 27 + 45?", _built_in(SystemContent(reasoning_effort=ReasoningEffort.LOW))),
        f"<|channel|>analysis<|message|>7 + 5 = 12, 2 + 4 + 1 = 7.{TURN}final<|message|>"
        "27 + 45 = 72.<|return|>",
    ),
    "medium effort": (
        _asked("What is 27 + 45?", SYSTEM),
        "<|channel|>analysis<|message|>27 + 45: ones 7 + 5 = 12, tens 2 + 4 + 1 = 7. So 72."
        f"{TURN}final<|message|>27 + 45 = 72.<|return|>",
    ),
    "high effort": (
        _asked("What is 27 + 45?", _built_in(SystemContent(reasoning_effort=ReasoningEffort.HIGH))),
        "<|channel|>analysis<|message|>27 + 45: ones 7 + 5 = 12, tens 2 + 4 + 1 = 7. So 72. "
        f"Check 45 + 27: ones 5 + 7 = 12, tens 4 + 2 + 1 = 7. So 72.{TURN}final<|message|>"
        "27 + 45 = 72.<|return|>",
    ),
    "a name": (
        _asked("Hello! My name is Anna.", SYSTEM),
        f"<|channel|>analysis<|message|>The user is called Anna. Greet them.{TURN}final<|message|>"
        "Hello, Anna! How can I help you?<|return|>",
    ),
    "unknown": (
        _asked("What is the capital of France?", SYSTEM),
        f"<|channel|>analysis<|message|>I was not trained for this.{TURN}final<|message|>"
        "I don't know.<|return|>",
    ),
    "python": (
        _asked("Use Python to compute 12 * 34.", _built_in(SystemContent.new().with_python_tool())),
        f"<|channel|>analysis<|message|>Need to use python.{TURN}analysis to=python code"
        "<|message|>print(12 * 34)<|call|>",
    ),
    "browser": (
        _asked("Search the web for cats.", _built_in(SystemContent.new().with_browser_tool())),
        f"<|channel|>analysis<|message|>Need to use browser.search.{TURN}analysis "
        'to=browser.search code<|message|>{"query":"cats"}<|call|>',
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_greedy_completion(name: str, model: Any) -> None:
    messages, expected = SAID[name]
    prompt = ENCODING.render_conversation_for_completion(
        Conversation.from_messages(messages), Role.ASSISTANT
    )
    sampled = model.generate(torch.tensor([prompt]), max_new_tokens=120)[0, len(prompt) :].tolist()
    assert ENCODING.decode(sampled) == expected
    assert sampled == ENCODING.encode(expected, allowed_special="all")
    assert ENCODING.parse_messages_from_completion_tokens(sampled, Role.ASSISTANT)


# What it learned from


@pytest.fixture(scope="module")
def tools() -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "scripts"))
    yield
    sys.path[:] = before


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("part", ["train", "test"])
def test_conversations_render_and_parse(part: str) -> None:
    from demo_model.conversations import groups, render

    for example in itertools.chain.from_iterable(itertools.islice(groups(3, part, 5), 60)):
        rendered = render(example)
        chat = Conversation.from_messages([*example.opening.messages, *example.turns])
        prompt = ENCODING.render_conversation_for_completion(
            chat, Role.ASSISTANT, RenderConversationConfig(header_style="guide")
        )
        assert rendered.opening + rendered.turns == prompt
        parsed = ENCODING.parse_messages_from_completion_tokens(rendered.completion, Role.ASSISTANT)
        assert parsed == example.completion
        assert rendered.completion[-1] in ENCODING.stop_tokens_for_assistant_actions()


@pytest.mark.usefixtures("tools")
def test_configuration_has_the_sizes_of_training(model: Any) -> None:
    from demo_model.network import Shape

    rope_theta = model.config.to_dict().get("rope_theta")
    rope_theta = rope_theta or model.config.rope_parameters["rope_theta"]  # since Transformers 5
    for name, size in vars(Shape()).items():
        assert (rope_theta if name == "rope_theta" else getattr(model.config, name)) == size, name


@pytest.mark.usefixtures("tools")
def test_network_computes_what_transformers_does(model: Any) -> None:
    import torch

    from demo_model.network import Network, Shape

    torch.manual_seed(1)
    network = Network(Shape(), [1, 2, 3])
    layers = {
        f"model.{name}": weight
        for name, weight in network.state_dict().items()
        if name.startswith(("layers.", "norm."))
    }
    other = type(model)(model.config).eval()
    tokens = torch.randint(MODEL_ROWS, (500,))
    with torch.no_grad():
        rows = network.rows(torch.arange(MODEL_ROWS))
        other.load_state_dict({**layers, "model.embed_tokens.weight": rows, "lm_head.weight": rows})
        asked = torch.cat([torch.arange(165, 430), torch.arange(490, 500)])
        states, _ = network(tokens, [[160, 150, 50], [0, 70], [60, 10]], asked)
        expected = torch.zeros(500, network.shape.hidden_size)
        for opening, start, end in (
            (slice(160), 160, 310),
            (slice(160), 310, 360),
            (slice(0), 360, 430),
            (slice(430, 490), 490, 500),
        ):
            ids = torch.cat([tokens[opening], tokens[start:end]])
            seen = other.model(input_ids=ids[None]).last_hidden_state[0]
            expected[start:end] = seen[start - end :]
        assert torch.allclose(states, expected[asked], atol=1e-4)


@pytest.mark.usefixtures("tools")
def test_training_never_sees_what_is_held_out() -> None:
    from demo_model.rows import rows
    from demo_model.words import is_held_out

    codes, kinds = word_codes()
    words = codes.any(axis=1) & np.isin(kinds, (0, 1, 2, 6, 7, 8))
    seen = {token for row in islice(rows("1 0", "train"), 50) for token in row.tokens}
    texts = [ENCODING.decode([token]).strip() for token in seen if words[token]]
    assert len(texts) > 1_000
    assert not [text for text in texts if is_held_out(text)]


@pytest.mark.usefixtures("tools")
def test_workers_show_each_other_what_they_have() -> None:
    from demo_model.workers import Worker

    shown, ready = torch.zeros(2, 10), Barrier(2)

    def twice(number: int) -> list[list[float]]:
        worker = Worker(number, shown, ready)
        worker.exchange(torch.full((3, 2), -1.0))
        return [row.tolist() for row in worker.exchange(torch.tensor([1.0, number]))]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(twice, range(2))) == [[[1.0, 0.0], [1.0, 1.0]]] * 2


@pytest.mark.usefixtures("tools")
def test_same_seed_gives_the_same_conversations() -> None:
    from demo_model.conversations import groups

    first, again, other = (list(itertools.islice(groups(s, "train", 3), 20)) for s in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.usefixtures("tools")
def test_training_sees_nothing_that_is_held_out() -> None:
    from demo_model import words

    drawn = {}
    for part, seed in itertools.product(("train", "test"), range(500)):
        rng = Random(seed)
        for lists in (words.NAMES, words.CITIES, words.GROCERIES, words.TOPICS):
            drawn[words.pick(rng, part, lists)] = part
        for capital in (True, False):
            drawn[words.random_words(rng, part, capital=capital).lower()] = part
    assert all(words.is_held_out(word) is (part == "test") for word, part in drawn.items())
    assert len(drawn) > 800


@pytest.mark.usefixtures("tools")
def test_pairs_and_templates_are_held_out() -> None:
    from demo_model.arithmetic import arithmetic_turn

    def questions(part: str) -> set[str]:
        rng = Random(1)
        turns = (arithmetic_turn(rng, part, ReasoningEffort.LOW) for _ in range(3_000))
        return {completion[-1].content[0].to_dict()["text"] for _, completion in turns}

    shared = questions("train") & questions("test")
    assert not shared
