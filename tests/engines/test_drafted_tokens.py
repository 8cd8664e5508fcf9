"""Drafts: they shorten a completion's time, and change none of its tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines import FinishReason, SampledToken, Sampling, TransformersEngine
from gpt_oss_harmony.engines.drafts import LONGEST_DRAFT, Drafts
from support.engine_contract import PROMPT, SHORT_TURN
from support.shared_model import OPTIONS, write_model

MODEL = 201_088  # tokens of its vocabulary
ENCODING = load_harmony_encoding("HarmonyGptOss")
LONG_PROMPT = PROMPT * 9
"""Two tokens less than the window of the model, which a completion so leaves."""
SONG = "Row, row, row your boat, gently down the stream. Row, row, row your"


@pytest.mark.parametrize(
    ("before", "draft"),
    [
        ("<|end|><|start|>assistant", "<|channel|>analysis<|message|>"),
        ("<|start|>assistant<|channel|>analysis", "<|message|>"),
        ("<|start|>assistant<|channel|>final", "<|message|>"),
        ("That is all.<|end|>", "<|start|>assistant<|channel|>final<|message|>"),
        ("<|start|>assistant<|channel|>final<|message|>What", ""),
        (SONG, " boat"),
    ],
)
def test_what_is_drafted(before: str, draft: str) -> None:
    tokens = ENCODING.encode(before, allowed_special="all")
    assert ENCODING.decode(Drafts(tokens, MODEL).next(LONGEST_DRAFT)) == draft


def test_drafts_of_repeated_text_grow_while_they_are_right() -> None:
    text = [*range(20), 0, 1, 2]
    drafts = Drafts(text, MODEL)
    lengths = []
    for _ in range(3):
        draft = drafts.next(LONGEST_DRAFT)
        lengths.append(len(draft))
        drafts.take(draft, len(draft), len(draft))
    assert lengths == [1, 2, 4]
    draft = drafts.next(LONGEST_DRAFT)
    drafts.take([draft[0], 9, 10, 11], len(draft), 1)
    assert drafts.next(LONGEST_DRAFT) == [12]


@pytest.mark.parametrize(("length", "draft"), [(-1, []), (0, []), (2, [3]), (5, [3])])
def test_drafts_have_room_and_tokens_of_the_model(length: int, draft: list[int]) -> None:
    drafts = Drafts([0, 1, 2, 3, 4, 0, 1, 2], vocabulary_size=4)
    assert drafts.next(length) == draft
    drafts.take([3], 0, 0)
    assert drafts.next(5) == []  # 4 is no token of the model


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersEngine]:
    folder: Path = tmp_path_factory.mktemp("model")
    write_model(folder, tied=False)
    engine = TransformersEngine.load(folder, **OPTIONS)
    try:
        if not engine.skips_forced:
            pytest.skip("requests run one after the other with this release of Transformers")
        yield engine
    finally:
        asyncio.run(engine.close())


Script = Callable[[list[int], int], list[int]]


def run(
    engine: TransformersEngine,
    monkeypatch: pytest.MonkeyPatch,
    samplings: list[Sampling],
    script: Script,
) -> tuple[list[list[SampledToken]], int]:
    """Complete the prompt with drafts of a script, and count the steps of the completions."""
    steps = 0
    take = Drafts.take

    def next_of_script(drafts: Drafts, length: int) -> list[int]:
        return script(drafts._tokens[len(LONG_PROMPT) :], length)

    def counted(drafts: Drafts, tokens: list[int], drafted: int, right: int) -> None:
        nonlocal steps
        steps += 1
        take(drafts, tokens, drafted, right)

    async def completed() -> list[list[SampledToken]]:
        async def one(sampling: Sampling) -> list[SampledToken]:
            return [sampled async for sampled in engine.generate(LONG_PROMPT, sampling)]

        return await asyncio.gather(*map(one, samplings))

    monkeypatch.setattr(Drafts, "next", next_of_script)
    monkeypatch.setattr(Drafts, "take", counted)
    try:
        return asyncio.run(completed()), steps
    finally:
        monkeypatch.undo()


def right_until(completion: list[SampledToken], count: int) -> Script:
    """Draft the completion; after `count` tokens of each draft, wrong tokens."""
    tokens = [sampled.token for sampled in completion]

    def draft(before: list[int], length: int) -> list[int]:
        right = tokens[len(before) : len(before) + length]
        return [token if index < count else 7 for index, token in enumerate(right)]

    return draft


def no_draft(before: list[int], length: int) -> list[int]:
    return []


SAMPLINGS = {
    "greedy": Sampling(temperature=0, max_tokens=24, logprobs=2),
    "seed": Sampling(seed=1, top_k=50, max_tokens=24, logprobs=0),
    "penalties": Sampling(
        seed=2, top_k=20, frequency_penalty=1, repetition_penalty=1.2, max_tokens=24
    ),
    "a grammar": Sampling(seed=3, top_k=20, max_tokens=24, grammar=SHORT_TURN),
    "a grammar, nothing forced": Sampling(
        seed=3, top_k=20, max_tokens=24, grammar=SHORT_TURN, logprobs=1
    ),
}


@pytest.mark.parametrize("name", SAMPLINGS)
def test_drafts_change_no_completion(
    engine: TransformersEngine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = SAMPLINGS[name]
    (expected,), without = run(engine, monkeypatch, [sampling], no_draft)
    for right in (0, 2, LONGEST_DRAFT):
        (completion,), steps = run(engine, monkeypatch, [sampling], right_until(expected, right))
        assert [sampled._replace(logprob=None, top_logprobs=None) for sampled in completion] == [
            sampled._replace(logprob=None, top_logprobs=None) for sampled in expected
        ]
        if sampling.logprobs is not None:
            assert [sampled.logprob for sampled in completion] == pytest.approx(
                [sampled.logprob for sampled in expected], abs=1e-4
            )
        if "forced" in name or sampling.grammar is None:
            assert steps <= without // (right + 1) + 1


def test_a_draft_ends_with_the_completion(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = Sampling(temperature=0, max_tokens=12)
    (expected,), _ = run(engine, monkeypatch, [sampling], no_draft)
    stop = expected[5].token
    sampling = Sampling(temperature=0, max_tokens=12, stop_tokens=frozenset([stop]))
    (completion,), _ = run(engine, monkeypatch, [sampling], right_until(expected, LONGEST_DRAFT))
    tokens = [sampled.token for sampled in expected]
    assert [sampled.token for sampled in completion] == tokens[: tokens.index(stop) + 1]
    assert completion[-1].finish_reason is FinishReason.STOP


def test_requests_with_drafts_run_beside_others(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    samplings = [Sampling(temperature=0, max_tokens=length) for length in (10, 20, 30)]
    (expected,), _ = run(engine, monkeypatch, samplings[-1:], no_draft)
    completions, steps = run(engine, monkeypatch, samplings, right_until(expected, 2))
    for sampling, completion in zip(samplings, completions, strict=True):
        tokens = [sampled.token for sampled in completion]
        assert tokens == [sampled.token for sampled in expected[: sampling.max_tokens]]
    assert steps < 45  # of 60 tokens
