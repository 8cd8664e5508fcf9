"""The server: the Responses and Chat Completions APIs over any engine (extra ``serve``).

::

    api_error, settings               what goes wrong, what the server is told
    turn_events → turn                a request and an engine to messages, as they are sampled
"""
