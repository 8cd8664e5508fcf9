"""The guide to problems of fine-tuning: its tests exist, and what no other test holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpt_oss_harmony import Role, load_harmony_encoding
from gpt_oss_harmony.training import IGNORED, RejectedRow, row_examples

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "fine-tuning-problems.md").read_text("utf-8")
ENCODING = load_harmony_encoding("HarmonyGptOss")
ASKED = {"role": "user", "content": "hi"}


def test_every_test_that_the_guide_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", GUIDE))
    files = (ROOT / "tests").rglob("test_*.py")
    defined = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert len(named) > 20
    assert named <= defined


def test_every_problem_has_a_thread_and_a_test() -> None:
    solved, _, others = GUIDE.partition("## Partly, or not at all")
    unsolved, _, tests = others.partition("## The tests")
    problems = re.split(r"^### ", solved, flags=re.MULTILINE)[1:]
    for problem in problems:
        assert "](https://github.com/" in problem, problem
    tested = re.findall(r"^\| (.*?) \| `test_", tests, re.MULTILINE)
    assert tested == [problem.partition("\n")[0] for problem in problems]
    rows = [line for line in unsolved.splitlines() if line.startswith("| ")][1:]
    assert all("](https://github.com/" in row for row in rows)
    assert len(problems) + len(rows) == 28


@pytest.mark.parametrize("reasoning", [None, "", "Simple."])
def test_each_answer_has_its_channel_with_reasoning_or_without(reasoning: str | None) -> None:
    answer = {"role": "assistant", "content": "ho", "thinking": reasoning}
    (example,) = row_examples({"messages": [ASKED, answer]})[1].examples
    learned = ENCODING.decode(label for label in example.labels if label != IGNORED)
    assert learned.endswith("<|channel|>final<|message|>ho<|return|>")
    assert learned.startswith("<|channel|>analysis<|message|>Simple.<|end|>") is bool(reasoning)


def test_raw_output_as_an_answer_is_refused_by_name() -> None:
    raw = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>ho"
    with pytest.raises(RejectedRow, match="put what it marks in fields"):
        row_examples({"messages": [ASKED, {"role": "assistant", "content": raw}]})


def test_an_answer_without_reasoning_is_read_as_an_answer() -> None:
    sampled = '<|channel|>final<|message|>{"issues":[]}<|return|>'
    tokens = ENCODING.encode(sampled, allowed_special="all")
    (message,) = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    assert (message.channel, message.text) == ("final", '{"issues":[]}')
