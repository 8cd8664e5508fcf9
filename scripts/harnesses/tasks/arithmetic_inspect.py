"""Sums as an evaluation of inspect-ai; the number in the answer counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

QUESTIONS = Path(__file__).with_name("questions.jsonl")


def sample(row: dict[str, Any]) -> Sample:
    """Read a question."""
    return Sample(input=row["question"], target=row["choices"][row["answer"]])


@task
def arithmetic() -> Task:
    """Ask each question once."""
    return Task(json_dataset(str(QUESTIONS), sample), solver=generate(), scorer=includes())
