"""The interfaces of other trainers; each module only needs the package that it is for.

::

    branched_batch       branched sequences, with their masks
    chat_tokens          a chat as tokens, with the message that each token comes from
    preferences          preferences, in pairs and with labels, and rollouts
    renderers            a renderer for PrimeIntellect's ``renderers``, which verifiers uses
    tinker               a renderer for tinker-cookbook
"""

from .branched_batch import BranchedCollator
from .chat_tokens import ChatTokens, chat_prompt, chat_sequence, read_completion, training_chats
from .preferences import preference_example, rollout_columns, unpaired_preference_example

__all__ = [
    "BranchedCollator",
    "ChatTokens",
    "chat_prompt",
    "chat_sequence",
    "preference_example",
    "read_completion",
    "rollout_columns",
    "training_chats",
    "unpaired_preference_example",
]
