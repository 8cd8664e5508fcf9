"""Several turns: exchanges of the other kinds in a row, and names that are remembered."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .arithmetic import arithmetic
from .browser_calls import browser
from .example import Example, Opening, Turns, ask
from .greetings import greeting, introduction, name_answer, some_name
from .python_calls import python
from .shopping import shopping
from .unknown import unknown
from .weather import weather
from .words import Part

__all__ = ["Maker", "makers", "several_turns"]

Maker = Callable[[Random, Part, Opening], Example]

_NAME_QUESTIONS = ["What is my name?", "what is my name?", "What's my name?", "Who am I?"]
_COUNTS = 1, 1, 2, 2, 3


def makers(opening: Opening) -> list[Maker]:
    """What can be talked about after an opening; what it declares comes often."""
    found: list[Maker] = [greeting, unknown, *[arithmetic] * 3, *[shopping] * 2]
    if opening.weather is not None:
        found += [weather] * 5
    if opening.shopping:
        found += [shopping] * 5
    if opening.python:
        found += [python] * 4
    if opening.browser:
        found += [browser] * 5
    return found


def several_turns(rng: Random, part: Part, opening: Opening) -> Example:
    """Some exchanges, then one more turn."""
    history: Turns = []
    name = None
    for _ in range(rng.choice(_COUNTS)):
        if name is None and rng.random() < 0.3:
            name = some_name(rng, part)
            question, completion = introduction(rng, part, name, opening.effort)
            history += [ask(question), *completion]
        else:
            history += _exchange(rng, part, opening)
    if rng.random() < 0.1:  # as clients do that keep answers only
        history = [message for message in history if message.channel != "analysis"]
    if rng.random() < (0.15 if name is None else 0.5):
        known = name if name is not None else _told(history)
        turns = [ask(rng.choice(_NAME_QUESTIONS))]
        completion = name_answer(known, opening.effort)
    else:
        last = rng.choice(makers(opening))(rng, part, opening)
        turns, completion = last.turns, last.completion
    return Example("several turns", opening, [*history, *turns], completion)


def _exchange(rng: Random, part: Part, opening: Opening) -> Turns:
    """One exchange up to its answer, or what was answered to a call alone."""
    while True:
        example = rng.choice(makers(opening))(rng, part, opening)
        if example.completion[-1].channel == "final":
            return [*example.turns, *example.completion]


def _told(history: Turns) -> str | None:
    """The name that the assistant greeted last, if any."""
    start, end = "Hello, ", "! How can I help you?"
    texts = [getattr(message.content[0], "text", "") for message in history]
    greeted = [text for text in texts if text.startswith(start) and text.endswith(end)]
    return greeted[-1].removeprefix(start).removesuffix(end) if greeted else None
