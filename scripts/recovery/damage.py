"""An independent model of damage: sound turns in, damaged turns and what they meant out.

It damages the text of a turn like a noisy channel, without the parser's table of edits: letters,
words and markers are dropped, doubled, swapped, respelled or replaced, wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import NamedTuple, TypeAlias

TOOLS = ("functions.get_weather", "functions.read_file", "functions.run", "python")
CHANNELS = ("analysis", "commentary", "final")
MARKER = re.compile(r"<\|\w+\|>")
FOREIGN = ("天天", "彩票", "привет", "კომ", "अंक")
JUNK = ("?", "!!", "...", "*)", "<|im_end|>", "</s>", "]", *FOREIGN)
ARGUMENTS = ('{"city": "Paris"}', "{}", '{"a": [1, 2]}')
TEXTS = ("Paris is the capital.", "We need to look it up.", "Done.", "2 + 2 = 4", "Hi!\nAll good.")


BEFORE = "<|channel|>analysis<|message|>Look.<|end|>"


class Meant(NamedTuple):
    """The message that a damaged header stood for."""

    channel: str
    recipient: str | None
    text: str


class Damaged(NamedTuple):
    """A completion whose last header is damaged, and the meaning of all its messages."""

    text: str
    meant: tuple[Meant, ...]
    damage: tuple[str, ...]


Damage: TypeAlias = Callable[[Random, str], str]


def _words(header: str) -> list[str]:
    """Cut a header into markers, white space and words."""
    return [part for part in re.split(r"(<\|\w+\|>|\s+)", header) if part]


def _at_word(change: Callable[[Random, str], str]) -> Damage:
    def damage(random: Random, header: str) -> str:
        words = _words(header)
        places = [i for i, word in enumerate(words) if not MARKER.match(word) and word.strip()]
        place = random.choice(places)
        words[place] = change(random, words[place])
        return "".join(words)

    return damage


def _at_marker(change: Callable[[Random, str], str]) -> Damage:
    def damage(random: Random, header: str) -> str:
        places = [*MARKER.finditer(header)]
        if not places:
            return header
        match = random.choice(places)
        return header[: match.start()] + change(random, match[0]) + header[match.end() :]

    return damage


def _swap(random: Random, word: str) -> str:
    at = random.randrange(max(len(word) - 1, 1))
    return word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]


def _swap_parts(random: Random, header: str) -> str:
    parts = re.split(r"(?=<\|)|\s+(?=to=)", header)
    at = random.randrange(len(parts))
    parts.append(parts.pop(at))
    return " ".join(part.strip() for part in parts)


DAMAGES: dict[str, Damage] = {
    "letters swapped": _at_word(_swap),
    "a letter lost": _at_word(lambda r, w: w[:-1] if r.random() < 0.5 and len(w) > 4 else w[1:]),
    "a letter more": _at_word(lambda r, w: w + r.choice("xs?")),
    "capital letters": _at_word(lambda r, w: r.choice([w.upper(), w.title()])),
    "in quotes": _at_word(lambda r, w: r.choice(['"{}"', "'{}'", "`{}`", "{}:"]).format(w)),
    "a word doubled": _at_word(lambda r, w: w + r.choice(["", " "]) + w),
    "dirt behind": _at_word(lambda r, w: w + r.choice(["", " "]) + r.choice(JUNK)),
    "dirt before": _at_word(lambda r, w: r.choice(JUNK) + r.choice(["", " "]) + w),
    "a marker lost": _at_marker(lambda r, m: r.choice(["", " "])),
    "a marker doubled": _at_marker(lambda r, m: m + m),
    "another marker": _at_marker(lambda r, m: r.choice(["<|channel|>", "<|constrain|>"])),
    "no spaces": lambda r, header: header.replace(" ", ""),
    "another order": _swap_parts,
}


def damaged_turn(random: Random) -> Damaged:
    """Make a turn with one or two kinds of damage in the header of its last message."""
    if random.random() < 0.6:
        tool = random.choice(TOOLS)
        channel = "analysis" if tool == "python" else "commentary"
        name = "code" if tool == "python" else "json"
        kind = random.choice(["", f" {name}", f" <|constrain|>{name}"])
        header = random.choice(
            [f"<|channel|>{channel} to={tool}{kind}", f" to={tool}<|channel|>{channel}{kind}"]
        )
        body = "print(1)" if tool == "python" else random.choice(ARGUMENTS)
        meant, stop = Meant(channel, tool, body), "<|call|>"
    else:
        channel = random.choice(CHANNELS)
        header, body = f"<|channel|>{channel}", random.choice(TEXTS)
        meant = Meant(channel, None, body)
        stop = "<|return|>" if channel == "final" else "<|end|>"
    is_later = random.random() < 0.4
    if is_later:
        header = f"<|start|>assistant{header}"
    names = random.sample([*DAMAGES], random.choice([1, 1, 2]))
    for name in names:
        header = DAMAGES[name](random, header)
    message = "" if random.random() < 0.15 else "<|message|>"
    before = (Meant("analysis", None, "Look."),) if is_later else ()
    text = (BEFORE if is_later else "") + header + message + body + stop
    return Damaged(text, (*before, meant), tuple(names))
