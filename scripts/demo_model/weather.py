"""The weather: a function is called with a city, and its result becomes an answer."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from gpt_oss_harmony import Message, ReasoningEffort

from .example import Example, Opening, Turns, answer, ask, call, reason, result
from .words import CITIES, NICKNAMES, Part, is_copied, pick, random_words

__all__ = ["some_city", "weather", "weather_answer", "weather_call", "weather_question"]

_QUESTIONS = [
    f"{before}{core}{middle}{after}"
    for before in ("", "Hello! ", "Please tell me: ", "Hi, ", "Please help: ")
    for core in (
        "What is the weather in {}",
        "What is the weather like in {}",
        "What's the weather in {}",
        "What's the weather like in {}",
        "How is the weather in {}",
        "what is the weather in {}",
        "How warm is it in {}",
        "How cold is it in {}",
        "Is it sunny in {}",
        "Is it cold in {}",
        "Tell me the weather in {}",
        "What is the current weather in {}",
        "What is the temperature in {}",
        "Weather in {}",
        "I want to know the weather in {}",
    )
    for middle in ("", " today", " right now", " now")
    for after in ("?", "?", "? Thanks!", "")
]
_PLAIN = ["What is the weather like in {}?", "What is the weather in {}?", "Is it sunny in {}?"]


def some_city(rng: Random, part: Part) -> tuple[str, str]:
    """A city as it is asked for, and its name in the call."""
    if part == "train" and rng.random() < 0.1:
        return rng.choice(list(NICKNAMES.items()))
    if rng.random() < 0.4:
        known = [city.replace("_", " ") for city in CITIES]
        city = pick(rng, part, [city for city in known if part == "train" or _is_new(city)])
    else:
        city = random_words(rng, part, capital=True)
        for _ in range(rng.choices((0, 1, 2), (0.8, 0.15, 0.05))[0]):
            city += f" {random_words(rng, part, capital=True)}"
    return city, city


def _is_new(city: str) -> bool:
    """Tell whether the model can copy a city, and no nickname stands for it in training."""
    return is_copied(city) and city not in NICKNAMES.values()


def weather_question(rng: Random, part: Part, city: str) -> tuple[str, str | None]:
    """A question, and the unit that it asks for."""
    plain = part == "train" and rng.random() < 0.3
    template = rng.choice(_PLAIN) if plain else pick(rng, part, _QUESTIONS)
    if rng.random() < 0.7:
        return template.format(city), None
    unit = rng.choice(("celsius", "fahrenheit"))
    return template.format(f"{city} in {rng.choice((unit, unit.capitalize()))}"), unit


def weather_call(opening: Opening, city: str, unit: str | None) -> Turns:
    """Reason and call."""
    assert opening.weather is not None
    name = opening.weather.name
    fields = list((opening.weather.parameters or {})["properties"])
    arguments = {"city" if "city" in fields else "location": city}
    if unit is not None:
        arguments["format"] = unit
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: f"Need to use function {name}.",
        ReasoningEffort.HIGH: f"The user asks for the weather in {city}. "
        f"Need to use function {name}.",
    }
    body = json.dumps(arguments, separators=(",", ":"))
    return [*reason(working[opening.effort]), call(f"functions.{name}", body)]


def weather_result(rng: Random, caller: Message) -> tuple[Message, bool, int]:
    """The function's result, in one of several spellings."""
    sunny, degrees = rng.random() < 0.5, rng.randrange(-20, 111)
    fields: list[tuple[str, Any]] = [("sunny", sunny), ("temperature", degrees)]
    rng.shuffle(fields)
    text = json.dumps(dict(fields), separators=rng.choice([(", ", ": "), (",", ":")]))
    if rng.random() < 0.1:
        text = f"{{ {text[1:-1]} }}"
    return result(caller, text), sunny, degrees


def weather_answer(city: str, sunny: bool, degrees: int, effort: ReasoningEffort) -> Turns:
    """Say what the function found."""
    sky = "sunny" if sunny else "not sunny"
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: f"The result: {sky}, {degrees} degrees.",
        ReasoningEffort.HIGH: f"The result: {sky}, {degrees} degrees. Tell the user about {city}.",
    }
    return [*reason(working[effort]), answer(f"It is {sky} in {city}, {degrees} degrees.")]


def weather(rng: Random, part: Part, opening: Opening) -> Example:
    """The call, or the answer after it."""
    asked, city = some_city(rng, part)
    question, unit = weather_question(rng, part, asked)
    called = weather_call(opening, city, unit)
    if rng.random() < 0.55:
        return Example("weather call", opening, [ask(question)], called)
    shown = called if rng.random() < 0.8 else called[-1:]
    found, sunny, degrees = weather_result(rng, called[-1])
    turns = [ask(question), *shown, found]
    answered = weather_answer(city, sunny, degrees, opening.effort)
    return Example("weather answer", opening, turns, answered)
