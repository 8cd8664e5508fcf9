"""The law: whatever a header repeats, its words are never shown, and the call behind it is read."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator

import pytest

from gpt_oss_harmony import Message, Role, StreamableParser, load_harmony_encoding
from support.examples import examples

ENCODING = load_harmony_encoding("HarmonyGptOss")
TOOLS = ("functions.f", "functions.g", "python")
UNITS = (
    " to=functions.f", "to=functions.f", " to=f", " to=to=functions.f", "to=",
    " functions.f", "functions.f", " functions.f json", "functions.fjson",
    " commentary", "commentary", " assistant", "assistantcommentary",
    "assistantcommentary to=functions.f", " json", " code",
    "<|constrain|>json", " <|constrain|>json", "<|channel|>commentary", "<|channel|>analysis",
)  # fmt: skip
BEGINNINGS = (
    "<|channel|>commentary to=functions.f",
    "<|channel|>commentary",
    " to=functions.f<|channel|>commentary",
    "assistantcommentary to=functions.f",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary",
)
HEADER_WORDS = re.compile(r"to=|functions\.f|<\||^\s*(?:assistant|analysis|commentary)")


def loops(seed: int, count: int) -> Iterator[tuple[str, bool]]:
    """Yield headers with a loop in them, and whether a recipient was written behind ``to=``."""
    chance = random.Random(seed)
    for _ in range(count):
        unit = "".join(chance.choices(UNITS, k=chance.choice((1, 1, 2, 3))))
        begun = chance.choice(BEGINNINGS)
        text = begun + unit * chance.choice((3, 5, 12, 33, 60, 150))
        yield text, re.search(r"to=(?:functions\.)?f\b", text) is not None


def read(text: str) -> list[Message]:
    """Parse token by token, and check that the messages at once are the same."""
    tokens = ENCODING.encode(text, allowed_special="all")
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False, tools=TOOLS)
    for token in tokens:
        parser.process(token)
    messages = parser.process_eos().messages
    whole = ENCODING.parse_messages_from_completion_tokens(
        tokens, Role.ASSISTANT, strict=False, tools=TOOLS
    )
    assert whole == messages
    return messages


@pytest.mark.parametrize(
    "ending", ["<|message|>{}<|call|>", " {}<|call|>", "<|call|>", "<|end|>", ""]
)
def test_a_loop_of_header_words_is_never_shown(ending: str) -> None:
    for text, is_addressed in loops(46, examples(200)):
        messages = read(text + ending)
        for message in messages:
            ENCODING.render(message)
            if message.recipient is None and message.channel != "analysis":
                assert not HEADER_WORDS.search(message.text), text
        if is_addressed and ending.startswith("<|message|>"):
            calls = [(m.recipient, m.text) for m in messages if m.text != "Hm."]
            assert calls == [("functions.f", "{}")], text


@pytest.mark.parametrize(
    ("header", "recipient"),
    [
        ("to=" * times + name + kind, "functions.f" if name else None)
        for times, name, kind in itertools.product(
            (1, 2, 3, 9),
            ("functions.f", "f", " functions.f", ""),
            ("", " json", "<|constrain|>json"),
        )
    ],
)
@pytest.mark.parametrize("channel", ["<|channel|>commentary ", "<|channel|>analysis "])
def test_repeated_addresses_can_be_rendered(
    channel: str, header: str, recipient: str | None
) -> None:
    (message,) = read(f"{channel}{header}<|message|>{{}}<|call|>")
    assert (message.recipient, message.text) == (recipient, "{}")
    ENCODING.render(message)
