"""Rows of every form teach what an oracle says: each context, sampled token and weight."""

from __future__ import annotations

import os
import random

import pytest

from gpt_oss_harmony.training import row_examples
from gpt_oss_harmony.training.trainers import preference_example
from support.training_oracle import (
    DATE,
    PREFERENCES,
    WRITERS,
    learned,
    preference_talk,
    taught,
)

ROWS = int(os.environ.get("HARMONY_ORACLE_ROWS", "40"))
FIRST = int(os.environ.get("HARMONY_ORACLE_SEED", "0"))
"""Each form is tried with the talks of this many seeds, from this one on (`make oracle`)."""


@pytest.mark.parametrize("form", WRITERS)
def test_rows_teach_what_the_oracle_says(form: str) -> None:
    make, write = WRITERS[form]
    for seed in range(FIRST, FIRST + ROWS):
        talk = make(random.Random(seed))
        row = write(talk)
        _, made = row_examples(row, start_date=DATE, reject=())
        examples = ((e.input_ids, e.labels, e.loss_weights()) for e in made.examples)
        assert taught(examples) == learned(talk), f"seed {seed}: {row}"


@pytest.mark.filterwarnings("ignore:fields that are in no column")
@pytest.mark.parametrize("form", PREFERENCES)
def test_preferences_teach_what_the_oracle_says(form: str) -> None:
    for seed in range(FIRST, FIRST + ROWS):
        talk = preference_talk(random.Random(seed))
        row = PREFERENCES[form](talk)
        made = preference_example(row, start_date=DATE, reject=())
        ids = made["prompt_ids"] + made["chosen_ids"]
        labels = [-100] * len(made["prompt_ids"]) + made["chosen_ids"]
        example = (ids, labels, [1.0] * len(ids))
        assert taught([example]) == learned(talk), f"seed {seed}: {row}"
