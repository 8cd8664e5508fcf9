"""Text as tokens: the vocabulary, the tokenizer, the special tokens.

::

    special_tokens             the markers of the format and their ids
    vocabulary                 token ids and their bytes, from a file of the package
    python_encoder → encoder   text to token ids: in Python alone, and by tiktoken
    tokenizer                  text to token ids and back, special tokens too
"""
