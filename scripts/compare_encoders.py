"""Compare the encoder in Python alone, or quicktok, with tiktoken, on random texts.

    python scripts/compare_encoders.py {python,quicktok} [TEXTS] [SEED]

The texts have tokens of the vocabulary, characters of all classes, words that are no tokens, and
what the word pattern treats in its own way: contractions, white space, digits, marks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

from gpt_oss_harmony.tokens.python_encoder import PythonEncoder
from gpt_oss_harmony.tokens.quicktok_core import QuicktokCore
from gpt_oss_harmony.tokens.special_tokens import FIRST_SPECIAL
from gpt_oss_harmony.tokens.tiktoken_core import TiktokenCore
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

BATCH = 1000
ENCODERS: dict[str, type[PythonEncoder | QuicktokCore]] = {
    "python": PythonEncoder,
    "quicktok": QuicktokCore,
}
VOCABULARY = load_vocabulary()
TIKTOKEN = TiktokenCore(VOCABULARY.ranks())
SNIPPETS = (
    *("'s", "'LL", "'rE", "'ſ", "'", " ", "  ", "\n", "\r\n", "\t", "\u3000", "\x85", "\x1c", "/"),
    *("!", "…", "://", "{\"", "<|end|>", "\u0301", "\u200d", "ǅ", "ʰ", "ª", "²", "٣", "🏰", "𐐨"),
)  # fmt: skip
PLANES = ((0, 0x250), (0x250, 0x3000), (0x3000, 0xD800), (0xE000, 0x10000), (0x10000, 0x20000))


def token(random: Random) -> str:
    """The text of a token; some are parts of a character."""
    return VOCABULARY[random.randrange(FIRST_SPECIAL)].decode("utf-8", "replace")


def character(random: Random) -> str:
    return chr(random.randrange(*random.choice(PLANES)))


def unknown_word(random: Random) -> str:
    letters = random.choice(("etaoinshrdlu", "ETAOINSHRDLU", "àéîõüßñ", "абвгдежз", "0123456789"))
    return "".join(random.choices(letters, k=random.randint(1, 30)))


def snippet(random: Random) -> str:
    return random.choice(SNIPPETS) * random.choice((1, 1, 1, 2, 5))


PARTS: tuple[Callable[[Random], str], ...] = (
    token,
    token,
    snippet,
    snippet,
    unknown_word,
    character,
)


def text(random: Random) -> str:
    return "".join(random.choice(PARTS)(random) for _ in range(random.randint(1, 12)))


def compare(encoder: PythonEncoder | QuicktokCore, seed: int, count: int) -> str | None:
    """Return the first text with other tokens; None if all have the same."""
    random = Random(seed)
    texts = [text(random) for _ in range(count)]
    expected = TIKTOKEN.encode_many(texts)
    for one, tokens, wanted in zip(texts, encoder.encode_many(texts), expected, strict=True):
        if list(tokens) != list(wanted):
            return one
    return None


def main() -> None:
    name, *numbers = sys.argv[1:]
    encoder = ENCODERS[name]()
    arguments = [int(number) for number in numbers]
    count, seed = (*arguments, *(100_000, 0)[len(arguments) :])
    for batch in range(count // BATCH):
        different = compare(encoder, seed * 10**9 + batch, BATCH)
        if different is not None:
            raise SystemExit(f"batch {batch}: other tokens for {different!r}")
    print(f"{count // BATCH * BATCH:,} texts have the same tokens")


if __name__ == "__main__":
    main()
