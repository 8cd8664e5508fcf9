"""Training data: conversations to token ids, with labels for the tokens that the model samples.

::

    options                      options: the trained messages, and how they are rendered
    sequence_plan                the messages of each example
    examples                     examples: ids, labels, and the origin of each token
    token_sequence               sampled tokens of several turns, for reinforcement learning
    packing                      several examples in one sequence
    row_forms → chat_rows        the forms of rows, rewritten as requests of Chat Completions
    rows                         rows as conversations and examples
    row_fields, row_checks       the fields of a row that are not learned; what it should not teach
    files                        data sets of any size (extra ``train``)
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
from .packing import BranchedSequence, PackedSequence, branch, pack, packed_groups
from .row_checks import FINDINGS, REJECTED_FINDINGS, Finding
from .rows import ReadRow, RejectedRow, RowExamples, row_examples, stream_examples
from .sequence_plan import untrainable_reason
from .template_difference import TemplateDifference, find_template_difference
from .token_sequence import TokenSequence

__all__ = [
    "FINDINGS",
    "IGNORED",
    "REJECTED_FINDINGS",
    "BranchedSequence",
    "Finding",
    "PackedSequence",
    "PromptDifference",
    "ReadExamples",
    "ReadRow",
    "RejectedRow",
    "RowExamples",
    "TemplateDifference",
    "TokenSequence",
    "TokenSpan",
    "TrainingExample",
    "TrainingOptions",
    "branch",
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
