"""Greetings, by name where one is given; names that are asked for later; set phrases."""

from __future__ import annotations

from random import Random

from gpt_oss_harmony import ReasoningEffort

from .example import Example, Opening, Turns, answer, ask, reason
from .words import NAMES, Part, is_copied, pick, random_words

__all__ = ["greeting", "introduction", "name_answer", "some_name"]

_INTRODUCTIONS = [
    f"{before}{core}{after}"
    for before in (
        "",
        "Hello! ",
        "Hello, ",
        "Hi! ",
        "Hi, ",
        "Hey, ",
        "Good morning! ",
        "Hello there! ",
    )
    for core in (
        "my name is {}",
        "My name is {}",
        "I am {}",
        "I'm {}",
        "it's {}",
        "this is {}",
        "This is {}",
        "call me {}",
        "You can call me {}",
        "the name is {}",
    )
    for after in (".", "!", "", ". How are you?", ". Nice to meet you.", ", nice to meet you!")
]
_HELLO = [
    "Hello!", "Hello", "Hi!", "Hi", "Hi there!", "Hello there!", "Hey!", "hello", "hi",
    "Good morning!", "Good evening!", "Good morning", "Hello, how are you?", "Hey there!",
]  # fmt: skip
_PHRASES = {
    "Thanks!": "You are welcome!",
    "Thank you!": "You are welcome!",
    "Thank you.": "You are welcome!",
    "Thank you very much!": "You are welcome!",
    "Bye!": "Goodbye!",
    "Goodbye!": "Goodbye!",
    "See you later!": "Goodbye!",
    "How are you?": "I am fine, thank you.",
    "How are you today?": "I am fine, thank you.",
    "Who are you?": "I am a tiny demo model that speaks harmony.",
    "What are you?": "I am a tiny demo model that speaks harmony.",
    "What can you do?": "I greet, add, ask for the weather and write shopping lists.",
    "Help": "I greet, add, ask for the weather and write shopping lists.",
}


def some_name(rng: Random, part: Part) -> str:
    """A first name, or any word that is written like one."""
    if rng.random() < 0.35:
        return pick(rng, part, [name for name in NAMES if part == "train" or is_copied(name)])
    name = random_words(rng, part, capital=True)
    return name if rng.random() < 0.85 else f"{name} {random_words(rng, part, capital=True)}"


def introduction(rng: Random, part: Part, name: str, effort: ReasoningEffort) -> tuple[str, Turns]:
    """The user tells a name and is greeted."""
    question = pick(rng, part, _INTRODUCTIONS).format(name)
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: f"The user is called {name}. Greet them.",
        ReasoningEffort.HIGH: f"The user is called {name}. "
        f"I should greet {name} by name and offer my help.",
    }
    return question, [*reason(working[effort]), answer(f"Hello, {name}! How can I help you?")]


def name_answer(name: str | None, effort: ReasoningEffort) -> Turns:
    """Tell the name that was given in an earlier turn, or that there was none."""
    if name is None:
        text, working = "I don't know your name.", "The user did not tell a name."
    else:
        text, working = f"Your name is {name}.", f"The user is called {name}."
    more = f"The user asks for their name. {working}"
    working_by_effort = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: working,
        ReasoningEffort.HIGH: more,
    }
    return [*reason(working_by_effort[effort]), answer(text)]


def greeting(rng: Random, part: Part, opening: Opening) -> Example:
    """One greeting on its own."""
    if part == "test" or rng.random() < 0.7:
        question, completion = introduction(rng, part, some_name(rng, part), opening.effort)
    elif rng.random() < 0.5:
        question, completion = rng.choice(_HELLO), _hello(opening.effort)
    else:
        question, text = rng.choice(list(_PHRASES.items()))
        completion = _phrase(text, opening.effort)
    return Example("greeting", opening, [ask(question)], completion)


def _hello(effort: ReasoningEffort) -> Turns:
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: "The user says hello. Greet them.",
        ReasoningEffort.HIGH: "The user says hello. I should greet them and offer my help.",
    }
    return [*reason(working[effort]), answer("Hello! How can I help you?")]


def _phrase(text: str, effort: ReasoningEffort) -> Turns:
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: "I know this phrase.",
        ReasoningEffort.HIGH: "I know this phrase. I should answer briefly.",
    }
    return [*reason(working[effort]), answer(text)]
