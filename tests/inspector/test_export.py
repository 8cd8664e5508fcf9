"""What the inspector gives away: JSON that reads again, vectors, and programs that run."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Conversation,
    HeaderStyle,
    Message,
    Role,
    SchemaDialect,
    TextContent,
    load_harmony_encoding,
)
from gpt_oss_harmony.errors import HarmonyError
from gpt_oss_harmony.inspector.export import PythonProgram, python_program, quoted
from gpt_oss_harmony.inspector.rendering import rendered_conversation
from gpt_oss_harmony.inspector.wire import RenderBody
from gpt_oss_harmony.sampled_messages import with_sampled_tokens
from support.examples import examples
from support.inspector_client import CHAT, HARMONY, HOSTILE, RESPONSE, call
from support.strategies import odd_messages, usual_messages
from support.training_conversations import any_letters, conversation, likely_letters

ENCODING = load_harmony_encoding("HarmonyGptOss")

NESTED: Any = True
for _ in range(70):
    NESTED = {"type": "object", "properties": {"a": NESTED}} if _ % 2 else {"items": NESTED}

SAMPLED = [*ENCODING.encode("<|channel|>final<|message|>", allowed_special="all"), 71, 72, 200002]

OPTIONS: dict[str, dict[str, Any]] = {
    "a prompt": {},
    "a prompt of the reference": {"reasoning": "reference", "header_style": "reference"},
    "a prompt with all": {"reasoning": "keep", "schema_dialect": "reference"},
    "an example": {"ending": "training"},
    "an example with all": {"ending": "training", "reasoning": "keep"},
    "an example of the reference": {"ending": "training", "reasoning": "reference"},
}

SOURCES: dict[str, dict[str, Any]] = {
    "a chat": CHAT,
    "a response": RESPONSE,
    "harmony": HARMONY,
    "two examples": conversation("stuacrfuaf").to_dict(),
    "hostile texts": {
        "messages": [
            *({"role": "user", "content": text} for text in HOSTILE),
            {"role": "user", "content": "'''\"\"\" \\n \\ {x} " * 9 + "\n'\n" * 9},
            {"role": "assistant", "reasoning": HOSTILE[0], "content": HOSTILE[1]},
        ]
    },
    "built-in tools": {
        "tools": [{"type": "web_search"}, {"type": "code_interpreter"}],
        "input": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hi"}],
    },
    "a deep schema": {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Hi"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": NESTED}}],
    },
    "sampled tokens": {
        "messages": [
            {"role": "user", "content": "?"},
            {
                "role": "assistant",
                "channel": "final",
                "content": ENCODING.decode(SAMPLED[3:-1]),
                "sampled_tokens": SAMPLED,
            },
            {"role": "user", "content": []},
            {"role": "tool", "name": "functions.f", "content": ["a", "b"]},
            {"role": "assistant", "channel": "final", "content": ["c", "d"]},
        ]
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_programs_print_what_the_page_shows(source: dict[str, Any]) -> None:
    """Run as their reader would run them: by an interpreter that knows nothing."""
    programs, rendered = [], []
    for options in OPTIONS.values():
        body = {"source": source, **options}
        exported = call("export", **body, format="python")
        assert exported["name"] == "conversation.py"
        programs.append(exported["text"])
        rendered.append(call("render", **body))
    run = "import json, sys\nfor text in json.load(sys.stdin):\n    names = {}\n"
    run += "    exec(compile(text, 'conversation.py', 'exec'), names)\n    print(names['tokens'])"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-W", "error", "-c", run],
        input=json.dumps(programs),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = "".join(f"{page['text']}\n{page['tokens']['ids']}\n" for page in rendered)
    assert done.stdout == expected.replace("\r\n", "\n").replace("\r", "\n")


def ran(program: str) -> tuple[list[int], str]:
    """Run a program here; return its tokens, and what it printed."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, "conversation.py", "exec"), names)
    return names["tokens"], printed.getvalue()


bodies = st.builds(
    lambda **options: RenderBody(source={}, **options),
    ending=st.sampled_from(["completion", "training"]),
    reasoning=st.sampled_from(["by-turn", "reference", "keep"]),
    header_style=st.sampled_from(get_args(HeaderStyle)),
    schema_dialect=st.sampled_from(get_args(SchemaDialect)),
    example=st.sampled_from([0, 0, 1]),
)
conversations = (any_letters | likely_letters).map(conversation) | st.lists(
    usual_messages() | odd_messages(), max_size=5
).map(Conversation.from_messages)


@settings(max_examples=examples(150))
@given(conversations, bodies)
def test_any_program_gives_the_same_tokens(said: Conversation, body: RenderBody) -> None:
    try:
        rendered = rendered_conversation(said, body)
        program = python_program(said, body)
    except HarmonyError:
        return  # it cannot be rendered, or there is no such example
    tokens, printed = ran(program)
    assert tokens == rendered.tokens
    assert printed == ENCODING.decode(tokens) + "\n"


def test_a_program_is_read_by_people() -> None:
    source = {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "reasoning": "hm", "content": "It's 4."},
        ]
    }
    assert call("export", source=source, format="python")["text"] == PROGRAM


PROGRAM = """\
from gpt_oss_harmony import (
    Conversation,
    Message,
    RenderConversationConfig,
    Role,
    SystemContent,
    load_harmony_encoding,
)
from gpt_oss_harmony.rendering.history import without_past_reasoning

conversation = Conversation.from_messages(
    [
        Message.from_role_and_content(Role.SYSTEM, SystemContent()),
        Message.from_role_and_content(Role.USER, "hi"),
        Message.from_role_and_content(Role.ASSISTANT, "hm").with_channel("analysis"),
        Message.from_role_and_content(Role.ASSISTANT, "It's 4.").with_channel("final"),
    ],
)
# Prompts leave out the reasoning of turns that have ended.
conversation = Conversation.from_messages(without_past_reasoning(conversation.messages))
encoding = load_harmony_encoding("HarmonyGptOss")
config = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
tokens = encoding.render_conversation_for_completion(conversation, Role.ASSISTANT, config)
print(encoding.decode(tokens))
"""

LONG = "a" * 40

VALUES: list[tuple[Any, str]] = [
    ([1, "a", None, 1.5], '[1, "a", None, 1.5]'),
    ({}, "{}"),
    (Role.USER, "Role.USER"),
    (TextContent(text="a"), 'TextContent(text="a")'),
    ([LONG, LONG], f'[\n    "{LONG}",\n    "{LONG}",\n]'),
    ({"a": f"{LONG}\n{LONG}\nb"}, f'{{\n    "a": (\n        "{LONG}\\n"\n        "{LONG}\\n"\n'
                                  '        "b"\n    ),\n}'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "source"), VALUES, ids=repr)
def test_values_are_laid_out(value: Any, source: str) -> None:
    assert PythonProgram().value(value) == source


def test_long_messages_are_laid_out() -> None:
    text = LONG[:30]
    said = Message.from_role_and_content(Role.ASSISTANT, text).with_channel("final")
    program = python_program(Conversation(messages=[said, said]), RenderBody(source={}))
    assert f'(Role.ASSISTANT, "{text}")\n        .with_channel("final"),\n' in program
    assert max(map(len, program.partition("encoding = ")[0].splitlines())) <= 88


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(plain.filter(lambda value: "inf" not in repr(value)))
def test_what_is_laid_out_says_the_same(value: Any) -> None:
    assert eval(PythonProgram().value(value), {"json": json}) == value


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_texts_are_quoted(text: str) -> None:
    assert eval(quoted(text)) == text
    assert quoted(text).isprintable()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_vectors_say_what_was_rendered(source: dict[str, Any], options: dict[str, Any]) -> None:
    exported = call("export", source=source, **options, format="vector")
    assert exported["name"] == "vector.json"
    vector = json.loads(exported["text"])
    answer = call("render", source=source, **options)
    assert vector["tokens"] == answer["tokens"]["ids"]
    assert vector["text"] == answer["text"]
    assert vector["conversation"] == answer["conversation"]
    again = call("render", source=vector["conversation"], form="harmony", **vector["options"])
    assert again["tokens"] == answer["tokens"]
    assert len(exported["text"].splitlines()) >= 6


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_json_is_the_conversation(source: dict[str, Any]) -> None:
    exported = call("export", source=source, format="json")
    assert exported["name"] == "conversation.json"
    answer = call("render", source=source)["conversation"]
    assert json.loads(exported["text"]) == answer
    if "🏳️‍🌈" not in exported["text"]:
        return
    assert "日本語" in exported["text"]


def test_sampled_messages_are_built_with_their_tokens() -> None:
    messages = ENCODING.parse_messages_from_completion_tokens(SAMPLED, Role.ASSISTANT)
    said: list[Message] = with_sampled_tokens(ENCODING, messages, SAMPLED, [len(SAMPLED)])
    program = python_program(Conversation(messages=said), RenderBody(source={}))
    assert "SampledMessage.of(" in program
    tokens, _ = ran(program)
    assert tokens[2:-3] == SAMPLED[:-1]
