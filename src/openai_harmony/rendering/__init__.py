"""Messages to tokens.

::

    headers, system_prompt   the texts of headers, system and developer messages
    segments                 tokens that know their message and kind
    history                  which reasoning a prompt leaves out
    cache → renderer         conversations to segments; what was rendered is kept
"""
