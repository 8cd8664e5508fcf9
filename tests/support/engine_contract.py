"""What every engine promises, as checks that take one; also run against real servers.

`prompt` is a conversation that the model would answer at length.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import math
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from gpt_oss_harmony import Conversation, Message, Role, load_harmony_encoding
from gpt_oss_harmony.engines import (
    ContextLengthError,
    Engine,
    EngineError,
    FinishReason,
    SampledToken,
    Sampling,
    SamplingError,
)
from gpt_oss_harmony.grammar import Matcher, TurnOptions, turn_grammar
from gpt_oss_harmony.tokens.special_tokens import CALL, RETURN

ENCODING = load_harmony_encoding("HarmonyGptOss")
CONVERSATION = Conversation.from_messages(
    [Message.from_role_and_content(Role.USER, "Write a long story about a lighthouse.")]
)
PROMPT = ENCODING.render_conversation_for_completion(CONVERSATION, Role.ASSISTANT)
OPEN_PROMPT = ENCODING.encode("Once upon a time")
"""A prompt without headers: a model that was trained on conversations is not certain after it."""
SHORT_TURN = turn_grammar(
    CONVERSATION, TurnOptions(reasoning_messages=1, reasoning_tokens=4, text_tokens=6)
)
STOPS = frozenset((RETURN, CALL))
CONCURRENT = 16
LENGTH = 16
PATIENCE = 30  # seconds for what must not take long, also on a busy machine

Check = Callable[[Engine], Awaitable[None]]


async def sample(
    engine: Engine, sampling: Sampling, prompt: list[int] = PROMPT
) -> list[SampledToken]:
    async with aclosing(engine.generate(prompt, sampling)) as completion:
        return [sampled async for sampled in completion]


async def tokens_of(engine: Engine, **settings: object) -> list[int]:
    sampling = dataclasses.replace(Sampling(max_tokens=LENGTH), **settings)  # type: ignore[arg-type]
    return [sampled.token for sampled in await sample(engine, sampling)]


async def is_ready(engine: Engine) -> None:
    health = await engine.health()
    assert health.ready, health.detail
    assert engine.model
    assert engine.context_length > len(PROMPT) + LENGTH


async def sixteen_concurrent_requests_give_the_same_tokens_as_alone(engine: Engine) -> None:
    async def few(seed: int) -> list[int]:
        return await tokens_of(engine, seed=seed, max_tokens=8)

    alone = [await few(seed) for seed in range(CONCURRENT)]
    assert await asyncio.gather(*map(few, range(CONCURRENT))) == alone


async def the_same_seed_gives_the_same_tokens(engine: Engine) -> None:
    async def told(seed: int | None) -> list[int]:
        sampling = Sampling(seed=seed, temperature=2, max_tokens=LENGTH)
        return [sampled.token for sampled in await sample(engine, sampling, OPEN_PROMPT)]

    first, again, other = [await told(seed) for seed in (7, 7, 8)]
    assert first == again
    assert first != other
    assert await told(2**70 + 1) == await told(2**70 + 1)
    assert await told(None) != await told(None)


async def closing_frees_the_slot(engine: Engine) -> None:
    async with aclosing(engine.generate(PROMPT, Sampling(seed=1))) as completion:
        for _ in range(3):
            await anext(completion)
        assert (await engine.health()).running == 1
    assert (await engine.health()).running == 0
    assert await tokens_of(engine, seed=2)


async def cancelling_frees_the_slot(engine: Engine) -> None:
    tasks = [
        asyncio.ensure_future(sample(engine, Sampling(seed=seed))) for seed in range(CONCURRENT)
    ]
    await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.wait_for(asyncio.wait(tasks), PATIENCE)
    assert (await engine.health()).running == 0
    assert await tokens_of(engine, seed=2)


async def the_last_token_has_the_finish_reason(engine: Engine) -> None:
    found = await sample(engine, Sampling(temperature=0, max_tokens=LENGTH))
    assert len(found) == LENGTH
    assert [one.finish_reason for one in found] == [None] * (LENGTH - 1) + [FinishReason.LENGTH]
    assert {one.cached_tokens for one in found[:-1]} == {None}
    assert 0 <= (found[-1].cached_tokens or 0) < len(PROMPT)
    (only,) = await sample(engine, Sampling(max_tokens=1))
    assert only.finish_reason is FinishReason.LENGTH


async def stop_tokens_end_the_completion_and_are_part_of_it(engine: Engine) -> None:
    greedy = await tokens_of(engine, temperature=0)
    stop = greedy[LENGTH // 2]
    sampling = Sampling(temperature=0, max_tokens=LENGTH, stop_tokens=STOPS | {stop})
    found = await sample(engine, sampling)
    assert [one.token for one in found] == greedy[: greedy.index(stop) + 1]
    assert found[-1].finish_reason is FinishReason.STOP


async def settings_that_keep_one_token_are_greedy(engine: Engine) -> None:
    greedy = await tokens_of(engine, temperature=0)
    assert await tokens_of(engine, top_k=1, seed=1) == greedy
    assert await tokens_of(engine, min_p=1.0, seed=1) == greedy
    assert await tokens_of(engine, top_p=1e-6, seed=1) == greedy


async def penalties_prevent_repeated_tokens(engine: Engine) -> None:
    def most(tokens: list[int]) -> int:
        return max(collections.Counter(tokens).values())

    greedy = await tokens_of(engine, temperature=0)
    for settings in ({"frequency_penalty": 2.0}, {"presence_penalty": 2.0}):
        assert most(await tokens_of(engine, temperature=0, **settings)) <= most(greedy)
    try:
        tokens = await tokens_of(engine, temperature=0, repetition_penalty=100.0)
    except SamplingError:  # SGLang takes at most 2
        tokens = await tokens_of(engine, temperature=0, repetition_penalty=2.0)
        assert most(tokens) <= most(greedy)
    else:
        assert most(tokens) == 1


async def logprobs_match_the_model(engine: Engine) -> None:
    cold = await sample(engine, Sampling(temperature=0, max_tokens=8, logprobs=3))
    for one in cold:
        assert one.logprob is not None
        assert one.top_logprobs is not None
        assert len(one.top_logprobs) == 3
        values = [value for _, value in one.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert sum(map(math.exp, values)) <= 1.001
        assert math.isclose(values[0], one.logprob, abs_tol=1e-3)
    (warm,) = await sample(engine, Sampling(seed=3, temperature=2, max_tokens=1, logprobs=3))
    assert warm.top_logprobs is not None
    assert cold[0].top_logprobs is not None
    assert [token for token, _ in warm.top_logprobs] == [t for t, _ in cold[0].top_logprobs]
    (own,) = await sample(engine, Sampling(seed=3, temperature=2, max_tokens=1, logprobs=0))
    assert own.token == warm.token
    assert own.logprob is not None
    assert warm.logprob is not None
    assert math.isclose(own.logprob, warm.logprob, abs_tol=1e-3)
    assert own.top_logprobs == ()
    (none,) = await sample(engine, Sampling(max_tokens=1))
    assert none.logprob is None
    assert none.top_logprobs is None


async def grammars_are_enforced(engine: Engine) -> None:
    async def turn(seed: int) -> list[SampledToken]:
        return await sample(engine, Sampling(seed=seed, max_tokens=400, grammar=SHORT_TURN))

    for completion in await asyncio.gather(*map(turn, range(2))):
        tokens = [one.token for one in completion]
        assert completion[-1].finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        assert Matcher(SHORT_TURN).accept_all(tokens) == len(tokens)
        if completion[-1].finish_reason is FinishReason.STOP:
            messages = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
            assert messages[-1].channel == "final"


async def prompts_that_do_not_fit_are_refused_with_their_length(engine: Engine) -> None:
    error = await refusal(engine, [PROMPT[0]] * (engine.context_length + 5))
    assert isinstance(error, ContextLengthError)
    assert error.prompt_length == engine.context_length + 5
    assert error.context_length == engine.context_length
    assert f"maximum context length is {engine.context_length} tokens" in str(error)


async def prompts_with_unknown_tokens_are_refused(engine: Engine) -> None:
    for prompt in ([], [201_088], [-1]):
        assert isinstance(await refusal(engine, prompt), SamplingError)


async def refusal(engine: Engine, prompt: list[int]) -> EngineError | None:
    try:
        await anext(engine.generate(prompt))
    except EngineError as error:
        return error
    return None


CHECKS: list[Check] = [
    is_ready,
    the_last_token_has_the_finish_reason,
    stop_tokens_end_the_completion_and_are_part_of_it,
    the_same_seed_gives_the_same_tokens,
    sixteen_concurrent_requests_give_the_same_tokens_as_alone,
    closing_frees_the_slot,
    cancelling_frees_the_slot,
    settings_that_keep_one_token_are_greedy,
    penalties_prevent_repeated_tokens,
    logprobs_match_the_model,
    grammars_are_enforced,
    prompts_that_do_not_fit_are_refused_with_their_length,
    prompts_with_unknown_tokens_are_refused,
]
