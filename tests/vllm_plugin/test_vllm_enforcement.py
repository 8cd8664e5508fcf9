"""Our matcher in vLLM's scheduler: the calls that the scheduler makes, and what they do."""

from __future__ import annotations

import functools
import json
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpt_oss_harmony import Role, load_harmony_encoding
from gpt_oss_harmony.grammar import BITMASK_WORDS
from gpt_oss_harmony_vllm.constraint import CLOSING_LINE, constrain
from gpt_oss_harmony_vllm.drafts import PLACEHOLDER, ForcedTokens
from gpt_oss_harmony_vllm.enforcement import TurnEnforcement, turn_enforcement
from gpt_oss_harmony_vllm.patches import patch_enforcement
from gpt_oss_harmony_vllm.settings import Settings
from support.vllm_stand_in import Function, Request, Tool

ENCODING = load_harmony_encoding("HarmonyGptOss")
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "n": {"type": "array", "items": {}}},
    "required": ["text", "n"],
    "additionalProperties": False,
}
TOOLS = [Tool(function=Function(name="now", parameters=SCHEMA))]
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}
CALL: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required"}
ANSWER: dict[str, Any] = {"response_format": FORMAT}


def grammar_of(fields: dict[str, Any], settings: Settings | None = None) -> str:
    constraint = constrain(Request(**fields), settings or Settings(), "guidance")
    assert constraint is not None
    return constraint.fields["grammar"]


def engine_request(grammar: str | None, tokens: int) -> Any:
    outputs = SimpleNamespace(grammar=grammar)
    return SimpleNamespace(
        sampling_params=SimpleNamespace(structured_outputs=outputs), max_tokens=tokens
    )


def config(vocabulary: int = 201_088, drafts: int = 0) -> Any:
    model = SimpleNamespace(get_vocab_size=lambda: vocabulary)
    return SimpleNamespace(model_config=model, num_speculative_tokens=drafts)


def enforced(fields: dict[str, Any], tokens: int, drafts: int = 0) -> TurnEnforcement:
    request = engine_request(grammar_of(fields), tokens)
    enforcement = turn_enforcement(request, config(drafts=drafts))
    assert enforcement is not None
    return enforcement


class Bitmask:
    """The part of a tensor that is used."""

    def __init__(self) -> None:
        self.rows = np.zeros((3, BITMASK_WORDS), np.int32)

    def numpy(self) -> Any:
        return self.rows


def allowed(enforcement: TurnEnforcement) -> list[int]:
    mask = Bitmask()
    enforcement.fill_bitmask(mask, 1)
    assert not mask.rows[[0, 2]].any()
    bits = np.unpackbits(mask.rows[1].view(np.uint8), bitorder="little")
    return [*map(int, np.flatnonzero(bits))]


def noise(enforcement: TurnEnforcement, seed: int) -> list[int]:
    """Sample tokens as the scheduler does, until the turn ends."""
    choices, tokens = random.Random(seed), list[int]()
    while not enforcement.is_terminated():
        tokens.append(choices.choice(allowed(enforcement)))
        assert enforcement.accept_tokens("r", tokens[-1:])
    return tokens


@pytest.mark.parametrize("fields", [CALL, ANSWER], ids=["a required call", "a JSON answer"])
@pytest.mark.parametrize("limit", [60, pytest.param(150, marks=pytest.mark.slow)])
def test_noise_ends_within_the_tokens(fields: dict[str, Any], limit: int) -> None:
    tokens = noise(enforced(fields, limit), limit)
    assert len(tokens) <= limit
    *_, last = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    assert {"text", "n"} == json.loads(last.text).keys()


def test_only_turns_without_free_text_are_closed() -> None:
    strict = [Tool(function=Function(name="now", parameters=SCHEMA, strict=True))]
    assert CLOSING_LINE in grammar_of(CALL)
    assert CLOSING_LINE in grammar_of(ANSWER)
    assert CLOSING_LINE not in grammar_of({"tools": strict})
    assert CLOSING_LINE not in grammar_of(CALL, Settings(closes=False))


def test_a_draft_is_checked_and_taken_back() -> None:
    """The scheduler validates a draft, takes it token by token for the masks, and rolls back."""
    enforcement = enforced(CALL, 90, drafts=4)
    begun = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>"
    first, *rest = ENCODING.encode(begun, allowed_special="all")
    assert enforcement.accept_tokens("r", [first])
    before = allowed(enforcement)
    assert enforcement.validate_tokens([*rest[:3], -1, 5]) == rest[:3]
    assert enforcement.validate_tokens([5]) == []
    assert allowed(enforcement) == before
    for token in rest[:3]:
        assert enforcement.accept_tokens("r", [token])
    after = allowed(enforcement)
    assert after != before
    enforcement.rollback(3)
    assert allowed(enforcement) == before
    assert enforcement.accept_tokens("r", rest[:3])
    assert allowed(enforcement) == after
    assert not enforcement.accept_tokens("r", [200_005])


def test_forced_tokens_are_drafts() -> None:
    """The proposer knows no request; the grammar replaces what it proposes."""
    proposed = ForcedTokens(None).propose([[7], []], None, None, slot_mappings=None)
    assert proposed == [[PLACEHOLDER], []]
    enforcement = enforced(CALL, 90, drafts=4)
    begun = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"
    for token in ENCODING.encode(begun, allowed_special="all"):
        assert PLACEHOLDER not in allowed(enforcement)
        assert enforcement.accept_tokens("r", [token])
    draft = enforcement.validate_tokens(proposed[0])
    assert ENCODING.decode(draft) == '"text":'[: len(ENCODING.decode(draft))]
    assert 0 < len(draft) <= 4
    for token in draft:  # no other token of the same text
        assert allowed(enforcement) == [token]
        assert enforcement.accept_tokens("r", [token])
    enforcement.rollback(len(draft))
    assert enforcement.validate_tokens(draft) == draft


def test_other_grammars_are_left_to_vllm() -> None:
    ours = grammar_of(CALL)
    assert turn_enforcement(engine_request('start: "a"', 9), config()) is None
    assert turn_enforcement(engine_request(None, 9), config()) is None
    assert turn_enforcement(engine_request(ours, 9), config(vocabulary=32_000)) is None


def test_the_scheduler_gets_our_matcher_once(caplog: pytest.LogCaptureFixture) -> None:
    class Manager:
        vllm_config = config()

        def _create_grammar(self, request: Any) -> Any:
            return "vLLM's own"

    def traced(self: Any, request: Any) -> Any:
        return own(self, request)

    own = Manager._create_grammar
    # What another package has wrapped, a tracer say, is not patched yet.
    Manager._create_grammar = functools.wraps(own)(traced)  # type: ignore[method-assign]
    module = SimpleNamespace(StructuredOutputManager=Manager)
    patch_enforcement(module)
    patched = Manager._create_grammar
    patch_enforcement(module)
    assert Manager._create_grammar is patched
    # Nor is a patch that another package has wrapped.
    Manager._create_grammar = functools.wraps(patched)(  # type: ignore[method-assign]
        lambda self, request: patched(self, request)
    )
    wrapped = Manager._create_grammar
    patch_enforcement(module)
    assert Manager._create_grammar is wrapped
    grammar = grammar_of(CALL)
    assert isinstance(Manager()._create_grammar(engine_request(grammar, 60)), TurnEnforcement)
    assert Manager()._create_grammar(engine_request('start: "a"', 60)) == "vLLM's own"
    broken = grammar.replace("start:", "begin:")
    assert Manager()._create_grammar(engine_request(broken, 60)) == "vLLM's own"
    assert "does not compile" in caplog.text
