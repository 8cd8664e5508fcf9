"""Shopping lists: JSON where the developer asks for it, else lines."""

from __future__ import annotations

import json
from random import Random

from gpt_oss_harmony import ReasoningEffort

from .example import Example, Opening, Turns, answer, ask, reason
from .words import GROCERIES, Part, is_copied, pick, random_words

__all__ = ["shopping", "shopping_turn"]

_QUESTIONS = [
    f"{before}{core}{after}"
    for before in ("", "Hello! ", "Hi, ", "Please help: ", "Today ", "For the party ")
    for core in (
        "I need to buy {}",
        "I need {}",
        "I want to buy {}",
        "we need to buy {}",
        "We need {}",
        "buy {}",
        "Please buy {}",
        "I have to get {}",
        "Add {} to my list",
        "Put {} on the shopping list",
        "My shopping list: {}",
    )
    for after in (".", "", "!", ". Thanks!", " please")
]
_COUNTS = ["", "One item.", "Two items.", "Three items.", "Four items."]


def shopping(rng: Random, part: Part, opening: Opening) -> Example:
    """One list on its own."""
    question, completion = shopping_turn(rng, part, opening)
    return Example("shopping", opening, [ask(question)], completion)


def shopping_turn(rng: Random, part: Part, opening: Opening) -> tuple[str, Turns]:
    """What to buy, and the list."""
    items = _items(rng, part, rng.randint(1, 4))
    if part == "train" and rng.random() < 0.02:
        items = ["coffee", "soda", "eggs"]
    plain = part == "train" and rng.random() < 0.2
    template = "I need to buy {}" if plain else pick(rng, part, _QUESTIONS)
    question = template.format(_spoken(items, rng))
    if opening.shopping:
        text = json.dumps({"items": items}, separators=(",", ":"))
    else:
        text = "\n".join(f"- {item}" for item in items)
    listed = ", ".join(items)
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: f"The items: {listed}.",
        ReasoningEffort.HIGH: f"The items: {listed}. {_COUNTS[len(items)]} "
        f"{'Answer as JSON.' if opening.shopping else 'Write a list.'}",
    }
    return question, [*reason(working[opening.effort]), answer(text)]


def _items(rng: Random, part: Part, count: int) -> list[str]:
    """Different ones: what follows an item is told by the item."""
    items: list[str] = []
    while len(items) < count:
        item = _item(rng, part)
        if item not in items:
            items.append(item)
    return items


def _item(rng: Random, part: Part) -> str:
    if rng.random() < 0.4:
        return pick(rng, part, [item for item in GROCERIES if part == "train" or is_copied(item)])
    return random_words(rng, part, capital=False)


def _spoken(items: list[str], rng: Random) -> str:
    if len(items) == 1:
        return items[0]
    last = rng.choice((" and ", " and ", ", and "))
    return f"{', '.join(items[:-1])}{last}{items[-1]}"
