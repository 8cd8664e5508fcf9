"""Messages to tokens.

::

    headers          message headers as text and special tokens
    system_prompt    system and developer messages as text
    segments         tokens with their message and kind
    history          the rules for past reasoning
    cache            bounded caches, and their keys
    renderer         conversations to segments; rendered messages are cached
"""
