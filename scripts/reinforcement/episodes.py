"""Episodes: the model is asked for a product, calls Python, reads the result and answers.

At high effort, the demo model often answers these questions by "I don't know." (a defect that its
model card names). Sampled tokens are never rendered again: a `TokenSequence` goes on from them.
One pair of numbers in four is held out: it is never trained on.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gpt_oss_harmony import Author, Conversation, Message, ReasoningEffort, Role, SystemContent
from gpt_oss_harmony.engines import Engine, Sampling
from gpt_oss_harmony.grammar import turn_grammar
from gpt_oss_harmony.training import (
    IGNORED,
    TokenSequence,
    TrainingOptions,
    training_examples,
)

__all__ = ["Episode", "Question", "differing_tokens", "play_groups", "questions", "rerendered"]

_PHRASES = ("Use Python to compute {}.", "Use Python to calculate {}.")
_CODE = re.compile(r"print\((\d{1,3}) \* (\d{1,3})\)")
_TURNS = 3


@dataclass(frozen=True)
class Question:
    """A product of two numbers, in words."""

    phrase: str
    first: int
    second: int

    def conversation(self) -> Conversation:
        """Make the conversation that begins an episode."""
        system = SystemContent.new().with_reasoning_effort(ReasoningEffort.HIGH).with_python_tool()
        asked = self.phrase.format(f"{self.first} * {self.second}")
        return Conversation.from_messages(
            [
                Message.from_role_and_content(Role.SYSTEM, system),
                Message.from_role_and_content(Role.USER, asked),
            ]
        )


def questions(rng: Random, count: int, *, held_out: bool = False) -> list[Question]:
    """Draw questions: those that are held out, or the others."""
    drawn: list[Question] = []
    while len(drawn) < count:
        question = Question(rng.choice(_PHRASES), rng.randrange(2, 100), rng.randrange(2, 100))
        if ((question.first + question.second) % 4 == 0) is held_out:
            drawn.append(question)
    return drawn


@dataclass(frozen=True)
class Episode:
    """The tokens of an episode, and what they are worth."""

    question: Question
    sequence: TokenSequence
    is_malformed: bool
    """Whether the parser repaired something, or sampling did not end."""

    @property
    def reward(self) -> float:
        """1 for a well-formed episode with the product in its answer, else 0."""
        messages = self.sequence.messages
        called = any(message.recipient == "python" for message in messages)
        last = messages[-1]
        if self.is_malformed or not called or last.channel != "final":
            return 0.0
        value = self.question.first * self.question.second
        return float(re.search(rf"\b{value}\b", _text(last)) is not None)


async def play_groups(
    engine: Engine,
    asked: Sequence[Question],
    size: int,
    *,
    seed: int,
    temperature: float = 1.0,
    constrained: bool = False,
) -> list[list[Episode]]:
    """Play `size` episodes of each question, all at once."""

    async def play(number: int, question: Question) -> Episode:
        conversation = question.conversation()
        sampling = Sampling(
            temperature=temperature,
            seed=seed * 100_000 + number,
            max_tokens=64,
            logprobs=0,
            grammar=turn_grammar(conversation) if constrained else None,
        )
        sequence = TokenSequence.of_prompt(conversation)
        is_malformed = False
        for _ in range(_TURNS):
            sampled = [token async for token in engine.generate(sequence.input_ids, sampling)]
            logprobs = [token.logprob or 0.0 for token in sampled]
            sequence = sequence.add_sampled([token.token for token in sampled], logprobs)
            is_cut = sampled[-1].token not in sampling.stop_tokens
            is_malformed = is_malformed or is_cut or bool(sequence.recoveries)
            called = sequence.messages[-1] if sequence.messages else None
            if called is None or called.recipient != "python":
                break
            sequence = sequence.extend([_result(called)])
        return Episode(question, sequence, is_malformed)

    numbered = [question for question in asked for _ in range(size)]
    episodes = await asyncio.gather(*(play(n, question) for n, question in enumerate(numbered)))
    return [episodes[start : start + size] for start in range(0, len(episodes), size)]


def rerendered(sequence: TokenSequence) -> TokenSequence:
    """Render the messages of an episode again, as a loop does that keeps messages, not tokens.

    The log-probabilities are NaN: the engine did not sample these tokens.
    """
    conversation = Conversation.from_messages(sequence.messages)
    options = TrainingOptions(keep_past_reasoning=True)  # one example, whatever was sampled
    for example in training_examples(conversation, options):
        return TokenSequence(example.input_ids, example.labels, [math.nan] * len(example))
    return TokenSequence.of_prompt(conversation)  # nothing that was sampled is a message


def differing_tokens(first: TokenSequence, second: TokenSequence) -> int:
    """Count the trained tokens that the other sequence does not have at the same place."""
    sampled = [[label for label in s.labels if label != IGNORED] for s in (first, second)]
    same: int = sum(one == other for one, other in zip(*sampled, strict=False))
    return max(map(len, sampled)) - same


def _result(called: Message) -> Message:
    """Run the one kind of program that the tool knows."""
    program = _CODE.fullmatch(_text(called))
    output = str(int(program[1]) * int(program[2])) if program else "SyntaxError"
    message = Message.from_author_and_content(Author.new(Role.TOOL, "python"), output)
    return message.with_recipient("assistant").with_channel("analysis")


def _text(message: Message) -> str:
    return "".join(getattr(item, "text", "") for item in message.content)
