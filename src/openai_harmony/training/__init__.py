"""Training data: conversations to the tokens that a model sees, and labels for those it samples.

::

    options                      which messages are trained on, and how they are rendered
    sequence_plan                which messages each example has
    examples                     ids, labels, and where each token comes from
    token_sequence               sampled tokens, carried on for reinforcement learning
    packing                      several examples in one sequence
    chat_rows → rows → files     data sets of any size (extra ``train``)
    template_difference          where a chat template differs from harmony
"""

from .examples import (
    IGNORED,
    PromptDifference,
    ReadExamples,
    TokenSpan,
    TrainingExample,
    find_prompt_difference,
    inference_prompt,
    read_examples,
    training_examples,
)
from .options import TrainingOptions
from .packing import PackedSequence, pack, packed_groups
from .rows import RejectedRow, row_examples, stream_examples
from .sequence_plan import untrainable_reason
from .template_difference import TemplateDifference, find_template_difference
from .token_sequence import TokenSequence

__all__ = [
    "IGNORED",
    "PackedSequence",
    "PromptDifference",
    "ReadExamples",
    "RejectedRow",
    "TemplateDifference",
    "TokenSequence",
    "TokenSpan",
    "TrainingExample",
    "TrainingOptions",
    "find_prompt_difference",
    "find_template_difference",
    "inference_prompt",
    "pack",
    "packed_groups",
    "read_examples",
    "row_examples",
    "stream_examples",
    "training_examples",
    "untrainable_reason",
]
