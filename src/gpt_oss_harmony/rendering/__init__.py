"""Messages to tokens.

::

    headers          message headers as text and special tokens
    system_prompt    system and developer messages as text
    history          the rules for past reasoning
    cache            bounded caches, and their keys
    renderer         conversations to segments: tokens with their message and kind; cached
"""
