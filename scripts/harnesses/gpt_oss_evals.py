"""Run gpt-oss's own evaluations with the questions of a file in place of AIME's.

    python gpt_oss_evals.py QUESTIONS OPTIONS_OF_GPT_OSS_EVALS ...

AIME is read from the network, and its prompt is beyond the demo model, which gets the question
alone. The requests, the reading of answers and the scores stay as they are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas
from gpt_oss.evals import aime_eval
from gpt_oss.evals.__main__ import main


def questions(address: str, **_: Any) -> pandas.DataFrame:
    """Return the questions for AIME's first part, and none for the second."""
    if "aime2025-II." in address:
        return pandas.DataFrame(columns=["question", "answer"])
    rows = [json.loads(line) for line in Path(PATH).read_text().splitlines()]
    answers = [row["choices"][row["answer"]] for row in rows]
    return pandas.DataFrame({"question": [row["question"] for row in rows], "answer": answers})


PATH = sys.argv.pop(1)
pandas.read_json = questions
aime_eval.AIME_TEMPLATE = "{question}"
main()
