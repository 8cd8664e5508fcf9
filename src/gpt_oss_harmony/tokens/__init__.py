"""Text as tokens: the vocabulary, the tokenizer, the special tokens.

::

    special_tokens          the markers of the format and their ids
    vocabulary → tokenizer  text to token ids and back
"""
