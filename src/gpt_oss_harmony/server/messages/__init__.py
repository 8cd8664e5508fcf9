"""Anthropic's Messages: a conversation in blocks, an answer in blocks.

::

    answer    turn events to a message: a whole one, and the events of a stream
    routes    the endpoints
"""
