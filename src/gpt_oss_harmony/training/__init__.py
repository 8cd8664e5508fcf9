"""Training data: conversations to token ids, with labels for the tokens that the model samples.

::

    options                      options: the trained messages, and how they are rendered
    sequence_plan                the messages of each example
    examples                     examples: ids, labels, and the origin of each token
    token_sequence               sampled tokens of several turns, for reinforcement learning
    packing                      several examples in one sequence
    chat_rows → rows → files     data sets of any size (extra ``train``)
    template_difference          differences between a chat template and harmony
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
