"""Messages to tokens.

::

    headers          messages' headers as text and special tokens
    system_prompt    system and developer messages as text
    segments         runs of tokens with their message and kind
    history          which reasoning a prompt leaves out
    cache            bounded caches, and their keys
    renderer         conversations to segments; rendered messages are cached
"""
