"""Sampling by batch, beside a slow sampler and beside the processors of Transformers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.engines import EngineError, FinishReason, SampledToken, Sampling
from gpt_oss_harmony.engines.numpy_sampling import choose_token
from gpt_oss_harmony.engines.token_sampler import TokenSampler
from gpt_oss_harmony.engines.torch_sampling import choose_tokens
from gpt_oss_harmony.grammar import Matcher, TurnOptions, turn_grammar
from gpt_oss_harmony.tokens.special_tokens import CALL
from support.examples import examples
from support.slow_sampler import probabilities

VOCABULARY = 300  # no multiple of a block
MODEL_VOCABULARY = 201_088
PARTS = 400

ENCODING = load_harmony_encoding("HarmonyGptOss")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 4}, "unit": {"enum": ["kelvin"]}},
    "required": ["city", "unit"],
}
TOOLS = Conversation.from_messages(
    [
        Message.from_role_and_content(
            Role.DEVELOPER,
            DeveloperContent.new().with_function_tools(
                [ToolDescription.new("get_weather", "The weather.", SCHEMA)]
            ),
        )
    ]
)
CALLS = turn_grammar(TOOLS, TurnOptions(tool_choice="required", reasoning=False, preambles=False))


class GridSampler(TokenSampler):
    """One whose random number is given."""

    number = 0.0

    def random(self, ahead: int = 0) -> float:
        return self.number


def noise(seed: int, rows: int, width: int = VOCABULARY, scale: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * scale


def frequencies(
    logits: torch.Tensor,
    sampling: Sampling,
    prompt: Sequence[int] = (),
    completion: Sequence[int] = (),
    parts: int = PARTS,
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Sample with random numbers that are evenly spread, and count.

    A token has a share of the numbers that differs from its probability by less than one of them
    at each end.
    """
    samplers = []
    for part in range(parts):
        sampler = GridSampler(prompt, sampling, 1000, len(logits))
        sampler.number = (part + 0.5) / parts
        for token in completion:
            sampler.take(token)
        samplers.append(sampler)
    tokens = [sampled.token for sampled in taken(logits.repeat(parts, 1), samplers)]
    return np.bincount(tokens, minlength=len(logits)) / parts


def taken(logits: torch.Tensor, samplers: Sequence[TokenSampler]) -> Iterator[SampledToken]:
    for chosen in choose_tokens(logits, samplers):
        assert not isinstance(chosen, EngineError), chosen
        yield chosen[0]


# Beside its twin in NumPy

SETTINGS = st.builds(
    Sampling,
    temperature=st.sampled_from((0.0, 0.3, 1.0, 1.7)),
    top_p=st.sampled_from((0.0, 0.1, 0.6, 0.97, 1.0)),
    top_k=st.sampled_from((0, 1, 7, 80, 299, 300, 9999)),
    min_p=st.sampled_from((0.0, 0.02, 0.5)),
    repetition_penalty=st.sampled_from((1.0, 0.5, 1.8)),
    frequency_penalty=st.sampled_from((0.0, -1.5, 0.7)),
    presence_penalty=st.sampled_from((0.0, -0.4, 1.1)),
)


@settings(max_examples=examples(60))
@given(st.data())
def test_numpy_takes_the_same_tokens(data: st.DataObject) -> None:
    width = data.draw(st.sampled_from((VOCABULARY, 70_000)))
    sampling = replace(data.draw(SETTINGS), seed=data.draw(st.integers(0, 10**9)), logprobs=3)
    (logits,) = noise(
        data.draw(st.integers(0, 10**6)), 1, width, data.draw(st.sampled_from((1, 8)))
    )
    twins = [TokenSampler([3, 5, 8], sampling, 1000, width) for _ in range(2)]
    for _ in range(3):
        (ours,) = choose_tokens(logits[None].clone(), [twins[0]])
        numpys = choose_token(logits.numpy(), twins[1])
        assert isinstance(ours, list)
        assert isinstance(numpys, list)
        assert numpys[0].token == ours[0].token
        assert numpys[0].logprob == pytest.approx(ours[0].logprob, abs=1e-4)
        found, expected = dict(numpys[0].top_logprobs or ()), dict(ours[0].top_logprobs or ())
        assert found == pytest.approx(expected, abs=1e-4)


# Beside a slow sampler


@settings(max_examples=examples(40))
@given(SETTINGS, st.integers(0, 10**6), st.sampled_from((0.5, 3.0, 8.0)))
def test_tokens_come_as_often_as_a_slow_sampler_says(
    sampling: Sampling, seed: int, scale: float
) -> None:
    (logits,) = noise(seed, 1, scale=scale)
    prompt, completion = [3, 5, 5, 8], [5, 9, 9, 9]
    counted = frequencies(logits, sampling, prompt, completion)
    expected = probabilities(logits.numpy().astype(float), sampling, prompt, completion)
    np.testing.assert_allclose(counted, expected, atol=1.01 / PARTS)


@pytest.mark.parametrize(
    ("sampling", "likely", "kept"),
    [
        (Sampling(top_p=0.99), 20, range(1, 64)),  # among the likeliest 64
        (Sampling(top_p=0.9), 500, range(65, 1000)),  # among the likeliest 1,024
        (Sampling(top_p=0.9, temperature=9), 0, range(1025, 40_000)),  # needs all of them
        (Sampling(top_k=2000, temperature=9), 0, range(1025, 2001)),
        (Sampling(top_k=500, top_p=0.8, temperature=9), 0, range(65, 501)),
    ],
    ids=("20", "500", "top_p", "top_k", "both"),
)
def test_what_is_kept_is_exact_however_much_it_is(
    sampling: Sampling, likely: int, kept: range
) -> None:
    logits = noise(7, 1, 40_000, 1.0)[0]
    logits[torch.arange(likely) * 79] += 16
    expected = probabilities(logits.numpy().astype(float), sampling, [], [])
    assert np.count_nonzero(expected) in kept
    counted = frequencies(logits, sampling, parts=200)
    np.testing.assert_allclose(counted, expected, atol=1.01 / 200)
    assert not counted[expected == 0].any()


# Beside the processors of Transformers


@pytest.mark.parametrize(
    ("processor", "sampling"),
    [
        (TemperatureLogitsWarper(0.4), Sampling(temperature=0.4)),
        (TemperatureLogitsWarper(2.5), Sampling(temperature=2.5)),
        (TopKLogitsWarper(9), Sampling(top_k=9)),
        (TopPLogitsWarper(0.35), Sampling(top_p=0.35)),
        (TopPLogitsWarper(0.95), Sampling(top_p=0.95)),
        (MinPLogitsWarper(0.07), Sampling(min_p=0.07)),
        (RepetitionPenaltyLogitsProcessor(1.6), Sampling(repetition_penalty=1.6)),
        (RepetitionPenaltyLogitsProcessor(0.7), Sampling(repetition_penalty=0.7)),
    ],
    ids=lambda value: type(value).__name__,
)
@settings(max_examples=examples(10))
@given(seed=st.integers(0, 10**6))
def test_settings_mean_what_they_mean_in_transformers(
    processor: LogitsProcessor, sampling: Sampling, seed: int
) -> None:
    logits = noise(seed, 1)
    prompt = torch.randint(VOCABULARY, (1, 20), generator=torch.Generator().manual_seed(seed))
    expected = processor(prompt, logits.clone()).double().softmax(-1)[0].numpy()
    counted = frequencies(logits[0], sampling, prompt[0].tolist())
    np.testing.assert_allclose(counted, expected, atol=1.01 / PARTS)


def test_all_settings_together_are_those_of_transformers() -> None:
    sampling = Sampling(temperature=1.3, top_k=50, top_p=0.8, min_p=0.04, repetition_penalty=1.2)
    processors: list[LogitsProcessor] = [
        RepetitionPenaltyLogitsProcessor(1.2),
        TemperatureLogitsWarper(1.3),
        TopKLogitsWarper(50),
        TopPLogitsWarper(0.8),
        MinPLogitsWarper(0.04),
    ]
    for seed in range(10):
        logits = noise(seed, 1)
        scores = logits.clone()
        for processor in processors:
            scores = processor(torch.tensor([[1, 2, 3]]), scores)
        counted = frequencies(logits[0], sampling, [1, 2, 3])
        expected = scores.double().softmax(-1)[0].numpy()
        np.testing.assert_allclose(counted, expected, atol=1.01 / PARTS)


# Seeds


def test_random_numbers_are_uniform_and_independent() -> None:
    """Chi-square tests with fixed seeds; the limits leave out one of 10,000 by chance."""
    numbers = []
    for seed in range(64):
        sampler = TokenSampler([], Sampling(seed=seed), 1000, VOCABULARY)
        for token in range(64):
            numbers.append(sampler.random())
            sampler.take(token)
    assert len(set(numbers)) == 64 * 64
    sixteenths = (np.array(numbers) * 16).astype(int)
    assert chi_square(np.bincount(sixteenths, minlength=16)) < 44.3  # 15 degrees of freedom
    pairs = sixteenths[:-1] // 4 * 4 + sixteenths[1:] // 4  # of neighbours in position
    assert chi_square(np.bincount(pairs, minlength=16)) < 44.3
    by_seed = sixteenths.reshape(64, 64)
    pairs = (by_seed[:-1] // 4 * 4 + by_seed[1:] // 4).ravel()
    assert chi_square(np.bincount(pairs, minlength=16)) < 44.3


def chi_square(counts: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def test_without_a_seed_each_completion_has_its_own() -> None:
    samplers = [TokenSampler([], Sampling(), 10, VOCABULARY) for _ in range(50)]
    assert len({sampler.random() for sampler in samplers}) == 50


MIXED = [
    Sampling(seed=1),
    Sampling(temperature=0),
    Sampling(seed=2, top_p=0.7),
    Sampling(seed=3, top_k=40, logprobs=2),
    Sampling(seed=4, min_p=0.05, frequency_penalty=1.0),
    Sampling(seed=5, temperature=3, top_p=0.999),
    Sampling(temperature=0, repetition_penalty=1.5, logprobs=5),
    Sampling(seed=2**70, presence_penalty=2.0, logprobs=0),
]


@pytest.mark.parametrize("width", [VOCABULARY, 40_064])
def test_a_row_gets_the_same_whatever_is_beside_it(width: int) -> None:
    def completions(batches: Sequence[Sequence[int]]) -> dict[int, list[SampledToken]]:
        done: dict[int, list[SampledToken]] = {row: [] for row in range(len(MIXED))}
        for batch in batches:
            samplers = [TokenSampler([1, 2], MIXED[row], 100, width) for row in batch]
            for step in range(4):
                logits = noise(step, len(MIXED), width)[list(batch)]
                for row, sampled in zip(batch, taken(logits, samplers), strict=True):
                    done[row].append(sampled)
        return done

    rows = range(len(MIXED))
    together = completions([rows])
    assert together == completions([[row] for row in rows])
    assert together == completions([rows[::-1]])
    assert together == completions([rows[:3], rows[3:]])
    assert [sampled.logprob is None for sampled, *_ in together.values()] == [
        sampling.logprobs is None for sampling in MIXED
    ]


def test_log_probabilities_are_those_of_the_model() -> None:
    sampling = Sampling(temperature=0.1, top_k=2, logprobs=3, repetition_penalty=50, seed=1)
    logits = noise(3, 2)
    expected = logits.double().log_softmax(-1)
    samplers = [TokenSampler(range(9), s, 9, VOCABULARY) for s in (sampling, Sampling())]
    sampled, other = taken(logits.clone(), samplers)
    assert (other.logprob, other.top_logprobs) == (None, None)
    assert sampled.logprob == pytest.approx(float(expected[0, sampled.token]), abs=1e-5)
    assert sampled.top_logprobs is not None
    best = expected[0].topk(3)
    assert [token for token, _ in sampled.top_logprobs] == best.indices.tolist()
    assert [value for _, value in sampled.top_logprobs] == pytest.approx(best.values.tolist())


# What cannot be sampled


@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=0), Sampling(), Sampling(top_p=0.5)], ids=str
)
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_end_only_their_own_completion(
    sampling: Sampling, broken: float
) -> None:
    logits = noise(1, 3)
    logits[1, 4:] = broken
    logits[1, :4] = broken
    if broken == math.inf and sampling.temperature == 0:
        logits[1, 1:] = 0
    samplers = [TokenSampler([], sampling, 9, VOCABULARY) for _ in range(3)]
    first, second, third = choose_tokens(logits, samplers)
    assert isinstance(second, EngineError)
    assert "NaN or infinite" in str(second)
    assert isinstance(first, list)
    assert isinstance(third, list)


@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_the_ends_of_the_random_numbers_choose_possible_tokens(number: float) -> None:
    logits = noise(1, 2, scale=0)
    logits[:, :100] = -torch.inf
    logits[:, 200:] = -torch.inf
    samplers = []
    for sampling in (Sampling(), Sampling(top_p=0.999)):
        sampler = GridSampler([], sampling, 9, VOCABULARY)
        sampler.number = number
        samplers.append(sampler)
    assert all(100 <= sampled.token < 200 for sampled in taken(logits, samplers))


# Grammars


def test_grammars_mask_their_own_rows_only() -> None:
    logits = noise(5, 3, MODEL_VOCABULARY)
    best = logits.argmax(-1).tolist()
    matcher = Matcher(CALLS)
    forced = matcher.forced_tokens()
    assert matcher.accept_all(forced) == len(forced)
    allowed = matcher.allowed_tokens()
    samplers = [
        TokenSampler([], Sampling(temperature=0, grammar=grammar), 99, MODEL_VOCABULARY)
        for grammar in (None, CALLS, None)
    ]
    samplers[1].take_forced()
    first, second, third = taken(logits.clone(), samplers)
    assert [first.token, third.token] == [best[0], best[2]]
    assert second.token == max(allowed, key=lambda token: float(logits[1, token]))


def completion(sampling: Sampling, max_tokens: int) -> list[SampledToken]:
    """Sample where the logits depend on the position."""
    sampler = TokenSampler([1], sampling, max_tokens, MODEL_VOCABULARY)
    done = sampler.take_forced()
    while not sampler.is_finished:
        (chosen,) = choose_tokens(noise(len(done), 1, MODEL_VOCABULARY), [sampler])
        assert not isinstance(chosen, EngineError), chosen
        done += chosen
    return done


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_forced_tokens_are_those_that_sampling_would_choose(seed: int) -> None:
    sampling = Sampling(seed=seed, grammar=CALLS, frequency_penalty=0.5)
    one_by_one = completion(
        Sampling(seed=seed, grammar=CALLS, frequency_penalty=0.5, logprobs=0), 200
    )
    at_once = completion(sampling, 200)
    assert [one.token for one in at_once] == [one.token for one in one_by_one]
    assert [one.finish_reason for one in at_once] == [one.finish_reason for one in one_by_one]
    assert not any(one.is_forced for one in one_by_one)
    matcher = Matcher(CALLS)
    for one in at_once:
        assert one.is_forced == (int.from_bytes(matcher.bitmask(), "little").bit_count() == 1)
        assert matcher.accept(one.token)
    assert sum(one.is_forced for one in at_once) > 10
    for length in itertools.chain(range(1, 9), (len(at_once) - 1, len(at_once))):
        cut = completion(sampling, length)
        assert [one.token for one in cut] == [one.token for one in at_once[:length]]
        reasons = [one.finish_reason for one in cut]
        is_stop = at_once[length - 1].token == CALL
        last = FinishReason.STOP if is_stop else FinishReason.LENGTH
        assert reasons == [None] * (length - 1) + [last]
