"""The words that conversations are about: names, cities, groceries, topics.

Some are written down here. The rest are drawn from the vocabulary, so that the model learns to
copy words whatever they mean. Whether a word is kept from training is decided by its hash.
"""

from __future__ import annotations

import functools
import hashlib
from random import Random

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines.demo_model import word_codes

__all__ = [
    "CITIES",
    "ENCODING",
    "GROCERIES",
    "NAMES",
    "NICKNAMES",
    "TOPICS",
    "Part",
    "is_copied",
    "is_held_out",
    "pick",
    "random_words",
]

Part = str
"""What an example is for: ``"train"``, or ``"test"``, of which training sees nothing."""

ENCODING = load_harmony_encoding("HarmonyGptOss")


def _words(text: str) -> list[str]:
    return text.split()


NAMES = _words("""
    Adam Alex Alice Amy Andrew Anna Anthony Barbara Ben Bob Brian Carl Carol Charles Chris Claire
    Daniel David Diana Edward Elena Emily Emma Eric Eva Frank Fred George Grace Hannah Harry Helen
    Henry Ivan Jack James Jane Jason Jessica Joe John Jonathan Joseph Julia Karen Kate Kevin Laura
    Leo Linda Lisa Louis Lucy Luke Maria Mark Martin Mary Max Michael Nick Nina Oliver Oscar Paul
    Peter Philip Rachel Rebecca Richard Robert Rose Ruth Ryan Sam Sarah Simon Sophie Stephen Susan
    Thomas Tim Tom Victor Victoria Walter William
""")

CITIES = _words("""
    Amsterdam Athens Atlanta Baltimore Bangkok Barcelona Beijing Berlin Boston Brussels Budapest
    Cairo Chicago Cleveland Dallas Delhi Denver Detroit Dubai Dublin Edinburgh Florence Frankfurt
    Geneva Hamburg Havana Houston Istanbul Jerusalem Kiev Lagos Lima Lisbon Liverpool London Lyon
    Madrid Manchester Manila Melbourne Memphis Miami Milan Montreal Moscow Mumbai Munich Nairobi
    Naples Nashville Orlando Oslo Paris Philadelphia Phoenix Prague Rome Seattle Seoul Shanghai
    Singapore Stockholm Sydney Tokyo Toronto Vancouver Venice Vienna Warsaw Washington Zurich
    New_York Los_Angeles San_Francisco San_Diego Las_Vegas Mexico_City Cape_Town Tel_Aviv
    Buenos_Aires Rio_de_Janeiro Hong_Kong New_Orleans Salt_Lake_City Santa_Barbara
""")

NICKNAMES = {"SF": "San Francisco", "NYC": "New York", "LA": "Los Angeles"}
"""What a city is called in a question, and its name in a call."""

GROCERIES = _words("""
    apples bacon bananas basil beans beef beer berries bread broccoli butter cake candy carrots
    cereal cheese cherries chicken chips chocolate coffee cookies corn cream cucumber dates eggs
    fish flour fruit garlic ginger grapes ham honey ice jam juice lamb lemon lemons lettuce limes
    mango meat melon milk mint mushrooms mustard noodles nuts oats oil olives onions oranges pasta
    peaches peanuts pears peas pepper pizza plums pork potatoes rice salad salmon salt sauce
    soap soda soup spinach strawberries sugar syrup tea toast tofu tomatoes tuna turkey vanilla
    vinegar water wine yogurt
""")

TOPICS = _words("""
    art astronomy bees birds books bridges cats chess clouds dance dogs dolphins dreams engines
    forests games gardens gold history horses insects islands jazz kites lakes light maps mountains
    movies music oceans painting penguins planets poetry politics rain rivers robots rockets
    sharks ships snow soccer space spiders stars sports trains trees turtles volcanoes whales
    windmills wolves
""")

_KEEP_FROM_TRAINING = 8
"""One word, pair or template in so many."""


_SPOKEN = frozenset(
    _words("""
        acon additional amb associated available blue bon brief capital cer code description did
        format ful ging give good ich included item know later line man more name not open returns
        right run say this today tom tools valid van warm welcome
    """)
)
"""What templates and prompts say by themselves, whole words and pieces: training sees it anyway."""


def is_held_out(text: str) -> bool:
    """Tell whether training must not see a word, a pair of numbers or a template."""
    if text.lower() in _SPOKEN:
        return False
    digest = hashlib.blake2b(text.lower().encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") % _KEEP_FROM_TRAINING == 0


def pick(rng: Random, part: Part, choices: list[str]) -> str:
    """Choose one of those that belong to `part`."""
    while True:
        chosen = rng.choice(choices)
        if is_held_out(chosen) is (part == "test"):
            return chosen


def random_words(rng: Random, part: Part, *, capital: bool) -> str:
    """Choose a word from the vocabulary."""
    return pick(rng, part, _vocabulary_words(capital))


@functools.cache
def _vocabulary_words(capital: bool) -> list[str]:
    """Words that have a code, so that they can be copied, with or without a space before them."""
    texts = (ENCODING.decode([token]) for token in _coded_tokens())
    found = [text[1:] for text in texts if text[0] == " "]
    return [word for word in found if word[0].isupper() is capital]


@functools.cache
def is_copied(words: str) -> bool:
    """Tell whether each word has a code, with a space before the first and without."""
    first = words.split()[0]
    parts = [ENCODING.encode(part) for part in (first, *(f" {word}" for word in words.split()))]
    return all(len(part) == 1 and part[0] in _coded_tokens() for part in parts)


@functools.cache
def _coded_tokens() -> dict[int, None]:
    codes, _ = word_codes()
    return dict.fromkeys(codes.any(axis=1).nonzero()[0].tolist())
