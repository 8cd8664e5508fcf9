"""Training data: conversations to the tokens that a model sees, and which of them it learns.

::

    options                      what is learned, and how it is rendered
    turn_plan → windows          which messages go into which sequence
    example → examples           sequences: ids, labels, and where each token comes from
    inference                    a check: what is learned follows the prompts of inference
    token_sequence               what was sampled, carried on for reinforcement learning
    packing                      several examples in one sequence
    template_difference          where a chat template parts from harmony
    rows → files                 data sets of any size (extra ``train``)
"""

from .example import IGNORED, TokenSpan, TrainingExample
from .examples import ReadExamples, read_examples, training_examples
from .inference import PromptDifference, find_prompt_difference, inference_prompt
from .options import TrainingOptions
from .packing import PackedSequence, pack, packed_places
from .template_difference import TemplateDifference, find_template_difference
from .token_sequence import TokenSequence

__all__ = [
    "IGNORED",
    "PackedSequence",
    "PromptDifference",
    "ReadExamples",
    "TemplateDifference",
    "TokenSequence",
    "TokenSpan",
    "TrainingExample",
    "TrainingOptions",
    "find_prompt_difference",
    "find_template_difference",
    "inference_prompt",
    "pack",
    "packed_places",
    "read_examples",
    "training_examples",
]
