"""Chat Completions.

::

    completion    turn events to a chat completion, whole and as chunks
    routes        the endpoint
"""
