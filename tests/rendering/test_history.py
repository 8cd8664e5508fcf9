"""What is dropped of past reasoning, by each of the two rules, in a table of conversations."""

from __future__ import annotations

import pytest

from gpt_oss_harmony import Author, Message, Role
from gpt_oss_harmony.rendering.history import (
    analysis_before_first_final,
    past_reasoning,
    without_past_reasoning,
)

MESSAGES = {
    "u": (Author(role=Role.USER), None, None),
    "a": (Author(role=Role.ASSISTANT), "analysis", None),  # reasoning
    "c": (Author(role=Role.ASSISTANT), "commentary", None),
    "f": (Author(role=Role.ASSISTANT), "final", None),
    "p": (Author(role=Role.ASSISTANT), "analysis", "python"),
    "P": (Author(role=Role.TOOL, name="python"), "analysis", "assistant"),
    "b": (Author(role=Role.ASSISTANT), "analysis", "browser.search"),
    "B": (Author(role=Role.TOOL, name="browser.search"), "analysis", "assistant"),
    "x": (Author(role=Role.ASSISTANT), "analysis", "functions.f"),
    "X": (Author(role=Role.TOOL, name="functions.f"), "analysis", "assistant"),
    "F": (Author(role=Role.USER), "final", None),  # strange, but it can be built
}
"""A letter for each kind of message."""


def messages(letters: str) -> list[Message]:
    return [
        Message(author=author, content=[], channel=channel, recipient=recipient)
        for author, channel, recipient in map(MESSAGES.__getitem__, letters)
    ]


@pytest.mark.parametrize(
    ("letters", "by_turn", "reference"),
    [
        ("", "", ""),
        ("ua", "ua", "ua"),
        ("uaf", "uf", "uf"),
        ("uafu", "ufu", "ufu"),
        ("uafuaf", "ufuf", "ufuaf"),  # the reference looks at the first answer alone
        ("uafuaxX", "ufuaxX", "uafuaxX"),  # the reasoning of an unfinished turn stays
        ("uaxXf", "uxXf", "uf"),  # calls of functions are no reasoning
        ("uapPf", "uf", "uf"),  # calls of built-in tools are
        ("uabBf", "uf", "uf"),
        ("uacf", "ucf", "ucf"),
        ("uafap", "ufap", "uafap"),
        ("uaF", "uaF", "uaF"),
        ("uaFaf", "uFf", "uFaf"),  # an answer is the assistant's
        ("ufa", "ufa", "ufa"),
    ],
)
def test_what_is_left(letters: str, by_turn: str, reference: str) -> None:
    conversation = messages(letters)
    kept = "".join(c for i, c in enumerate(letters) if i not in past_reasoning(conversation))
    assert kept == by_turn
    assert without_past_reasoning(conversation) == messages(by_turn)
    dropped = analysis_before_first_final(conversation)
    assert "".join(c for i, c in enumerate(letters) if i not in dropped) == reference
