"""The Python notebook: set phrases become code, and its output an answer."""

from __future__ import annotations

from random import Random

from gpt_oss_harmony import ReasoningEffort

from .example import Example, Opening, Turns, answer, ask, call, reason, result
from .words import Part, pick

__all__ = ["python", "python_call", "python_question"]

_QUESTIONS = [
    f"{before}{core}{after}"
    for before in ("", "Please ", "Hello! ", "Hi, ", "Please help: ")
    for core in (
        "use Python to compute {}",
        "Use Python to compute {}",
        "use Python to calculate {}",
        "Use Python to calculate {}",
        "compute {} with Python",
        "Calculate {} with Python",
        "run {} in Python",
        "Run {} in Python",
        "With Python: {}",
        "Ask Python for {}",
    )
    for after in (".", "", "!", ". Thanks!")
]


def python_question(rng: Random, part: Part) -> tuple[str, str, int]:
    """A question, its expression and the value."""
    first, second = (rng.randrange(1, rng.choice((10, 100, 1000))) for _ in range(2))
    sign = rng.choice("+-**")
    value = {"+": first + second, "-": first - second, "*": first * second}[sign]
    expression = f"{first} {sign} {second}"
    return pick(rng, part, _QUESTIONS).format(expression), expression, value


def python_call(expression: str, effort: ReasoningEffort) -> Turns:
    """Reason and call."""
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: "Need to use python.",
        ReasoningEffort.HIGH: f"The user asks for {expression}. Need to use python.",
    }
    return [*reason(working[effort]), call("python", f"print({expression})")]


def python(rng: Random, part: Part, opening: Opening) -> Example:
    """The call, or the answer after it."""
    question, expression, value = python_question(rng, part)
    called = python_call(expression, opening.effort)
    if rng.random() < 0.55:
        return Example("python call", opening, [ask(question)], called)
    found = result(called[-1], f"{value}{rng.choice(('', chr(10)))}")
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: f"The result: {value}.",
        ReasoningEffort.HIGH: f"The result: {value}. Tell the user.",
    }
    shown = called if rng.random() < 0.8 else called[-1:]
    turns = [ask(question), *shown, found]
    answered = [*reason(working[opening.effort]), answer(f"{expression} = {value}.")]
    return Example("python answer", opening, turns, answered)
