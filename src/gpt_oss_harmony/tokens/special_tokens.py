"""The special tokens of harmony: the only place that defines their strings and ids.

There are 1,091 special tokens, with the ids 199998 to 201088. Nine have a name; the others are
reserved, and their spelling contains their id. tiktoken's ``o200k_harmony`` has other ones.
"""

from __future__ import annotations

START_OF_TEXT = 199998
END_OF_TEXT = 199999
RETURN = 200002
CONSTRAIN = 200003
CHANNEL = 200005
START = 200006
END = 200007
MESSAGE = 200008
CALL = 200012

FIRST_SPECIAL = START_OF_TEXT
"""The smallest id of a special token; every smaller id is ordinary text."""

VOCABULARY_SIZE = 201089
"""The number of token ids, which start at 0."""

_NAMES = {
    START_OF_TEXT: "startoftext",
    END_OF_TEXT: "endoftext",
    RETURN: "return",
    CONSTRAIN: "constrain",
    CHANNEL: "channel",
    START: "start",
    END: "end",
    MESSAGE: "message",
    CALL: "call",
}

SPECIAL_TEXTS: dict[int, str] = {
    token: f"<|{_NAMES.get(token, f'reserved_{token}')}|>"
    for token in range(FIRST_SPECIAL, VOCABULARY_SIZE)
}
"""Id to spelling, for all special tokens."""

SPECIAL_IDS: dict[str, int] = {text: token for token, text in SPECIAL_TEXTS.items()}
"""Spelling to id, for all special tokens."""

HUB_SPELLINGS: dict[str, int] = {"<|endofprompt|>": 200018}
"""Other spellings in the tokenizers of gpt-oss on the Hugging Face hub. For this library they are
text, as in openai-harmony."""

CHANNEL_TEXT = SPECIAL_TEXTS[CHANNEL]
CONSTRAIN_TEXT = SPECIAL_TEXTS[CONSTRAIN]

HEADER_PARTS = (CHANNEL, CONSTRAIN, MESSAGE)
"""The tokens inside a header, and at its end."""

STOP_TOKENS = frozenset((END, RETURN, CALL))
"""The tokens that end a message."""
