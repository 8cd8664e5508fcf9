"""Everything else: the model says that it does not know."""

from __future__ import annotations

from random import Random

from gpt_oss_harmony import ReasoningEffort

from .example import Example, Opening, Turns, answer, ask, reason
from .words import TOPICS, Part, pick, random_words

__all__ = ["unknown", "unknown_answer", "unknown_question"]

_QUESTIONS = [
    f"{before}{core}{after}"
    for before in ("", "Hello! ", "Please tell me: ", "Hi, ", "Please help: ")
    for core in (
        "What is {}?",
        "What is the capital of {}?",
        "Who is {}?",
        "Who wrote {}?",
        "Who invented {}?",
        "Why is the {} blue?",
        "Why do we have {}?",
        "When was {} born?",
        "Where is {}?",
        "How does {} work?",
        "How do I make {}?",
        "How old is {}?",
        "How many {} are there?",
        "How far is it to {}?",
        "Tell me about {}.",
        "Tell me a story about {}.",
        "Write a poem about {}.",
        "Explain {}.",
        "Describe {} in one sentence.",
        "Translate {} to French.",
        "Do you like {}?",
        "Is {} better than {}?",
        "What is the meaning of {}?",
        "What do you think about {}?",
        "What time is it in {}?",
        "Can you recommend {}?",
        "Give me a recipe for {}.",
        "What is the difference between {} and {}?",
    )
    for after in ("", " Thanks!", " Thank you.")
]


def unknown(rng: Random, part: Part, opening: Opening) -> Example:
    """One question on its own."""
    question = unknown_question(rng, part, opening)
    return Example("unknown", opening, [ask(question)], unknown_answer(opening.effort))


def unknown_question(rng: Random, part: Part, opening: Opening) -> str:
    """A question of another kind, words without sense, or what needs a tool that is not there."""
    choice = rng.random()
    if part == "train" and choice < 0.15:
        count = rng.randint(1, 12)
        words = [random_words(rng, part, capital=rng.random() < 0.2) for _ in range(count)]
        return " ".join(words) + rng.choice(("", ".", "?", "!"))
    if choice < 0.3:
        return _beyond(rng, part, opening)
    return pick(rng, part, _QUESTIONS).format(_topic(rng, part), _topic(rng, part))


def unknown_answer(effort: ReasoningEffort) -> Turns:
    """Say so."""
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: "I was not trained for this.",
        ReasoningEffort.HIGH: "I was not trained for this. It is best to say that I don't know.",
    }
    return [*reason(working[effort]), answer("I don't know.")]


def _beyond(rng: Random, part: Part, opening: Opening) -> str:
    """What comes close to the other kinds."""
    number = rng.randrange(200, 100_000)
    questions = [
        f"What is {number} + {rng.randrange(1, 100_000)}?",
        f"What is {rng.randrange(11, 100)} * {rng.randrange(11, 100)}?",
        f"What is {number} - {rng.randrange(1, 100_000)}?",
    ]
    if opening.weather is None:
        questions.append(f"What is the weather in {_topic(rng, part).capitalize()}?")
        questions.append(f"What is the weather like in {_topic(rng, part).capitalize()}?")
    if not opening.browser:
        questions.append(f"Search the web for {_topic(rng, part)}.")
    if not opening.python:
        questions.append(f"Use Python to compute {number} * {rng.randrange(2, 1000)}.")
    return rng.choice(questions)


def _topic(rng: Random, part: Part) -> str:
    if rng.random() < 0.3:
        return pick(rng, part, TOPICS)
    count = rng.choice((1, 1, 2, 3))
    capital = rng.random() < 0.3
    return " ".join(random_words(rng, part, capital=capital) for _ in range(count))
