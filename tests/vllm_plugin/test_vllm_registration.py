"""The plugin finds its place in vLLM, or leaves vLLM as it is and says why in one line."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpt_oss_harmony import Conversation, Role, load_harmony_encoding
from gpt_oss_harmony.errors import HarmonyError
from gpt_oss_harmony_vllm import register
from gpt_oss_harmony_vllm.parser import RecoveringParser
from gpt_oss_harmony_vllm.settings import Settings
from support import vllm_stand_in as vllm
from support.vllm_stand_in import Function, Request, Tool

ROOT = Path(__file__).parents[2]
PARSER, RENDERER = "vllm.parser.harmony", "vllm.renderers.online_renderer"
LOGGER = "vllm.plugins.harmony"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture
def modules(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> dict[str, ModuleType]:
    for name in ("PLUGIN", "GRAMMAR", "RENDERING", "SCHEMA_STEPS"):
        monkeypatch.delenv(f"HARMONY_VLLM_{name}", raising=False)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    caplog.set_level(logging.INFO, LOGGER)
    return vllm.installed(monkeypatch)


def is_ours(modules: dict[str, ModuleType]) -> bool:
    return issubclass(modules[PARSER].HarmonyParser, RecoveringParser)


def test_vllm_finds_the_plugin() -> None:
    project = (ROOT / "packages" / "vllm" / "pyproject.toml").read_text("utf-8")
    _, _, rest = project.partition('[project.entry-points."vllm.general_plugins"]\n')
    assert rest.startswith('harmony = "gpt_oss_harmony_vllm:register"\n')


def test_the_library_has_no_entry_point_of_another_program() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert "[project.entry-points" not in project
    assert not [*(ROOT / "src" / "gpt_oss_harmony").rglob("*vllm_plugin*")]


def test_the_library_never_imports_the_plugin_or_the_drop_in() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text("utf-8")
        names = "gpt_oss_harmony_vllm|gpt_oss_harmony_conformance|openai_harmony"
        assert not re.search(rf"^\s*(from|import) ({names})\b", text, re.MULTILINE), path


def test_the_parser_is_replaced_once(
    modules: dict[str, ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    register()
    ours = modules[PARSER].HarmonyParser
    initialize = modules[RENDERER].OnlineRenderer.__init__
    register()
    assert is_ours(modules)
    assert modules["vllm.parser"].HarmonyParser is modules[PARSER].HarmonyParser is ours
    assert modules[RENDERER].OnlineRenderer.__init__ is initialize
    assert not caplog.records
    modules[RENDERER].OnlineRenderer(None, "guidance")  # that of another model
    modules[RENDERER].OnlineRenderer(ours, "guidance")
    assert [r.getMessage() for r in caplog.records] == [
        "harmony: gpt-oss is parsed by gpt-oss-harmony"
    ]


@pytest.mark.parametrize(
    ("version", "works"),
    [
        *(("0.32.0", True), ("0.33.1", True), ("0.33.0rc1+cpu", True)),
        *(("0.31.9", False), ("0.34.0", False), ("1.0", False), ("dev", False)),
    ],
)
def test_other_versions_are_left_alone(
    modules: dict[str, ModuleType], version: str, works: bool, caplog: pytest.LogCaptureFixture
) -> None:
    modules["vllm"].__dict__["__version__"] = version
    register()
    assert is_ours(modules) == works
    assert len(caplog.records) == (not works)
    if not works:
        assert "the plugin is off" in caplog.text
        assert version in caplog.text


def test_the_rust_front_end_leaves_it_out(
    modules: dict[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    register()
    assert not is_ours(modules)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "VLLM_USE_RUST_FRONTEND" in record.getMessage()


def test_the_environment_turns_it_off(
    modules: dict[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HARMONY_VLLM_PLUGIN", "off")
    register()
    assert not is_ours(modules)
    assert "HARMONY_VLLM_PLUGIN=off" in caplog.text


@pytest.mark.parametrize("name", ["PLUGIN", "GRAMMAR", "RENDERING", "MENDING", "SCHEMA_STEPS"])
def test_a_wrong_setting_turns_it_off_and_names_the_right_ones(
    modules: dict[str, ModuleType],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(f"HARMONY_VLLM_{name}", "yes")
    register()
    assert not is_ours(modules)
    assert f"HARMONY_VLLM_{name}='yes': set it to " in caplog.text
    with pytest.raises(HarmonyError, match="set it to"):
        Settings.from_environment({f"HARMONY_VLLM_{name}": "yes"})


def test_vllm_starts_where_the_plugin_is_broken(
    modules: dict[str, ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    del modules[PARSER].__dict__["ChunkResult"]
    register()
    assert not is_ours(modules)
    assert "vLLM's own vllm.parser.harmony is used" in caplog.text


def test_vllm_starts_where_registering_fails(
    modules: dict[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("gpt_oss_harmony_vllm._users_of_own_parser", lambda: 1 / 0)
    register()
    assert not is_ours(modules)
    assert "harmony: the plugin is off: " in caplog.text


def test_a_late_registration_changes_a_parser_that_nobody_uses(
    modules: dict[str, ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    own = modules[PARSER].HarmonyParser  # imported by now, and held by nothing but vLLM's packages
    register()
    assert is_ours(modules)
    assert modules["vllm.parser"].HarmonyParser is not own
    assert not caplog.records


@pytest.mark.parametrize("user", ["a module", "a server"])
def test_a_late_registration_changes_nothing_where_the_parser_is_in_use(
    modules: dict[str, ModuleType],
    user: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = modules[PARSER].HarmonyParser
    if user == "a module":
        module = ModuleType("somebody.elses")
        module.__dict__["Parser"] = own
        monkeypatch.setitem(sys.modules, module.__name__, module)
    else:
        own.reasoning_parser_cls = object
    initialize = modules[RENDERER].OnlineRenderer.__init__
    register()
    assert modules[PARSER].HarmonyParser is modules["vllm.parser"].HarmonyParser is own
    assert modules[RENDERER].OnlineRenderer.__init__ is initialize
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    who = "somebody.elses" if user == "a module" else "a server that was started"
    assert f"already in use ({who}); register first" in record.getMessage()


def test_modules_are_changed_when_they_are_imported(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Most of vLLM's processes never import the parser, which takes seconds."""
    text = "from support.vllm_stand_in import *\n"
    text += "def make_tool_call_id(): return 'call_1'\n"
    (tmp_path / "harmony.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(modules["vllm.parser"], "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, PARSER)
    register()
    assert not is_ours(modules)  # the one that was not imported
    imported = importlib.import_module(PARSER)
    assert issubclass(imported.HarmonyParser, RecoveringParser)
    assert imported.__file__ == str(tmp_path / "harmony.py")
    assert PARSER not in [getattr(finder, "_name", None) for finder in sys.meta_path]


def test_a_renderer_tells_the_backend(modules: dict[str, ModuleType]) -> None:
    register()
    tools = [Tool(function=Function(name="now", parameters=SCHEMA))]
    for backend, is_constrained in (("guidance", True), ("xgrammar", False), (None, False)):
        renderer = modules[RENDERER].OnlineRenderer(modules[PARSER].HarmonyParser, backend)
        request = Request(tools=tools, tool_choice="required")
        renderer.adjust_harmony_request(request)
        assert request.structured_outputs is not None
        assert (request.structured_outputs.grammar is not None) == is_constrained


# Rendering

CHAT = Request(
    messages=[
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "4.", "reasoning": "Easy."},
        {"role": "user", "content": "And 3 + 3?"},
    ],
    tools=[Tool(function=Function(name="add", parameters=SCHEMA))],
    response_format={"type": "json_schema", "json_schema": {"name": "sum", "schema": SCHEMA}},
    reasoning_effort="high",
    cache_salt="salt",
)


@pytest.mark.parametrize("choice", ["harmony", "vllm"])
def test_a_setting_renders_by_our_mapping(
    modules: dict[str, ModuleType], choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARMONY_VLLM_RENDERING", choice)
    monkeypatch.setenv("VLLM_SYSTEM_START_DATE", "2025-06-28")
    register()
    renderer = modules[RENDERER].OnlineRenderer(modules[PARSER].HarmonyParser, "guidance")
    request = CHAT.model_copy()
    renderer.adjust_harmony_request(request)
    messages, (prompt,) = renderer._make_request_with_harmony(request, True)
    assert prompt["cache_salt"] == "salt"
    if choice == "vllm":
        assert messages == ["vLLM's own"]
        return
    text = load_harmony_encoding("HarmonyGptOss").decode(prompt["prompt_token_ids"])
    for part in ("Reasoning: high", "2025-06-28", "type add = (_: {", "## sum", "And 3 + 3?"):
        assert part in text
    assert "Easy." not in text
    assert text.endswith("<|start|>assistant")


def test_tools_can_be_left_out_of_the_prompt(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARMONY_VLLM_RENDERING", "harmony")
    register()
    renderer = modules[RENDERER].OnlineRenderer(modules[PARSER].HarmonyParser, "guidance")
    _, (prompt,) = renderer._make_request_with_harmony(CHAT.model_copy(), False)
    text = load_harmony_encoding("HarmonyGptOss").decode(prompt["prompt_token_ids"])
    assert "type add" not in text


def test_responses_are_rendered_too(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARMONY_VLLM_RENDERING", "harmony")
    register()
    renderer: Any = modules[RENDERER].OnlineRenderer(modules[PARSER].HarmonyParser, "guidance")
    text = {"format": {"type": "json_schema", "name": "sum", "schema": SCHEMA}}
    request = vllm.ResponsesRequest(
        input="2 + 2?", instructions="Be brief.", text=text, tools=[vllm.FlatTool(name="add")]
    )
    result = renderer._render_responses_with_harmony(request)
    assert result.engine_input["arrival_time"] > 0
    encoding = load_harmony_encoding("HarmonyGptOss")
    rendered = encoding.decode(result.engine_input["prompt_token_ids"])
    _, developer, _ = messages = [message.ours() for message in result.messages]
    assert encoding.decode(encoding.render(developer)) in rendered
    assert encoding.render_conversation_for_completion(
        Conversation.from_messages(messages), Role.ASSISTANT
    ) == list(result.engine_input["prompt_token_ids"])
    for part in ("Be brief.", "## sum", "type add = () => any;", "2 + 2?"):
        assert part in rendered
    later = vllm.ResponsesRequest(input="And 3 + 3?")
    own = renderer._render_responses_with_harmony(later, previous_messages=["earlier"])
    assert own == "vLLM's own"
