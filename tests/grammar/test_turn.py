"""The grammar of a whole turn: what it accepts, and at which token it refuses the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLInterpreter

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    ToolDescription,
    VocabularyError,
)
from gpt_oss_harmony.grammar import (
    GrammarError,
    Matcher,
    TurnOptions,
    declared_calls,
    find_mismatch,
    turn_constraint,
    turn_grammar,
    with_token_ids,
)
from gpt_oss_harmony.grammar import turn as turn_module
from gpt_oss_harmony.grammar.json_schema import loosened_schema
from gpt_oss_harmony.grammar.structural_tag import structural_tag
from gpt_oss_harmony.grammar.text_formats import TEXT_PATTERN
from gpt_oss_harmony.grammar.token_table import token_table
from support.examples import examples
from support.strategies import tokens_of
from support.turns import (
    ANSWER,
    CALL,
    CALL_NOW,
    CHOICES,
    CODE,
    ENCODING,
    FINAL,
    FIND,
    FORMAT,
    JSON_CALL,
    PLAIN,
    PLAN,
    SAY,
    THINK,
    TOOLS,
    WHOLE_TURNS,
    WRONG_TURNS,
)


def mismatch(grammar: str, completion: str) -> tuple[str, str | None] | None:
    """What was accepted, and the text of the token after it."""
    tokens = tokens_of(completion)
    found = find_mismatch(grammar, tokens)
    if found is None:
        return None
    token = None if found.token is None else ENCODING.decode([found.token])
    return ENCODING.decode(tokens[: found.position]), token


@pytest.mark.parametrize(("chat", "completion"), WHOLE_TURNS, ids=[t for _, t in WHOLE_TURNS])
def test_whole_turns_are_accepted_and_parsed(chat: Conversation, completion: str) -> None:
    assert mismatch(turn_grammar(chat), completion) is None
    tokens = tokens_of(completion)
    messages = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    last = messages[-1]
    assert (last.recipient is None) == completion.endswith("<|return|>")
    assert last.content_type in (None, "json", "code", "<|constrain|>json", "<|constrain|>code")
    assert all(message.recipient is None for message in messages[:-1])


@pytest.mark.parametrize(("chat", "good", "bad", "rest"), WRONG_TURNS)
def test_wrong_turns_are_left_at_the_right_token(
    chat: Conversation, good: str, bad: str, rest: str
) -> None:
    tokens = [*tokens_of(good), *tokens_of(bad), *tokens_of(rest)]
    found = find_mismatch(turn_grammar(chat), tokens)
    assert found is not None
    assert ENCODING.decode(tokens[: found.position]) == good
    assert found.token == tokens_of(bad)[0]
    assert found.token not in found.allowed


@pytest.mark.parametrize("end", range(len(tokens_of(WHOLE_TURNS[3][1]))))
def test_a_turn_cut_short_is_no_turn(end: int) -> None:
    chat, completion = WHOLE_TURNS[3]
    tokens = tokens_of(completion)
    found = find_mismatch(turn_grammar(chat), tokens[:end])
    assert found is not None
    assert (found.position, found.token) == (end, None)
    assert tokens[end] in found.allowed


def test_a_json_string_may_spell_a_marker_but_not_hold_one() -> None:
    grammar = turn_grammar(TOOLS)
    start = f'{JSON_CALL}{{"location":"'
    assert mismatch(grammar, f"{start}<|end|>") == (start, "<|end|>")
    spelled = ENCODING.encode("<|end|>", disallowed_special=())
    tokens = [*tokens_of(start), *spelled, *tokens_of('"}<|call|>')]
    assert find_mismatch(grammar, tokens) is None


def test_tokens_may_be_named_by_their_ids() -> None:
    grammar = turn_grammar(TOOLS)
    by_id = with_token_ids(grammar)
    assert not re.search(r"<\|", re.sub(r'"([^"\\]|\\.)*"|/.*/', "", by_id))
    tokens = tokens_of(f'{JSON_CALL}{{"location":"<')
    for end in range(len(tokens) + 1):
        masks = [Matcher(text) for text in (grammar, by_id)]
        assert [matcher.accept_all(tokens[:end]) for matcher in masks] == [end, end]
        assert masks[0].bitmask() == masks[1].bitmask()


# tool_choice


@pytest.mark.parametrize(("choice", "allowed"), CHOICES, ids=[str(c) for c, _ in CHOICES])
def test_tool_choice_is_obeyed(choice: Any, allowed: set[str]) -> None:
    grammar = turn_grammar(TOOLS, TurnOptions(tool_choice=choice))
    for ending in (CALL, CALL_NOW, CODE, FIND, SAY):
        for before in ("", THINK, PLAN):
            found = mismatch(grammar, before + ending)
            assert (found is None) == (ending in allowed), (before, ending, found)


@pytest.mark.parametrize(
    ("chat", "choice", "problem"),
    [
        (TOOLS, "any", "tool_choice: expected one of none, auto, required"),
        (TOOLS, "requird", "found 'requird'; did you mean required?"),
        (TOOLS, 5, "tool_choice: expected an object, found 5"),
        (TOOLS, {"type": "function"}, "tool_choice.name: the field is missing"),
        (TOOLS, {"type": "function", "name": "news"}, "'news' is not declared; declared tools:"),
        (
            TOOLS,
            {"type": "allowed_tools", "tools": "now"},
            "expected a list, found 'now'",
        ),
        (
            TOOLS,
            {"type": "allowed_tools", "mode": "x", "tools": []},
            "expected one of none, auto",
        ),
        (PLAIN, "required", "a call is required, but no tool is declared"),
        (PLAIN, {"type": "python"}, "'python' is not declared; declared tools: none"),
    ],
)
def test_impossible_choices_are_refused(chat: Conversation, choice: Any, problem: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(problem)):
        turn_grammar(chat, TurnOptions(tool_choice=choice))
    if "declared" not in problem:
        with pytest.raises(GrammarError, match=re.escape(problem)):
            TurnOptions(tool_choice=choice)


# Options


def test_reasoning_may_be_switched_off() -> None:
    grammar = turn_grammar(TOOLS, TurnOptions(reasoning=False))
    assert mismatch(grammar, THINK + SAY) == ("<|channel|>analysis", "<|message|>")
    assert mismatch(grammar, PLAN + SAY) is None
    assert mismatch(grammar, CODE) is None  # a call on analysis, no reasoning
    grammar = turn_grammar(PLAIN, TurnOptions(reasoning=False, preambles=False))
    assert Matcher(grammar).forced_tokens() == tokens_of(FINAL)


def test_reasoning_may_be_bounded() -> None:
    grammar = turn_grammar(TOOLS, TurnOptions(reasoning_messages=2))
    assert mismatch(grammar, f"{PLAN}{THINK}{PLAN}{THINK}{PLAN}{SAY}") is None
    accepted = f"{THINK}{THINK}{PLAN}<|channel|>analysis"
    assert mismatch(grammar, f"{THINK}{THINK}{PLAN}{THINK}{SAY}") == (accepted, "<|message|>")
    without = turn_grammar(TOOLS, TurnOptions(reasoning_messages=1, preambles=False))
    assert mismatch(without, THINK + SAY) is None
    assert mismatch(without, THINK + THINK + SAY) == (f"{THINK}<|channel|>analysis", "<|message|>")
    assert mismatch(without, PLAN + SAY) == ("<|channel|>commentary", "<|message|>")


def test_tokens_of_texts_may_be_bounded() -> None:
    options = TurnOptions(reasoning_tokens=3, text_tokens=2)
    grammar = turn_grammar(TOOLS, options)
    start = "<|channel|>analysis<|message|>"
    assert mismatch(grammar, f"{start}one two three<|end|><|start|>assistant{SAY}") is None
    assert mismatch(grammar, f"{start}one<|end|><|start|>assistant{SAY}") is None
    assert mismatch(grammar, f"{start}one two three four") == (f"{start}one two three", " four")
    assert mismatch(grammar, f"{FINAL}one two<|return|>") is None
    assert mismatch(grammar, f"{FINAL}one two three") == (f"{FINAL}one two", " three")
    matcher = Matcher(grammar)
    assert matcher.accept_all(tokens_of(f"{start}one two three")) == 6
    assert matcher.forced_tokens()[:2] == tokens_of("<|end|><|start|>")


def test_messages_before_the_answer_may_be_bounded_together() -> None:
    start = "<|channel|>analysis<|message|>"
    grammar = turn_grammar(TOOLS, TurnOptions(message_limits=(3, 2)))
    assert mismatch(grammar, SAY) is None
    thought = f"{start}one two<|end|><|start|>assistant"
    remark = "<|channel|>commentary<|message|>one two<|end|><|start|>assistant"
    assert mismatch(grammar, thought + remark + SAY) is None
    assert mismatch(grammar, remark + thought + CALL_NOW) is None
    assert mismatch(grammar, f"{start}one two three four") == (f"{start}one two three", " four")
    second = f"{thought}{start}one two"
    assert mismatch(grammar, f"{second} three") == (second, " three")
    third = f"{thought}{remark}{start}"
    assert mismatch(grammar, third) == (third.removesuffix("<|message|>"), "<|message|>")
    without = turn_grammar(TOOLS, TurnOptions(message_limits=(3, 2), preambles=False))
    assert mismatch(without, thought + thought + SAY) is None
    assert mismatch(without, remark + SAY) == ("<|channel|>commentary", "<|message|>")
    neither = TurnOptions(message_limits=(3,), reasoning=False, preambles=False)
    assert Matcher(turn_grammar(PLAIN, neither)).forced_tokens() == tokens_of(FINAL)
    with pytest.raises(GrammarError, match="message_limits: expected a positive integer"):
        TurnOptions(message_limits=(1, 0))
    with pytest.raises(GrammarError, match="leave them out"):
        TurnOptions(message_limits=(1,), reasoning_messages=1)


@pytest.mark.parametrize("field", ["reasoning_tokens", "reasoning_messages", "text_tokens"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "5", True])
def test_wrong_bounds_are_refused(field: str, value: Any) -> None:
    with pytest.raises(GrammarError, match=field):
        TurnOptions(**{field: value})


def test_a_response_format_may_be_given() -> None:
    json_object = TurnOptions(response_format={"type": "json_object"})
    grammar = turn_grammar(PLAIN, json_object)
    assert mismatch(grammar, f'{FINAL}{{"a": [1, null]}}<|return|>') is None
    assert mismatch(grammar, f"{FINAL}[") == (FINAL, "[")
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": ANSWER}}
    for wanted in (schema, {"type": "json_schema", "name": "x", "schema": ANSWER}):
        grammar = turn_grammar(PLAIN, TurnOptions(response_format=wanted))
        assert mismatch(grammar, f'{FINAL}{{"answer":1}}<|return|>') is None
        assert mismatch(grammar, f"{FINAL}1") == (FINAL, "1")
    text = TurnOptions(response_format={"type": "text"})
    assert mismatch(turn_grammar(FORMAT, text), SAY) is None
    for wrong in ({"type": "xml"}, {}, {"type": "json_schema"}):
        with pytest.raises(GrammarError, match="response_format"):
            turn_grammar(PLAIN, TurnOptions(response_format=wrong))


def test_of_several_response_formats_any_may_be_chosen() -> None:
    content = DeveloperContent.new().with_response_format("a", ANSWER)
    content.with_response_format("b", {"type": "array", "items": {"type": "boolean"}})
    message = Message.from_role_and_content(Role.DEVELOPER, content)
    grammar = turn_grammar(Conversation.from_messages([message]))
    assert mismatch(grammar, f'{FINAL}{{"answer":1}}<|return|>') is None
    assert mismatch(grammar, f"{FINAL}[true]<|return|>") is None
    assert mismatch(grammar, f"{FINAL}true") == (FINAL, "true")


@pytest.mark.parametrize(
    ("completion", "is_canonical"),
    [
        ("<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>", True),
        ("<|channel|>commentary to=functions.now json<|message|>{}<|call|>", False),
        ("<|channel|>commentary to=functions.now<|message|>{}<|call|>", False),
        ("<|channel|>analysis to=functions.now <|constrain|>json<|message|>{}<|call|>", False),
        (" to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}<|call|>", False),
        ('<|channel|>analysis to=browser.find code<|message|>{"pattern":"x"}<|call|>', True),
        ('<|channel|>analysis to=browser.find code<|message|>{"pattern": "x"}<|call|>', False),
        ("<|channel|>analysis to=python code<|message|>print( 1 )<|call|>", True),
        ("<|channel|>commentary to=python code<|message|>print( 1 )<|call|>", False),
        ("<|channel|>final<|message|>a, b: c<|return|>", True),
    ],
)
def test_a_canonical_turn_has_one_spelling(completion: str, is_canonical: bool) -> None:
    turn = THINK + PLAN + completion
    assert mismatch(turn_grammar(TOOLS), turn) is None
    found = mismatch(turn_grammar(TOOLS, TurnOptions(canonical=True)), turn)
    assert (found is None) == is_canonical


def test_more_of_a_canonical_call_is_forced() -> None:
    choice = {"type": "function", "name": "get_weather"}
    free = TurnOptions(tool_choice=choice, reasoning=False, preambles=False)
    canonical = Matcher(turn_grammar(TOOLS, replace(free, canonical=True)))
    header = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"
    assert ENCODING.decode(canonical.forced_tokens()).startswith(header)
    assert Matcher(turn_grammar(TOOLS, free)).forced_tokens() == []


def test_what_cannot_be_enforced_is_named() -> None:
    tool = ToolDescription.new("f", "", {"properties": {"a": {"uniqueItems": True}}})
    content = DeveloperContent.new().with_function_tools([tool])
    chat = Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, content)])
    with pytest.raises(GrammarError) as caught:
        turn_grammar(chat)
    assert caught.value.pointer == "tools/functions.f#/properties/a/uniqueItems"
    turn_grammar(chat, TurnOptions(tool_choice="none"))  # nothing of it is needed


def test_parameters_may_be_boolean_schemas() -> None:
    def chat(*, parameters: bool) -> Conversation:
        tool = ToolDescription.new("f", "", parameters)
        content = DeveloperContent.new().with_function_tools([tool])
        message = Message.from_role_and_content(Role.DEVELOPER, content)
        return Conversation.from_messages([message])

    call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    grammar = turn_grammar(chat(parameters=True))
    assert mismatch(grammar, f'{call}{{"a":[1]}}<|call|>') is None
    assert mismatch(grammar, f"{call}[") == (call, "[")
    with pytest.raises(GrammarError, match=r"the schema at tools/functions\.f#: no finite value"):
        turn_grammar(chat(parameters=False))


@pytest.mark.parametrize("name", ["a b", "a<|call|>", "", "a\n", "x|y"])
def test_names_that_no_header_can_hold_are_refused(name: str) -> None:
    content = DeveloperContent.new().with_function_tools([ToolDescription.new(name, "")])
    chat = Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, content)])
    if name:
        with pytest.raises(GrammarError, match="a header cannot contain"):
            turn_grammar(chat)
    assert list(declared_calls(TOOLS.messages))[:4] == [
        "browser.search", "browser.open", "browser.find", "python",
    ]  # fmt: skip


# Text

SPELLED = re.compile(r"<\|[a-z_0-9]+\|>")
pieces = st.sampled_from(["<", "|", ">", "end", "_", "1", "A", " ", "é", "\n", "<|end|", "<|"])


@settings(max_examples=examples(2000))
@given(st.lists(pieces, max_size=12).map("".join))
def test_text_is_what_spells_no_marker(text: str) -> None:
    assert bool(re.fullmatch(TEXT_PATTERN, text)) == (SPELLED.search(text) is None)


@settings(max_examples=examples(200))
@given(st.lists(pieces, max_size=8).map("".join))
def test_no_text_spells_a_marker(text: str) -> None:
    tokens = [
        *tokens_of(FINAL),
        *ENCODING.encode(text, disallowed_special=()),
        *tokens_of("<|return|>"),
    ]
    found = find_mismatch(turn_grammar(PLAIN), tokens)
    assert (found is None) == (SPELLED.search(text) is None)


@pytest.mark.parametrize("text", ["", "a", "a <", "a <b", "<<", "<|", "<|a", "<|a b", "a | b"])
def test_few_tokens_are_tried_one_by_one_in_text(text: str) -> None:
    interpreter = LLInterpreter(
        token_table(),
        turn_grammar(PLAIN),
        enable_backtrack=False,
        enable_ff_tokens=False,
        log_level=0,
    )
    interpreter.start_without_prompt()
    walked = []
    for token in [*tokens_of(FINAL), *ENCODING.encode(text), tokens_of("!")[0]]:
        _, progress = interpreter.compute_mask()
        walked.append(json.loads(progress)["progress"][0]["stats"]["trie_nodes_walked"])
        interpreter.commit_token(token)
    assert max(walked) < 10_000  # of 420,638


A_GRAMMAR: Any = turn_grammar
AN_OPTION: Any = TurnOptions
EMPTY = Conversation()

MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a list for a conversation": (
        lambda: A_GRAMMAR([]), TypeError, r"not list; write Conversation\.from_messages"),
    "a dict for options": (
        lambda: A_GRAMMAR(EMPTY, {"tool_choice": "auto"}), TypeError, r"write TurnOptions\("),
    "a list for the conversation of a tag": (
        lambda: structural_tag([]), TypeError, r"write Conversation\.from_messages"),  # type: ignore[arg-type]
    "a model for a response format": (
        lambda: AN_OPTION(response_format=Message), GrammarError, r"model_json_schema\(\)"),
    "a schema for a response format": (
        lambda: A_GRAMMAR(EMPTY, AN_OPTION(response_format={"type": "object"})),
        GrammarError, 'this is a schema; write {"type": "json_schema"'),
    "a schema without a type": (
        lambda: A_GRAMMAR(EMPTY, AN_OPTION(response_format={"properties": {}})),
        GrammarError, 'this is a schema; write {"type": "json_schema"'),
    "a conversation for a grammar": (
        lambda: Matcher(EMPTY), TypeError, r"turn_grammar\(\) writes it"),  # type: ignore[arg-type]
    "a text for tokens": (
        lambda: find_mismatch(turn_grammar(EMPTY), "hi"),  # type: ignore[arg-type]
        VocabularyError, "found str; encode it first"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_names_the_remedy(mistake: str) -> None:
    call, error, remedy = MISTAKES[mistake]
    with pytest.raises(error, match=remedy):
        call()


def test_a_schema_is_compiled_once_for_all_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in another conversation, under another name; each report has the name of its tool."""
    compiled: list[Any] = []

    def counted(schema: Any, *args: Any, **options: Any) -> Any:
        compiled.append(schema)
        return loosened_schema(schema, *args, **options)

    monkeypatch.setattr(turn_module, "loosened_schema", counted)
    schema = {"type": "array", "uniqueItems": True, "title": "compiled once"}
    found = []
    for names in (["first", "second"], ["third"]):
        tools = [ToolDescription.new(name, "A tool.", schema) for name in names]
        developer = DeveloperContent.new().with_function_tools(tools)
        message = Message.from_role_and_content(Role.DEVELOPER, developer)
        chat = Conversation.from_messages([message])
        constraint = turn_constraint(chat, TurnOptions(on_unsupported="loosen"))
        found += [error.pointer for error in constraint.unenforced]
    expected = ["first", "second", "third"]
    assert found == [f"tools/functions.{name}#/uniqueItems" for name in expected]
    assert len(compiled) == 1
    strict = TurnOptions(tool_choice={"type": "function", "name": "third"})
    with pytest.raises(GrammarError, match=r"at tools/functions\.third#/uniqueItems"):
        turn_constraint(chat, strict)
