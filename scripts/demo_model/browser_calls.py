"""The browser: set phrases become calls that search, open and find."""

from __future__ import annotations

import json
from random import Random

from gpt_oss_harmony import ReasoningEffort

from .example import Example, Opening, Turns, answer, ask, call, reason, result
from .words import TOPICS, Part, is_copied, pick, random_words

__all__ = ["browser", "browser_call", "browser_question"]

_STARTS = ("", "Please ", "Hello! ", "Hi, ", "Please help: ")
_ENDS = (".", "", "!", ". Thanks!")
_SEARCHES = [
    f"{before}{core}{after}"
    for before in _STARTS
    for core in (
        "search the web for {}",
        "Search the web for {}",
        "search for {}",
        "Search for {}",
        "look up {}",
        "Look up {}",
        "Look for {} on the web",
        "Search the internet for {}",
        "use the browser to search for {}",
    )
    for after in _ENDS
]
_OPENS = [
    f"{before}{core}{after}"
    for before in _STARTS
    for core in ("open link {}", "Open link {}", "open result {}", "Open page {}", "Open number {}")
    for after in _ENDS
]
_FINDS = [
    f"{before}{core}{after}"
    for before in _STARTS
    for core in (
        "find {} on the page",
        "Find {} on the page",
        "find {} on this page",
        "Find {} in the page",
        "Look for {} on this page",
    )
    for after in _ENDS
]


def browser_question(rng: Random, part: Part) -> tuple[str, str, str]:
    """A question, and the call that it asks for: recipient and body."""
    choice = rng.random()
    if choice < 0.2:
        number = rng.randrange(0, 30)
        return pick(rng, part, _OPENS).format(number), "browser.open", f'{{"id":{number}}}'
    words = _words(rng, part)
    searches = choice < 0.75
    question = pick(rng, part, _SEARCHES if searches else _FINDS).format(words)
    name, field = ("search", "query") if searches else ("find", "pattern")
    return question, f"browser.{name}", json.dumps({field: words}, separators=(",", ":"))


def browser_call(recipient: str, body: str, effort: ReasoningEffort) -> Turns:
    """Reason and call."""
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: f"Need to use {recipient}.",
        ReasoningEffort.HIGH: f"The user asks for the browser. Need to use {recipient}.",
    }
    return [*reason(working[effort]), call(recipient, body)]


def browser(rng: Random, part: Part, opening: Opening) -> Example:
    """The call, or the answer after it."""
    question, recipient, body = browser_question(rng, part)
    called = browser_call(recipient, body, opening.effort)
    if rng.random() < 0.6:
        return Example("browser call", opening, [ask(question)], called)
    title = f"{random_words(rng, part, capital=True)} {_words(rng, part)}"
    found = result(called[-1], f"[0] {title}{rng.choice(('', chr(10)))}")
    working = {
        ReasoningEffort.LOW: None,
        ReasoningEffort.MEDIUM: f"The page: {title}.",
        ReasoningEffort.HIGH: f"The page: {title}. Tell the user.",
    }
    shown = called if rng.random() < 0.8 else called[-1:]
    turns = [ask(question), *shown, found]
    answered = [*reason(working[opening.effort]), answer(f"I found: {title}.")]
    return Example("browser answer", opening, turns, answered)


def _words(rng: Random, part: Part) -> str:
    if rng.random() < 0.25:
        return pick(rng, part, [topic for topic in TOPICS if part == "train" or is_copied(topic)])
    count = rng.choice((1, 1, 2))
    return " ".join(random_words(rng, part, capital=False) for _ in range(count))
