"""The public surface: that of the reference, what the documentation promises, and the layers."""

from __future__ import annotations

import base64
import copy
import enum
import hashlib
import inspect
import json
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

import pydantic
import pytest

import gpt_oss_harmony
from gpt_oss_harmony import (
    Author,
    ChannelConfig,
    Conversation,
    ConversationError,
    DeveloperContent,
    HarmonyEncodingName,
    HarmonyError,
    Message,
    ReasoningEffort,
    Recovery,
    RecoveryKind,
    RenderConversationConfig,
    RenderOptions,
    ResponseFormat,
    Role,
    SchemaError,
    StreamableParser,
    StreamState,
    SystemContent,
    TextContent,
    TokenError,
    ToolDescription,
    ToolNamespaceConfig,
    VocabularyError,
    load_harmony_encoding,
)
from gpt_oss_harmony.tokens import special_tokens, vocabulary

ENCODING = load_harmony_encoding("HarmonyGptOss")
PACKAGE = Path(gpt_oss_harmony.__file__).parent
REFERENCE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "reference_api.json").read_text(encoding="utf-8")
)

# The surface of the reference (openai-harmony 0.0.8), recorded by introspection. Ours may add
# names, fields with defaults, and parameters with defaults.

CLASSES: dict[str, dict[str, Any]] = REFERENCE["classes"]
NOT_PUBLIC = {"raise_disallowed_special_token"}  # a helper of its own that it does not document


def methods() -> list[tuple[str, str]]:
    return [(name, method) for name, each in CLASSES.items() for method in each.get("methods", ())]


def parameters_of(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def assert_takes(function: Any, expected: list[dict[str, Any]]) -> None:
    ours = [p for p in parameters_of(function) if p.name != "self"]
    for at, parameter in enumerate(expected):
        mine = ours[at]
        assert mine.name == parameter["name"]
        assert mine.kind.name.lower() == parameter["kind"]
        assert (mine.default is not mine.empty) == parameter["default"]
    for added in ours[len(expected) :]:
        assert added.default is not added.empty


def test_names_of_the_reference() -> None:
    for name in {*REFERENCE["all"], *CLASSES, *REFERENCE["functions"]} - NOT_PUBLIC:
        assert name in gpt_oss_harmony.__all__


@pytest.mark.parametrize("name", CLASSES)
def test_kinds_of_classes(name: str) -> None:
    bases = [base.__name__ for base in getattr(gpt_oss_harmony, name).__mro__]
    assert set(CLASSES[name]["bases"]) <= set(bases)


@pytest.mark.parametrize("name", [name for name in CLASSES if "values" in CLASSES[name]])
def test_values_of_enumerations(name: str) -> None:
    ours: type[enum.Enum] = getattr(gpt_oss_harmony, name)
    assert {member.name: member.value for member in ours} == CLASSES[name]["values"]


@pytest.mark.parametrize("name", [name for name in CLASSES if "fields" in CLASSES[name]])
def test_fields_of_models(name: str) -> None:
    model: type[pydantic.BaseModel] = getattr(gpt_oss_harmony, name)
    expected = CLASSES[name]["fields"]
    assert list(model.model_fields)[: len(expected)] == list(expected)
    for field, info in model.model_fields.items():
        assert info.is_required() == expected.get(field, {"required": False})["required"]
        if field in expected and not info.is_required():
            default = info.get_default(call_default_factory=True)
            plain = pydantic.TypeAdapter(Any).dump_python(default, mode="json")
            assert plain == expected[field]["default"]


@pytest.mark.parametrize(("name", "method"), methods())
def test_methods(name: str, method: str) -> None:
    ours: type = getattr(gpt_oss_harmony, name)
    expected = CLASSES[name]["methods"][method]
    function = getattr(ours, method)
    is_unbound = expected["type"] == "method"
    assert inspect.isfunction(inspect.getattr_static(ours, method)) == is_unbound
    if (name, method) != ("HarmonyEncoding", "__init__"):  # it is made by load_harmony_encoding
        assert_takes(function, expected["parameters"])


def test_functions() -> None:
    for name in REFERENCE["functions"].keys() - NOT_PUBLIC:
        assert_takes(getattr(gpt_oss_harmony, name), REFERENCE["functions"][name])


@pytest.mark.parametrize("name", [name for name in CLASSES if "properties" in CLASSES[name]])
def test_properties(name: str) -> None:
    made = {"HarmonyEncoding": ENCODING, "StreamableParser": StreamableParser(ENCODING, None)}
    for attribute in CLASSES[name]["properties"]:
        assert not callable(getattr(made[name], attribute))


def test_the_surface_is_complete_and_sorted() -> None:
    names = gpt_oss_harmony.__all__
    assert names == sorted(names, key=lambda name: (name[0].islower(), name))
    assert len(set(names)) == len(names)
    ours = {
        name
        for name, value in vars(gpt_oss_harmony).items()
        if getattr(value, "__module__", "").startswith("gpt_oss_harmony.")
    }
    assert {name for name in ours if not name.startswith("_")} <= set(names)
    assert not [name for name in names if not hasattr(gpt_oss_harmony, name)]


def test_everything_public_says_what_it_is() -> None:
    for name in gpt_oss_harmony.__all__:
        value = getattr(gpt_oss_harmony, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert (value.__doc__ or "").strip(), name
    for name in ("Message", "HarmonyEncoding", "StreamableParser", "DeveloperContent"):
        for attribute, value in vars(getattr(gpt_oss_harmony, name)).items():
            if not attribute.startswith("_") and callable(value):
                assert inspect.getdoc(value), f"{name}.{attribute}"


# Messages and contents


def a_message() -> Message:
    return Message.from_role_and_content(Role.USER, "Hi")


def test_fluent_helpers_of_a_message_change_it_and_return_it() -> None:
    message = a_message()
    assert message.with_channel("c") is message
    assert message.with_recipient("r") is message
    assert message.with_content_type("t") is message
    assert message.adding_content("Ho") is message
    assert message.adding_content(TextContent(text="!")) is message
    assert (message.channel, message.recipient, message.content_type) == ("c", "r", "t")
    assert message.content == [TextContent(text=text) for text in ("Hi", "Ho", "!")]


def test_fluent_helpers_of_a_system_content_change_it_and_return_it() -> None:
    content = SystemContent.new()
    assert content.with_model_identity("i") is content
    assert content.with_reasoning_effort(ReasoningEffort.LOW) is content
    assert content.with_conversation_start_date("d") is content
    assert content.with_knowledge_cutoff("k") is content
    assert content.with_channel_config(ChannelConfig.require_channels(["x"])) is content
    assert content.with_required_channels(["a"]) is content
    assert content.with_browser_tool() is content
    assert content.with_python_tool() is content
    assert content == SystemContent(
        model_identity="i",
        reasoning_effort=ReasoningEffort.LOW,
        conversation_start_date="d",
        knowledge_cutoff="k",
        channel_config=ChannelConfig(valid_channels=["a"], channel_required=True),
        tools={
            "browser": ToolNamespaceConfig.browser(),
            "python": ToolNamespaceConfig.python(),
        },
    )


def test_fluent_helpers_of_a_developer_content_change_it_and_return_it() -> None:
    content = DeveloperContent.new()
    tool = ToolDescription.new("f", "d")
    assert content.with_instructions("i") is content
    assert content.with_function_tools([tool]) is content
    assert content.with_tools(ToolNamespaceConfig(name="n", tools=[])) is content
    assert content.with_response_format("r", {"type": "object"}, "d") is content
    assert content == DeveloperContent(
        instructions="i",
        tools={
            "functions": ToolNamespaceConfig(name="functions", tools=[tool]),
            "n": ToolNamespaceConfig(name="n", tools=[]),
        },
        response_formats={
            "r": ResponseFormat(name="r", json_schema={"type": "object"}, description="d")
        },
    )
    assert content.with_function_tools([]).tools == {
        "functions": ToolNamespaceConfig(name="functions", tools=[]),
        "n": ToolNamespaceConfig(name="n", tools=[]),
    }


def test_new_contents_share_nothing() -> None:
    SystemContent.new().with_browser_tool()
    config = SystemContent.new().channel_config
    assert config is not None
    config.valid_channels.append("x")
    assert SystemContent.new() == SystemContent()
    assert SystemContent().channel_config == ChannelConfig.require_channels(
        ["analysis", "commentary", "final"]
    )
    ToolNamespaceConfig.browser().tools.clear()
    assert len(ToolNamespaceConfig.browser().tools) == 3


ORDER = [
    "role", "name", "content", "channel", "recipient", "content_type",
    "model_identity", "reasoning_effort", "conversation_start_date", "knowledge_cutoff",
    "channel_config", "instructions", "tools", "response_formats", "type", "text", "messages",
]  # fmt: skip
DICTS: list[tuple[Any, dict[str, Any]]] = [
    (TextContent(text="x"), {"type": "text", "text": "x"}),
    (
        SystemContent.new(),
        {
            "type": "system_content",
            "model_identity": "You are ChatGPT, a large language model trained by OpenAI.",
            "reasoning_effort": "Medium",
            "knowledge_cutoff": "2024-06",
            "channel_config": {
                "valid_channels": ["analysis", "commentary", "final"],
                "channel_required": True,
            },
        },
    ),
    (
        SystemContent(
            model_identity=None, reasoning_effort=None, knowledge_cutoff=None, channel_config=None
        ),
        {"type": "system_content"},
    ),
    (DeveloperContent.new(), {"type": "developer_content"}),
    (
        DeveloperContent.new().with_function_tools(
            [ToolDescription.new("f", "d", {"default": None}), ToolDescription.new("g", "")]
        ),
        {
            "type": "developer_content",
            "tools": {
                "functions": {
                    "name": "functions",
                    "tools": [
                        {"name": "f", "description": "d", "parameters": {"default": None}},
                        {"name": "g", "description": ""},
                    ],
                }
            },
        },
    ),
    (
        DeveloperContent.new().with_response_format("r", True),
        {
            "type": "developer_content",
            "response_formats": {"r": {"name": "r", "json_schema": True}},
        },
    ),
    (a_message(), {"role": "user", "name": None, "content": [{"type": "text", "text": "Hi"}]}),
    (
        Message.from_author_and_content(Author.new(Role.TOOL, "f"), "x")
        .with_channel("c")
        .with_recipient("r")
        .with_content_type("t"),
        {
            "role": "tool",
            "name": "f",
            "content": [{"type": "text", "text": "x"}],
            "channel": "c",
            "recipient": "r",
            "content_type": "t",
        },
    ),
    (
        Conversation.from_messages([a_message()]),
        {"messages": [{"role": "user", "name": None, "content": [{"type": "text", "text": "Hi"}]}]},
    ),
]


@pytest.mark.parametrize(("model", "expected"), DICTS)
def test_to_dict(model: Any, expected: dict[str, Any]) -> None:
    assert model.to_dict() == expected
    assert list(model.to_dict()) == sorted(model.to_dict(), key=ORDER.index)
    assert json.loads(json.dumps(model.to_dict())) == expected


def test_to_dict_gives_copies() -> None:
    content = DeveloperContent.new().with_response_format("r", {"properties": {}})
    content.to_dict()["response_formats"]["r"]["json_schema"]["properties"]["x"] = 1
    assert content == DeveloperContent.new().with_response_format("r", {"properties": {}})


READ: list[tuple[dict[str, Any], Message]] = [
    ({"role": "user", "content": "Hi"}, a_message()),
    ({"role": "user", "content": {"type": "text", "text": "Hi"}}, a_message()),
    ({"role": "user", "content": ["Hi"]}, a_message()),
    ({"role": Role.USER, "content": "Hi", "channel": None, "unknown": 1}, a_message()),
    ({"role": "user", "name": "bob", "content": []}, Message(author=Author.new(Role.USER, "bob"))),
]


@pytest.mark.parametrize(("raw", "expected"), READ)
def test_from_dict(raw: dict[str, Any], expected: Message) -> None:
    assert Message.from_dict(raw) == expected


REFUSED: list[tuple[Any, str, str]] = [
    ([], "", "expected an object"),
    ({"content": "x"}, "role", "missing"),
    ({"role": "user"}, "content", "missing"),
    ({"role": "narrator", "content": "x"}, "role", "narrator"),
    ({"role": 5, "content": "x"}, "role", "wrong type"),
    ({"role": "user", "name": 5, "content": "x"}, "name", "expected text, found 5"),
    ({"role": "user", "content": None}, "content", "wrong type"),
    ({"role": "user", "content": 5}, "content", "wrong type"),
    ({"role": "user", "content": ["x", 5]}, "content[1]", "expected a content object"),
    ({"role": "user", "content": [{"text": "x"}]}, "content[0]", "Unknown content variant"),
    ({"role": "user", "content": [{"type": "image"}]}, "content[0]", "Unknown content variant"),
    ({"role": "user", "content": [{"type": ["text"]}]}, "content[0]", "Unknown content variant"),
    ({"role": "user", "content": [{"type": "text"}]}, "content[0].text", "the field is missing"),
    (
        {"role": "user", "content": {"type": "text", "text": 5}},
        "content[0].text",
        "expected text, found 5",
    ),
    ({"role": "user", "content": "x", "channel": 5}, "channel", "text or null"),
    ({"role": "user", "content": "x", "recipient": []}, "recipient", "text or null"),
    ({"role": "user", "content": "x", "content_type": 5}, "content_type", "text or null"),
    (
        {"role": "system", "content": [{"type": "system_content", "reasoning_effort": "Max"}]},
        "content[0].reasoning_effort",
        "Low",
    ),
    (
        {"role": "developer", "content": [{"type": "developer_content", "tools": {"f": {}}}]},
        "content[0].tools.f.name",
        "the field is missing",
    ),
]


@pytest.mark.parametrize(("raw", "field", "problem"), REFUSED)
def test_errors_name_the_field(raw: Any, field: str, problem: str) -> None:
    with pytest.raises(ConversationError) as caught:
        Message.from_dict(raw)
    assert caught.value.field == field
    assert problem in caught.value.problem
    assert str(caught.value) == (f"{field}: " if field else "") + caught.value.problem
    with pytest.raises(ConversationError) as caught:
        Conversation.from_json(json.dumps({"messages": [{"role": "user", "content": ""}, raw]}))
    assert caught.value.field == f"messages[1]{'.' if field else ''}{field}"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("x" * 1000, f"expected an object, found '{'x' * 79}"),
        ({"role": "user", "content": 10**500}, f"the field has the wrong type: 1{'0' * 79} (int)"),
        (
            {"role": "user", "content": [["x" * 1000]]},
            f"expected a content object, found ['{'x' * 78}",
        ),
        (
            {"role": "user", "content": [{"type": "x" * 1000}]},
            f"Unknown content variant: {{'type': '{'x' * 190} "
            "(known types: text, system_content, developer_content)",
        ),
        (
            {"role": "user", "content": "x", "channel": ["x" * 1000]},
            f"expected text or null, found ['{'x' * 78} (list)",
        ),
        (
            {"role": "user", "content": "x", "name": ["x" * 1000]},
            f"expected text, found ['{'x' * 78}",
        ),
    ],
)
def test_errors_show_the_beginning_of_a_long_value(raw: Any, problem: str) -> None:
    with pytest.raises(ConversationError) as caught:
        Message.from_dict(raw)
    assert caught.value.problem == problem


@pytest.mark.parametrize(
    ("payload", "field"),
    [("", ""), ("{", ""), ("[]", ""), ("{}", "messages"), ('{"messages": {}}', "messages"),
     ("[" * 100_000, "")],
)  # fmt: skip
def test_what_is_no_conversation(payload: str, field: str) -> None:
    with pytest.raises(ConversationError) as caught:
        Conversation.from_json(payload)
    assert caught.value.field == field


def test_roles_are_strings() -> None:
    for role in Role:
        assert role == role.value
        assert Role(role.value) is role
        assert {role.value: 1}[role] == 1
        assert json.dumps(role) == f'"{role.value}"'
    with pytest.raises(ValueError, match="Unknown role: 'narrator'"):
        Role("narrator")


def test_plain_values_stand_for_models() -> None:
    message: Any = Message
    read = message(author={"role": "tool", "name": "f"}, content=[{"type": "text", "text": "x"}])
    assert read == Message.from_author_and_content(Author.new(Role.TOOL, "f"), "x")
    assert message.from_author_and_content({"role": "tool", "name": "f"}, "x") == read
    assert message.from_role_and_content("user", "Hi") == a_message()
    assert message.from_role_and_contents("user", [TextContent(text="Hi")]) == a_message()
    assert Message.from_role_and_contents(Role.USER, (TextContent(text="Hi"),)) == a_message()
    effort: Any = "High"
    assert SystemContent(reasoning_effort=effort).reasoning_effort is ReasoningEffort.HIGH


def test_a_content_without_a_type_is_known_by_its_fields() -> None:
    for content in CONTENTS:
        raw = {"author": {"role": "user"}, "content": [content.model_dump()]}
        assert Message.model_validate(raw).content == [content]


@pytest.mark.parametrize("raw", [{}, {"texts": "a"}, {"type": 1}, {"type": "x", "text": "a"}])
def test_a_content_of_no_known_type_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError, match="Unknown content variant"):
        Message.model_validate({"author": {"role": "user"}, "content": [raw]})


def test_a_conversation_is_a_series_of_messages() -> None:
    messages = [a_message(), Message.from_role_and_content(Role.ASSISTANT, "Hello")]
    assert list(Conversation.from_messages(messages)) == messages


class Turn(pydantic.BaseModel):
    """A user's own model."""

    message: Message
    history: list[Message] = []
    author: Author | None = None


CONTENTS = [
    TextContent(text="x"),
    SystemContent.new().with_browser_tool(),
    DeveloperContent.new(),
    DeveloperContent.new().with_instructions("x"),
    DeveloperContent.new().with_function_tools([ToolDescription.new("f", "d", {"a": [None, 1]})]),
    DeveloperContent.new().with_response_format("r", {"type": "object"}),
]


@pytest.mark.parametrize("content", CONTENTS)
def test_a_message_as_a_field(content: TextContent | SystemContent | DeveloperContent) -> None:
    roles = {SystemContent: Role.SYSTEM, DeveloperContent: Role.DEVELOPER, TextContent: Role.USER}
    message = Message.from_role_and_content(roles[type(content)], content).with_channel("c")
    turn = Turn(message=message, history=[message, a_message()], author=message.author)
    assert Turn.model_validate(turn.model_dump()) == turn
    assert Turn.model_validate(turn.model_dump(mode="json")) == turn
    assert Turn.model_validate_json(turn.model_dump_json()) == turn
    assert turn.model_copy(deep=True) == turn
    assert "message" in Turn.model_json_schema()["properties"]


@pytest.mark.parametrize("content", CONTENTS)
def test_a_message_as_a_field_without_what_is_not_set(
    content: TextContent | SystemContent | DeveloperContent,
) -> None:
    """A content says by its fields alone what it is; where few are left, the role tells."""
    roles = {SystemContent: Role.SYSTEM, DeveloperContent: Role.DEVELOPER, TextContent: Role.USER}
    turn = Turn(message=Message.from_role_and_content(roles[type(content)], content))
    assert Turn.model_validate(turn.model_dump(exclude_none=True)) == turn
    assert Turn.model_validate_json(turn.model_dump_json(exclude_defaults=True)) == turn


def test_models_can_be_copied_and_pickled() -> None:
    message = a_message().with_channel("c")
    conversation = Conversation.from_messages([message])
    assert copy.deepcopy(conversation) == conversation
    assert pickle.loads(pickle.dumps(conversation)) == conversation
    parsed = ENCODING.parse_messages_from_completion_tokens(ENCODING.render(message))
    assert parsed == [message]
    assert pickle.loads(pickle.dumps(parsed)) == parsed
    assert copy.deepcopy(parsed) == parsed
    assert parsed[0].model_dump() == message.model_dump()
    assert parsed[0].model_fields_set >= {"author", "content", "channel"}


# Errors


def test_the_tree_of_errors() -> None:
    assert issubclass(HarmonyError, RuntimeError)
    assert not issubclass(HarmonyError, ValueError)
    assert SchemaError.__mro__[1:4] == (ConversationError, HarmonyError, RuntimeError)
    for error in (ConversationError, SchemaError, VocabularyError):
        assert issubclass(error, HarmonyError)
        assert issubclass(error, ValueError)
    assert issubclass(TokenError, HarmonyError)


@pytest.mark.parametrize(
    "error",
    [
        ConversationError("p", field="f"),
        SchemaError("p"),
        TokenError("p", token=1, position=2, state="Header"),
        TokenError("p"),
        VocabularyError("p"),
    ],
)
def test_errors_can_be_pickled(error: HarmonyError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


def test_arguments_that_are_value_errors() -> None:
    with pytest.raises(ValueError, match=r"Invalid HarmonyEncodingName: 'x' .*'HarmonyGptOss'"):
        load_harmony_encoding("x")
    completion: Any = ENCODING.render_conversation_for_completion
    for make in (Author.new, Message.from_role_and_content):
        with pytest.raises(ValueError, match=r"^Unknown role: 'x' \(known: 'user', [^\n]*\)$"):
            make("x", "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown role: 'x'"):
        completion(Conversation(), "x")
    parse: Any = ENCODING.parse_messages_from_completion_tokens
    with pytest.raises(ValueError, match="Unknown role: 'x'"):
        parse([], "x")
    with pytest.raises(pydantic.ValidationError, match="header_style"):
        RenderConversationConfig.model_validate({"header_style": "x"})
    for content in (SystemContent, DeveloperContent):
        with pytest.raises(pydantic.ValidationError, match="tools"):
            content.from_dict({"tools": 5})


# The encoding


def test_encodings_have_a_name() -> None:
    assert HarmonyEncodingName.HARMONY_GPT_OSS.value == "HarmonyGptOss"
    assert str(HarmonyEncodingName.HARMONY_GPT_OSS) == "HarmonyGptOss"
    assert load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS) is ENCODING
    assert ENCODING.name == "HarmonyGptOss"
    assert "HarmonyGptOss" in repr(ENCODING)


NAMED = {
    "<|startoftext|>": 199998,
    "<|endoftext|>": 199999,
    "<|return|>": 200002,
    "<|constrain|>": 200003,
    "<|channel|>": 200005,
    "<|start|>": 200006,
    "<|end|>": 200007,
    "<|message|>": 200008,
    "<|call|>": 200012,
}


def test_special_tokens() -> None:
    assert len(ENCODING.special_tokens_set) == 1091
    assert len(special_tokens.SPECIAL_TEXTS) == len(special_tokens.SPECIAL_IDS) == 1091
    for text in ENCODING.special_tokens_set:
        (token,) = ENCODING.encode(text, allowed_special="all")
        assert token == NAMED.get(text) or text == f"<|reserved_{token}|>"
        assert ENCODING.decode([token]) == text
        assert ENCODING.is_special_token(token)
    assert ENCODING.special_tokens_set >= NAMED.keys()
    assert not any(map(ENCODING.is_special_token, (0, 1000, 199997, 201089)))


def test_stop_tokens() -> None:
    assert sorted(ENCODING.stop_tokens()) == [200002, 200007, 200012]
    assert sorted(ENCODING.stop_tokens_for_assistant_actions()) == [200002, 200012]
    assert ENCODING.stop_tokens() is not ENCODING.stop_tokens()
    assert ENCODING.stop_tokens_for_assistant_actions() is not (
        ENCODING.stop_tokens_for_assistant_actions()
    )


AS_TEXT = [27, 91, 419, 91, 29]  # <|end|> as ordinary text

ENCODED: list[tuple[str, dict[str, Any], list[int]]] = [
    ("", {}, []),
    ("hello world", {}, [24912, 2375]),
    ("a<|fim_prefix|>", {}, [64, 27, 91, 103473, 33197, 91, 29]),
    ("<|end|>", {"allowed_special": "all"}, [200007]),
    ("<|end|>", {"allowed_special": {"<|end|>"}}, [200007]),
    ("<|end|>", {"disallowed_special": ()}, AS_TEXT),
    ("<|end|>", {"disallowed_special": {"<|start|>"}}, AS_TEXT),
    ("<|end|>", {"disallowed_special": ["<|start|>"]}, AS_TEXT),
    ("<|end|>", {"allowed_special": set(), "disallowed_special": ()}, AS_TEXT),
    (
        "<|start|><|end|>",
        {"allowed_special": {"<|start|>"}, "disallowed_special": ()},
        [200006, *AS_TEXT],
    ),
    (
        "<|end|>",
        {"allowed_special": {"<|end|>", "<|nothing|>"}, "disallowed_special": "all"},
        [200007],
    ),
    ("<|nothing|>", {"allowed_special": {"<|nothing|>"}}, [27, 91, 99064, 91, 29]),
    ("<|reserved_201088|>", {"allowed_special": "all"}, [201088]),
    ("<|end|><|end|>", {"allowed_special": "all"}, [200007, 200007]),
    ("<|<|end|>|>", {"allowed_special": "all"}, [27, 91, 200007, 91, 29]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "expected"), ENCODED)
def test_encode(text: str, options: dict[str, Any], expected: list[int]) -> None:
    tokens = ENCODING.encode(text, **options)
    assert tokens == expected
    assert ENCODING.decode(tokens) == text


DISALLOWED: list[tuple[str, dict[str, Any], str]] = [
    ("a<|end|>", {}, "<|end|>"),
    ("a<|reserved_200000|>", {}, "<|reserved_200000|>"),
    ("<|start|><|end|>", {"allowed_special": {"<|start|>"}}, "<|end|>"),
    ("<|start|><|end|>", {"disallowed_special": ("<|end|>",)}, "<|end|>"),
    ("<|end|>", {"allowed_special": "all", "disallowed_special": ("<|end|>",)}, "<|end|>"),
    ("plain text", {"disallowed_special": {"text"}}, "text"),
]


@pytest.mark.parametrize(("text", "options", "found"), DISALLOWED)
def test_encode_refuses_what_is_disallowed(text: str, options: dict[str, Any], found: str) -> None:
    with pytest.raises(VocabularyError, match=re.escape(repr(found))) as caught:
        ENCODING.encode(text, **options)
    assert "allowed_special" in str(caught.value)
    assert "disallowed_special" in str(caught.value)


def test_encode_wants_text() -> None:
    encode: Any = ENCODING.encode
    for value in (None, b"x", 5):
        with pytest.raises(TypeError, match="text must be a str"):
            encode(value)


def a_prompt(**arguments: Any) -> list[int]:
    values: dict[str, Any] = {"conversation": Conversation(), "next_turn_role": Role.ASSISTANT}
    return ENCODING.render_conversation_for_completion(**values | arguments)


CHAT_TOOL = {"type": "function", "function": {"name": "f", "description": "d"}}
A_TOOL = ToolDescription.new("f", "d")
A_PARSER: Any = StreamableParser(ENCODING, Role.ASSISTANT)
A_MESSAGE: Any = Message
A_CONVERSATION: Any = Conversation
A_DEVELOPER: Any = DeveloperContent.new()
AN_ENCODING: Any = ENCODING

MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a list for a conversation": (
        lambda: a_prompt(conversation=[a_message()]),
        TypeError,
        r"not list; write Conversation.from_messages",
    ),
    "a conversation for a message": (
        lambda: AN_ENCODING.render(Conversation.from_messages([a_message()])),
        TypeError,
        "must be a Message, not Conversation",
    ),
    "a dict for options": (
        lambda: a_prompt(config={"auto_drop_analysis": False}),
        TypeError,
        r"not dict; write RenderConversationConfig\(auto_drop_analysis=False\)",
    ),
    "a role misspelt": (
        lambda: a_prompt(next_turn_role="asistant"),
        ValueError,
        "Unknown role: 'asistant' .known: 'user', 'assistant', 'system', 'developer', 'tool'",
    ),
    "a date for its text": (
        lambda: SystemContent.new().with_conversation_start_date(date(2025, 6, 28)),  # type: ignore[arg-type]
        TypeError,
        "not date; a date has isoformat",
    ),
    "a dict for a message": (
        lambda: A_CONVERSATION.from_messages([{"role": "user", "content": "Hi"}]),
        pydantic.ValidationError,
        r"Message.from_dict\(\) reads a dict .* conversation_from_chat\(\)",
    ),
    "one message for a list": (
        lambda: A_CONVERSATION.from_messages(a_message()),
        TypeError,
        r"messages must be a list of messages, not Message; write \[message\]",
    ),
    "a number for messages": (
        lambda: A_CONVERSATION.from_messages(5),
        TypeError,
        "messages must be a list of messages, not int",
    ),
    "a fraction for a token": (
        lambda: AN_ENCODING.parse_messages_from_completion_tokens([1.5]),
        TypeError,
        "cannot be interpreted as an integer; write an id such as 200006",
    ),
    "a fraction to decode": (
        lambda: AN_ENCODING.decode([1.5]),
        VocabularyError,
        r"must be an integer, not 1.5 .float.; write an id such as 200006",
    ),
    "a list for a schema": (
        lambda: ToolDescription.new("f", "d", parameters=[1]),  # type: ignore[arg-type]
        pydantic.ValidationError,
        r"a JSON Schema is an object, such as \{.type.: .object.\}",
    ),
    "an effort misspelt": (
        lambda: SystemContent.new().with_reasoning_effort("high"),  # type: ignore[arg-type]
        ValueError,
        "'high' is not a reasoning effort .known: 'Low', 'Medium', 'High'.; did you mean 'High'?",
    ),
    "no content": (
        lambda: A_MESSAGE.from_role_and_content(Role.USER, None),
        pydantic.ValidationError,
        "a text, or a TextContent, SystemContent or DeveloperContent",
    ),
    "a list for a content": (
        lambda: A_MESSAGE.from_role_and_content(Role.USER, ["Hi"]),
        pydantic.ValidationError,
        "Message.from_role_and_contents takes several",
    ),
    "a text among contents": (
        lambda: A_MESSAGE.from_role_and_contents(Role.USER, ["Hi"]),
        pydantic.ValidationError,
        r"write TextContent\(text=...\)",
    ),
    "a tool of Chat Completions": (
        lambda: A_DEVELOPER.with_function_tools([CHAT_TOOL]),
        pydantic.ValidationError,
        r"write ToolDescription.new\(name, description, parameters\)",
    ),
    "one tool for a list": (
        lambda: A_DEVELOPER.with_function_tools(A_TOOL),
        TypeError,
        r"tools must be a list of ToolDescriptions, not ToolDescription; write \[tool\]",
    ),
    "a tool for a namespace": (
        lambda: A_DEVELOPER.with_tools(A_TOOL),
        TypeError,
        r"not ToolDescription; with_function_tools\(\[tool\]\)",
    ),
    "a list of namespaces": (
        lambda: A_DEVELOPER.with_tools([ToolNamespaceConfig.browser()]),
        TypeError,
        r"not list; call with_tools\(\) once for each",
    ),
    "a role for an author": (
        lambda: A_MESSAGE(role="user", content="Hi"),
        TypeError,
        r"no argument 'role'; write Message.from_role_and_content\(role, content\)",
    ),
    "options of a message for those of a conversation": (
        lambda: AN_ENCODING.render_conversation(
            Conversation(),
            RenderOptions(conversation_has_function_tools=True, schema_dialect="reference"),
        ),
        TypeError,
        r"not RenderOptions; write RenderConversationConfig\(schema_dialect='reference'\)",
    ),
    "options of a conversation for those of a message": (
        lambda: AN_ENCODING.render(a_message(), RenderConversationConfig(header_style="guide")),
        TypeError,
        r"render_options must be a RenderOptions, .*; write RenderOptions\(header_style='guide'\)",
    ),
    "a dict for JSON": (
        lambda: A_CONVERSATION.from_json({"messages": []}),
        ConversationError,
        r"not dict; json.dumps\(\) writes it, and Message.from_dict\(\)",
    ),
    "a list of messages in JSON": (
        lambda: Conversation.from_json('[{"role": "user", "content": "Hi"}]'),
        ConversationError,
        r'expected an object, \{"messages": \[...\]\}, found the list',
    ),
    "one token for a list": (
        lambda: AN_ENCODING.decode(5),
        TypeError,
        r"found int; write \[token\] for one",
    ),
    "a text for a token": (
        lambda: A_PARSER.process("final"),
        TypeError,
        r"encode\(\) turns text into token ids",
    ),
    "a list for a token": (
        lambda: A_PARSER.process([200005]),
        TypeError,
        r"process_many\(\) takes a list",
    ),
    "a batch for a completion": (
        lambda: AN_ENCODING.parse_messages_from_completion_tokens([[200005]], strict=False),
        VocabularyError,
        r"pass one row of a batch, such as batch\[0\]",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_names_the_remedy(mistake: str) -> None:
    call, error, remedy = MISTAKES[mistake]
    with pytest.raises(error, match=remedy):
        call()


MODELS = [
    each
    for each in (getattr(gpt_oss_harmony, name) for name in gpt_oss_harmony.__all__)
    if inspect.isclass(each) and issubclass(each, pydantic.BaseModel)
]


def values_of(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The values of the required fields."""
    known = {"author": Author(role=Role.USER), "role": Role.USER, "json_schema": True}
    known |= {"valid_channels": [], "channel_required": True, "tools": []}
    fields = model.model_fields.items()
    return {name: known.get(name, "a") for name, field in fields if field.is_required()}


@pytest.mark.parametrize("model", MODELS)
def test_a_misspelt_keyword_is_named(model: type[pydantic.BaseModel]) -> None:
    values = values_of(model)
    unknown: dict[str, Any] = {"xyz": 1}
    for field in model.model_fields:
        misspelt = field[:-2] + field[-1]
        with pytest.raises(TypeError, match=f"no argument '{misspelt}'; did you mean {field}"):
            model(**{misspelt: "a"})
    if model in (RenderConversationConfig, RenderOptions):
        with pytest.raises(TypeError, match=r"no argument 'xyz'; it has .*schema_dialect"):
            model(**unknown)
    else:
        with pytest.warns(UserWarning, match="no argument 'xyz', and ignores it") as warned:
            assert model(**{**values, **unknown}) == model(**values)
        assert warned[0].filename == __file__
    # JSON may have more, as what the reference writes and reads.
    assert model.model_validate({**values, "xyz": 1, "nam": 1}) == model(**values)


def test_a_content_takes_the_type_that_it_writes() -> None:
    for content in (TextContent(text="Hi"), SystemContent.new(), DeveloperContent.new()):
        assert type(content)(**content.to_dict()) == content


def fluent_arguments() -> list[tuple[Any, str, str, list[Any]]]:
    """Each argument of each method with_…, and the values of the other required ones."""
    return [
        (made, method, name, list(parameters))
        for made in (a_message(), SystemContent.new(), DeveloperContent.new())
        for method in dir(made)
        if method.startswith("with_")
        for parameters in [inspect.signature(getattr(made, method)).parameters]
        for name in parameters
    ]


@pytest.mark.parametrize(("made", "method", "name", "names"), fluent_arguments())
def test_fluent_helpers_name_a_wrong_type(
    made: Any, method: str, name: str, names: list[str]
) -> None:
    right = {"name": "a", "schema": {"type": "object"}, "description": "d"}
    before = made.model_copy(deep=True)
    for wrong in (5, 1.5, b"x", object(), A_TOOL if name != "tools" else 5):
        values = {each: right.get(each) for each in names} | {name: wrong}
        problem = rf"^{name} must be .*, not {type(wrong).__name__}; "
        if name == "reasoning_effort":
            problem = "is not a reasoning effort .known: 'Low'"
        with pytest.raises((TypeError, ValueError), match=problem):
            getattr(made, method)(**values)
        assert made == before


def test_dir_names_what_is_public() -> None:
    assert {*dir(gpt_oss_harmony)} - {"__all__", "__doc__", "__version__"} == {
        *gpt_oss_harmony.__all__
    }


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
def test_an_error_of_strict_parsing_mentions_lenient_parsing() -> None:
    with pytest.raises(TokenError) as caught:
        ENCODING.parse_messages_from_completion_tokens(ENCODING.encode("4"), Role.ASSISTANT)
    assert "strict=False" in "".join(traceback.format_exception_only(caught.value))
    assert "strict=False" not in str(caught.value)


@pytest.mark.parametrize("channel", ["analysis", "commentary", "final"])
def test_the_last_message_can_be_continued(channel: str) -> None:
    question = Message.from_role_and_content(Role.USER, "2 + 2?")
    begun = Message.from_role_and_content(Role.ASSISTANT, "It is").with_channel(channel)
    conversation = Conversation.from_messages([question, begun])
    tokens = ENCODING.render_conversation_for_completion(
        conversation, Role.ASSISTANT, continue_last=True
    )
    assert ENCODING.decode(tokens).endswith(f"<|channel|>{channel}<|message|>It is")
    thought = Message.from_role_and_content(Role.ASSISTANT, "Hm.").with_channel("analysis")
    with_reasoning = Conversation.from_messages([question, thought, begun])
    tokens = ENCODING.render_conversation_for_completion(
        with_reasoning, Role.ASSISTANT, continue_last=True
    )
    assert "Hm.<|end|>" in ENCODING.decode(tokens)
    with pytest.raises(ConversationError, match=r"must be by 'user' .* but it is by 'assistant'"):
        ENCODING.render_conversation_for_completion(conversation, Role.USER, continue_last=True)
    empty = Conversation.from_messages([])
    with pytest.raises(ConversationError, match=r"but there is none"):
        ENCODING.render_conversation_for_completion(empty, Role.ASSISTANT, continue_last=True)


def test_the_text_of_a_message() -> None:
    message = Message.from_role_and_contents(
        Role.USER, [TextContent(text="a"), DeveloperContent.new(), TextContent(text="b")]
    )
    assert message.text == "ab"


def test_decode_says_what_happens_to_invalid_utf8() -> None:
    assert ENCODING.decode([64, 178]) == "a\ufffd"
    assert ENCODING.decode([64, 178], errors="ignore") == "a"
    with pytest.raises(UnicodeDecodeError):
        ENCODING.decode([64, 178], errors="strict")
    with pytest.raises(VocabularyError, match="Invalid utf-8 sequence"):
        ENCODING.decode_utf8([64, 178])


def test_states_and_recoveries() -> None:
    parser = StreamableParser(ENCODING, None)
    assert parser.state is StreamState.EXPECT_START
    assert [state.value for state in StreamState] == ["ExpectStart", "Header", "Content"]
    recovery = Recovery(RecoveryKind.CUT_HEADER, 3, "x")
    assert recovery == ("cut-header", 3, "x")
    for kind in RecoveryKind:
        assert kind == kind.value == kind.name.lower().replace("_", "-")


# The vocabulary


def test_the_vocabulary_is_the_official_one() -> None:
    pieces = vocabulary.load_vocabulary()
    lines = (base64.b64encode(pieces[rank]) + b" %d\n" % rank for rank in range(len(pieces)))
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    assert digest == "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
    assert len(pieces) == 199998


def test_a_damaged_vocabulary_is_refused() -> None:
    packed = (resources.files(gpt_oss_harmony) / "data" / "o200k_base.vocab").read_bytes()
    vocabulary.Vocabulary(packed)
    for damaged in (packed[:1000], packed[:-1], packed[:-1] + b"x", b"", packed[::-1]):
        with pytest.raises(VocabularyError, match="reinstall the package"):
            vocabulary.Vocabulary(damaged)


# Imports


def run_python(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_importing_gives_no_warning() -> None:
    assert run_python("import gpt_oss_harmony; from gpt_oss_harmony import *") == ""


BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in allowed or top in sys.stdlib_module_names or top.startswith("_sysconfig"):
            return None
        raise ModuleNotFoundError(f"blocked: {name}", name=name)

allowed = {
    "gpt_oss_harmony", "pydantic", "pydantic_core", "annotated_types", "typing_extensions",
    "typing_inspection",
}
sys.meta_path.insert(0, Block())
"""

PARSE = """
from gpt_oss_harmony import StreamableParser, load_harmony_encoding
parser = StreamableParser(load_harmony_encoding("HarmonyGptOss"), "assistant")
parser.process_many([200005, 17196, 200008, 12194, 200002])
print(parser.messages[0].channel, parser.messages[0].content[0].text)
loaded = {name.partition(".")[0] for name in sys.modules}
print("tiktoken" in loaded, "gpt_oss_harmony.cli" in sys.modules)
"""


def test_parsing_needs_nothing_but_pydantic() -> None:
    assert run_python(BLOCK + PARSE).split() == ["final", "Hi", "False", "False"]


def test_importing_reads_no_vocabulary() -> None:
    module = "gpt_oss_harmony.tokens.vocabulary"
    code = f"import {module} as v; print(v.load_vocabulary.cache_info().currsize)"
    assert run_python(code) == "0\n"
