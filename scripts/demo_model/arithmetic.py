"""Sums and differences of two numbers up to 99, worked out digit by digit; and halves.

The effort decides how much of the working is written: the digits, the digits with their names,
or both and a check.
"""

from __future__ import annotations

from random import Random

from gpt_oss_harmony import ReasoningEffort

from .example import Example, Opening, Turns, answer, ask, reason
from .words import Part, is_held_out, pick

__all__ = ["arithmetic", "arithmetic_turn", "solution"]

_QUESTIONS = [
    f"{before}{core}{after}"
    for before in ("", "Please tell me: ", "Hello! ", "Hi, ", "Quick question: ", "Please help: ")
    for core in (
        "What is {}?",
        "What's {}?",
        "what is {}?",
        "How much is {}?",
        "Calculate {}.",
        "Compute {}.",
        "{}?",
        "{} = ?",
        "What about {}?",
        "And {}?",
        "Can you calculate {}?",
        "What is the result of {}?",
        "Solve {}.",
    )
    for after in ("", " Thanks!", " Thank you.", " Please answer.")
]
_PLAIN = [
    "What is {}?",
    "What about {}?",
    "How much is {}?",
    "What's {}?",
    "Calculate {}.",
    "And {}?",
]


def arithmetic(rng: Random, part: Part, opening: Opening) -> Example:
    """One question on its own."""
    question, completion = arithmetic_turn(rng, part, opening.effort)
    return Example("arithmetic", opening, [ask(question)], completion)


def arithmetic_turn(rng: Random, part: Part, effort: ReasoningEffort) -> tuple[str, Turns]:
    """A question, and the turn that answers it."""
    first, second, sign = _problem(rng, part)
    template = _template(rng, part)
    if part == "train" and rng.random() < 0.02:  # the guide's example
        first, second, sign, template = 2, 2, "+", _PLAIN[0]
    words = {"+": " plus ", "-": " minus ", "/": " divided by "}
    shown = f" {sign} " if rng.random() < 0.75 else words[sign]
    question = template.format(f"{first}{shown}{second}")
    return question, solution(question, first, sign, second, effort)


def solution(question: str, first: int, sign: str, second: int, effort: ReasoningEffort) -> Turns:
    """Reason and answer."""
    if sign == "/":
        value = f"{first // 2}.5" if first % 2 else f"{first // 2}"
    else:
        value = str(first + second if sign == "+" else first - second)
    if (first < 10 and second < 10) or sign == "/":
        working = _simple(question, f"{first} {sign} {second} = {value}", effort)
    else:
        working = _worked(first, sign, second, effort)
    return [*reason(working), answer(f"{first} {sign} {second} = {value}.")]


def _template(rng: Random, part: Part) -> str:
    if part == "train" and rng.random() < 0.3:
        return rng.choice(_PLAIN)
    return pick(rng, part, _QUESTIONS)


def _problem(rng: Random, part: Part) -> tuple[int, int, str]:
    while True:
        sign = rng.choices("+-/", (10, 8, 1))[0]
        if sign == "/":
            first, second = rng.randrange(1, 100), 2
        elif rng.random() < 0.3:
            first, second = rng.randrange(10), rng.randrange(10)
        else:
            first, second = rng.randrange(100), rng.randrange(100)
        if sign == "-" and first < second:
            first, second = second, first
        easy = (first < 10 and second < 10) or sign == "/"  # too few of them to keep any back
        if easy and part == "train":
            return first, second, sign
        if not easy and is_held_out(f"{first}{sign}{second}") is (part == "test"):
            return first, second, sign


def _simple(question: str, equation: str, effort: ReasoningEffort) -> str:
    if effort is ReasoningEffort.LOW:
        return "Simple arithmetic."
    if effort is ReasoningEffort.MEDIUM:
        return f'User asks: "{question}" Simple arithmetic. Provide answer.'
    return f'User asks: "{question}" Simple arithmetic: {equation}. Provide answer.'


def _worked(first: int, sign: str, second: int, effort: ReasoningEffort) -> str:
    ones, tens = _digits(first, sign, second)
    if effort is ReasoningEffort.LOW:
        return f"{ones}, {tens}."
    value = first + second if sign == "+" else first - second
    text = f"{first} {sign} {second}: ones {ones}, tens {tens}. So {value}."
    if effort is ReasoningEffort.MEDIUM:
        return text
    back = (second, first) if sign == "+" else (value, second)
    ones, tens = _digits(back[0], "+", back[1])
    return f"{text} Check {back[0]} + {back[1]}: ones {ones}, tens {tens}. So {sum(back)}."


def _digits(first: int, sign: str, second: int) -> tuple[str, str]:
    """Write how the ones are added or subtracted, then the tens."""
    (a, b), (c, d) = divmod(first, 10), divmod(second, 10)
    if sign == "+":
        carry = " + 1" if b + d > 9 else ""
        return f"{b} + {d} = {b + d}", f"{a} + {c}{carry} = {a + c + (b + d > 9)}"
    if b < d:
        return f"{b + 10} - {d} = {b + 10 - d}", f"{a} - {c} - 1 = {a - c - 1}"
    return f"{b} - {d} = {b - d}", f"{a} - {c} = {a - c}"
